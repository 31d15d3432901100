import Foundation
import Synchronization
import Timing

/// One thread's connection, made when it is needed and made again when it broke.
final class PostgreSQLWorker: Sendable {
  private static let backoff = Backoff(first: 0.05, longest: 1, shares: 0.5...1)

  private let settings: PostgreSQLSettings
  private let preparedStatements: Int

  /// Locked by the worker's own thread only, hence never waited for.
  private let handle = Mutex<PostgreSQLHandle?>(nil)

  init(_ settings: PostgreSQLSettings, preparedStatements: Int) {
    self.settings = settings
    self.preparedStatements = preparedStatements
  }

  /// Runs `body` with a connection that is usable as far as can be known without asking the server.
  ///
  /// - Throws: ``DatabaseError/Code/connectionLost`` if until `deadline` no connection could be made.
  func withConnection<Result>(
    until deadline: ContinuousClock.Instant, _ body: (PostgreSQLHandle) -> Result
  ) throws(DatabaseError) -> Result {
    try handle.withLock { held throws(DatabaseError) in
      if let old = held, !old.isUsable() { held = nil }
      let handle = if let held { held } else { try connect(until: deadline) }
      held = handle
      handle.longestSilence = settings.longestSilence
      defer { if handle.isLost { held = nil } }
      let result = body(handle)
      handle.deallocateSuperfluous()
      return result
    }
  }

  /// Closes the connection.
  func close() { handle.withLock { $0 = nil } }

  private func connect(until deadline: ContinuousClock.Instant) throws(DatabaseError) -> PostgreSQLHandle {
    var tries = 0
    while true {
      do {
        return try PostgreSQLHandle(settings, preparedStatements: preparedStatements)
      } catch {
        tries += 1
        let pause = Self.backoff.pause(after: tries)
        guard ContinuousClock.now + .seconds(pause) < deadline else { throw error }
        // The thread is the worker's own: nobody else waits on it.
        Thread.sleep(forTimeInterval: pause)
      }
    }
  }
}
