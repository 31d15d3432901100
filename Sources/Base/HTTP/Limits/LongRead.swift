package import Basics
import NIOCore
import NIOPosix
import Synchronization

/// Reads long inputs on a separate thread, because on the event loop all other requests would wait. The sources of
/// requests take turns there, and very long inputs are read in pieces, so that nobody waits for the whole of another's.
package enum LongRead {
  /// The source of the request that is being answered.
  @TaskLocal package static var source = ClientAddress.loopback

  /// The bytes up to which an input is read on the caller's thread: that takes a few milliseconds.
  package static let short = 128 << 10

  private static let thread = SharedThread<ClientAddress>()

  /// Runs `read` for an input of this many bytes.
  package static func of<Value: Sendable>(
    _ bytes: Int, _ read: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    guard bytes > short else { return try read() }
    return try await piece(read)
  }

  /// Runs a piece of a long input, of a few milliseconds, in the source's turn.
  package static func piece<Value: Sendable>(
    _ read: @escaping @Sendable () throws -> Value
  ) async throws -> Value {
    try await withCheckedThrowingContinuation { continuation in
      thread.add(of: source) { continuation.resume(with: Result(catching: read)) }
    }
  }
}

/// A thread that does the work of several owners in turn, and each owner's work in the order of arrival.
final class SharedThread<Owner: Hashable & Sendable>: Sendable {
  typealias Work = @Sendable () -> Void

  private struct State {
    var isRunning = false
    var waiting = Turns<Owner, Work>()
  }

  private let state = Mutex(State())
  private let thread = NIOThreadPool(numberOfThreads: 1)

  init() { thread.start() }

  func add(of owner: Owner, _ work: @escaping Work) {
    let isIdle = state.withLock { state in
      state.waiting.append(work, of: owner)
      defer { state.isRunning = true }
      return !state.isRunning
    }
    if isIdle { thread.submit { [self] _ in run() } }
  }

  private func run() {
    while let work = next() { work() }
  }

  private func next() -> Work? {
    state.withLock { state in
      let next = state.waiting.next()
      if next == nil { state.isRunning = false }
      return next
    }
  }
}
