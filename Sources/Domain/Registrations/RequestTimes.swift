import Basics
package import Foundation
package import SQL
import Synchronization

/// Times of the last call of each server and realm. They are collected in memory and written together about
/// once a second, so that a request costs no write.
package final class RequestTimes: Sendable {
  /// A row of `remote_servers` or `remote_realms`.
  private struct Caller: Hashable {
    let table: String
    let id: Int64
  }

  private let database: any Database
  private let now: @Sendable () -> Date
  private let latest = Mutex<[Caller: Date]>([:])

  package init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// Records a call of a server.
  package func record(server: Int64) { record(Caller(table: "remote_servers", id: server)) }

  /// Records a call for a realm.
  package func record(realm: Int64) { record(Caller(table: "remote_realms", id: realm)) }

  private func record(_ caller: Caller) {
    let now = now()
    latest.withLock { $0[caller] = now }
  }

  /// Writes the collected times. What could not be written is kept for the next time.
  package func flush() async throws {
    let latest = latest.withLock { latest in
      defer { latest = [:] }
      return latest
    }
    guard !latest.isEmpty else { return }
    do {
      try await database.write { connection in
        for (caller, time) in latest {
          // The later time stays, because two processes may write times of the same server.
          try connection.run(
            """
            UPDATE \(caller.table) SET last_request_at = $2
            WHERE id = $1 AND (last_request_at IS NULL OR last_request_at < $2)
            """, .integer(caller.id), .integer(time.milliseconds))
        }
      }
    } catch {
      self.latest.withLock { $0.merge(latest) { newer, _ in newer } }
      throw error
    }
  }

  /// Flushes every `interval` until the task is cancelled, and once more then. Failures are reported and do
  /// not stop the collecting.
  package func run(
    every interval: Duration = .seconds(1), onFailure: @Sendable (any Error) -> Void = { _ in }
  ) async {
    await every(interval, flush, onError: onFailure)
    // Writes what came after the last flush.
    do { try await flush() } catch { onFailure(error) }
  }
}
