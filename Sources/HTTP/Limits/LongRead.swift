import NIOPosix

/// Reads what is long on a thread of its own, one at a time: on the event loop, everybody else's requests would wait for
/// it.
package enum LongRead {
  /// What is short is read in a few milliseconds.
  private static let short = 128 << 10

  private static let thread = {
    let thread = NIOThreadPool(numberOfThreads: 1)
    thread.start()
    return thread
  }()

  /// Reads so many bytes.
  package static func of<Value: Sendable>(
    _ bytes: Int, _ read: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    guard bytes > short else { return try read() }
    return try await thread.runIfActive(read)
  }
}
