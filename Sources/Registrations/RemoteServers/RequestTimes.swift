package import Foundation
package import SQL
internal import Synchronization
internal import Timing

/// When each server and each realm last called. Calls are noted in memory and written down together,
/// about once a second: a request costs no write for them.
package final class RequestTimes: Sendable {
  private struct Latest {
    var servers: [Int64: Date] = [:]
    var realms: [Int64: Date] = [:]
  }

  private let database: any Database
  private let now: @Sendable () -> Date
  private let latest = Mutex(Latest())

  /// Times of the servers and realms in `database`.
  package init(database: any Database, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.now = now
  }

  /// Notes a call of a server.
  package func note(server: Int64) {
    let now = now()
    latest.withLock { $0.servers[server] = now }
  }

  /// Notes a call about a realm.
  package func note(realm: Int64) {
    let now = now()
    latest.withLock { $0.realms[realm] = now }
  }

  /// Writes down what has been noted. What could not be written is kept for the next time.
  package func flush() async throws {
    let latest = latest.withLock { latest in
      defer { latest = Latest() }
      return latest
    }
    guard !latest.servers.isEmpty || !latest.realms.isEmpty else { return }
    do {
      try await database.write { connection in
        for (id, time) in latest.servers {
          try connection.run(Statement(updateServer, .integer(id), .integer(time.milliseconds)))
        }
        for (id, time) in latest.realms {
          try connection.run(Statement(updateRealm, .integer(id), .integer(time.milliseconds)))
        }
      }
    } catch {
      self.latest.withLock { present in
        present.servers.merge(latest.servers) { newer, _ in newer }
        present.realms.merge(latest.realms) { newer, _ in newer }
      }
      throw error
    }
  }

  /// Flushes every `interval` until the task is cancelled, and once more then. A failure is only
  /// reported: the times are noted on.
  package func run(
    every interval: Duration = .seconds(1), onFailure: @Sendable (any Error) -> Void = { _ in }
  ) async {
    func flushOrReport() async {
      do { try await flush() } catch { onFailure(error) }
    }
    await every(interval, flushOrReport)
    // What was noted after the last flush.
    await flushOrReport()
  }
}

// Two processes may note the same server: the later time stays.
private let updateServer = """
  UPDATE remote_servers SET last_request_at = $2
  WHERE id = $1 AND (last_request_at IS NULL OR last_request_at < $2)
  """
private let updateRealm = """
  UPDATE remote_realms SET last_request_at = $2
  WHERE id = $1 AND (last_request_at IS NULL OR last_request_at < $2)
  """
