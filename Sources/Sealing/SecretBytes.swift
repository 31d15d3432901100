internal import CSodium

/// Key material in memory of its own, copied nowhere by itself and wiped when the last reference goes.
final class SecretBytes: Sendable {
  // The memory is written before the instance is shared and only read afterwards.
  private nonisolated(unsafe) let memory: UnsafeMutableBufferPointer<UInt8>

  /// Copies `bytes`; the caller wipes its own copy.
  init(_ bytes: some Collection<UInt8>) {
    memory = .allocate(capacity: bytes.count)
    _ = memory.initialize(fromContentsOf: bytes)
  }

  deinit {
    sodium_memzero(memory.baseAddress, memory.count)
    memory.deallocate()
  }

  /// The bytes, valid only inside `body`.
  func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
    body(UnsafeBufferPointer(memory))
  }
}

extension [UInt8] {
  /// Overwrites the bytes in a way that the compiler does not leave out; copies that somebody else has stay.
  package mutating func wipe() {
    withUnsafeMutableBytes { sodium_memzero($0.baseAddress, $0.count) }
  }
}

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

/// Random texts for keys and secrets that people and configuration files carry.
package enum RandomText {
  private static let alphanumerics = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789".utf8)

  /// `count` letters and digits, each drawn evenly from 62 by the system's generator.
  package static func alphanumeric(_ count: Int) -> String {
    var generator = SystemRandomNumberGenerator()
    return String(
      decoding: (0..<count).map { _ in
        alphanumerics[Int.random(in: 0..<alphanumerics.count, using: &generator)]
      },
      as: UTF8.self)
  }
}
