import Foundation
import SQL
import Synchronization

/// The random number that every session of the operator's pages is bound to. Signing out replaces it in the database, which
/// ends every session on every node, also in a cookie that somebody has copied.
final class AdminSessions: Sendable {
  private static let row = "admin_sessions"
  private let database: any Database
  /// As last read: with a database that does not answer the pages still open.
  private let known = Mutex<[UInt8]?>(nil)

  init(database: any Database) { self.database = database }

  /// Empty until the first time that somebody signs out.
  var number: [UInt8] {
    get async throws {
      do {
        let rows = try await DatabaseWait.limit(eachCallTo: .seconds(3)) {
          try await database.lookUp("SELECT value FROM metadata WHERE name = $1", .text(Self.row))
        }
        let number = try rows.first?.bytes("value") ?? []
        known.withLock { $0 = number }
        return number
      } catch {
        guard let number = known.withLock({ $0 }) else { throw error }
        return number
      }
    }
  }

  func end() async throws {
    let number = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
    try await DatabaseWait.limit(eachCallTo: .seconds(3)) {
      _ = try await database.run(
        """
        INSERT INTO metadata (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value
        """, .text(Self.row), .bytes(number))
    }
    known.withLock { $0 = number }
  }
}
