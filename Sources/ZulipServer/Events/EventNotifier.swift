internal import Foundation
internal import Synchronization

/// Wakes those who wait for a user's events.
package final class EventNotifier: Sendable {
  /// How many may wait for one user; more are answered at once.
  static let maximumWaiters = 20

  private struct State {
    var waiters: [Int64: [UUID: AsyncStream<Void>.Continuation]] = [:]
    var isClosed = false
  }

  private let state = Mutex(State())

  /// A notifier that nobody waits for.
  package init() {}

  /// How many clients wait for events at this moment.
  package var waiters: Int { state.withLock { $0.waiters.values.reduce(0) { $0 + $1.count } } }

  /// The users that somebody waits for.
  var users: [Int64] { state.withLock { Array($0.waiters.keys) } }

  /// Something happened to the devices of this user.
  @Sendable package func ring(user: Int64) {
    for waiter in state.withLock({ $0.waiters[user] })?.values ?? [:].values { waiter.yield() }
  }

  /// The service ends: nobody waits any longer.
  package func close() {
    let waiters = state.withLock { state in
      state.isClosed = true
      return state.waiters.values.flatMap(\.values)
    }
    for waiter in waiters { waiter.finish() }
  }

  /// Runs `body` with a stream that rings from now on and ends with the service; nil where too many wait.
  func listening<Result>(
    to user: Int64, _ body: (AsyncStream<Void>) async throws -> Result
  ) async rethrows -> Result? {
    let id = UUID()
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let isListening = state.withLock { state in
      guard !state.isClosed, state.waiters[user, default: [:]].count < Self.maximumWaiters else {
        return false
      }
      state.waiters[user, default: [:]][id] = continuation
      return true
    }
    guard isListening else { return nil }
    defer {
      state.withLock { state in
        state.waiters[user]?[id] = nil
        if state.waiters[user]?.isEmpty == true { state.waiters[user] = nil }
      }
    }
    return try await body(stream)
  }
}
