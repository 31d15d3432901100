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
