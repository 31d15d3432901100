internal import CSodium

#if canImport(Glibc)
  internal import Glibc
#else
  internal import Darwin
#endif

/// This process's memory, in which keys and push tokens are.
package enum ProcessMemory {
  /// Keeps it from other processes of the same user and out of core dumps, of which a crash would leave one behind.
  /// Another process of the same user can no longer be attached to this one; root's still can.
  ///
  /// - Returns: whether the system has done it.
  package static func hide() -> Bool {
    #if canImport(Glibc)
      let core = __rlimit_resource_t(RLIMIT_CORE.rawValue)
    #else
      let core = RLIMIT_CORE
    #endif
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    let isLimited = setrlimit(core, &none) == 0
    return process_forbid_dumps() == 0 && isLimited
  }
}
