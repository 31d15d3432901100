import Basics
import Foundation
package import Logging
import SQL
import Synchronization

/// Wakes clients that wait for a user's events.
package final class EventNotifier: Sendable {
  /// Maximum number of waiting clients of a user; further ones are answered at once.
  static let maximumWaiters = 20

  private struct State {
    var waiters: [Int64: [UUID: AsyncStream<Void>.Continuation]] = [:]
    var isClosed = false
  }

  private let state = Mutex(State())

  package init() {}

  /// Number of waiting clients.
  package var waiters: Int { state.withLock { $0.waiters.values.reduce(0) { $0 + $1.count } } }

  /// Wakes the clients that wait for a user's events.
  @Sendable package func wake(user: Int64) {
    for waiter in state.withLock({ $0.waiters[user] })?.values ?? [:].values { waiter.yield() }
  }

  /// Wakes all clients for good, because the service ends.
  package func close() {
    let waiters = state.withLock { state in
      state.isClosed = true
      return state.waiters.values.flatMap(\.values)
    }
    for waiter in waiters { waiter.finish() }
  }

  /// Runs `body` with a stream that yields on each change from now on, and finishes when the service ends;
  /// returns nil if too many wait.
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

  /// Detects changes of devices by other processes, such as another node on the same database or a command. It polls
  /// with one small query each half second, but only while a client waits.
  package func watch(_ devices: Devices, logger: Logger) async {
    var known: [Int64: Int64] = [:]
    await Worker().run {
      let waiting = state.withLock { Array($0.waiters.keys) }
      let latest = try await devices.lastEvents(of: waiting)
      for user in waiting where latest[user] != known[user] { wake(user: user) }
      known = latest
      return false
    } onError: { error in
      logger.warning(
        "device events cannot be watched", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }
}
