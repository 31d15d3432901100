internal import CSodium

/// libsodium, initialised once per process.
enum Sodium {
  /// Touch this before any call into libsodium.
  static let ready: Void = {
    precondition(sodium_init() >= 0, "libsodium could not be initialised: the system gives no random numbers")
  }()

  /// `count` bytes from the system's generator.
  static func randomBytes(_ count: Int) -> [UInt8] {
    ready
    return [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
      if let start = buffer.baseAddress { randombytes_buf(start, count) }
      initialized = count
    }
  }
}
