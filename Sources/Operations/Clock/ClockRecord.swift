package import Foundation
internal import Registrations
package import SQL

/// The newest time in the database. Nodes whose clock is trusted write it once a minute, so that one that starts with
/// a wrong clock can tell. `clock trust` writes it as well.
package struct ClockRecord: Sendable {
  private let database: any Database

  /// The record in `database`.
  package init(database: any Database) {
    self.database = database
  }

  /// The newest time; nil if none was written yet.
  package func newest() async throws -> Date? {
    let statement = Statement("SELECT value FROM metadata WHERE name = 'clock'")
    let bytes = try await database.query(statement).first?.bytes(0)
    return bytes.map { Date(milliseconds: $0.reduce(Int64(0)) { $0 << 8 | Int64($1) }) }
  }

  /// Writes it, even if it is earlier than the stored one, which a wrong clock has written then.
  ///
  /// - Returns: the time as it is kept, in whole milliseconds.
  @discardableResult
  package func write(_ time: Date) async throws -> Date {
    let bytes = withUnsafeBytes(of: time.milliseconds.bigEndian) { Array($0) }
    _ = try await database.execute(
      Statement(
        """
        INSERT INTO metadata (name, value) VALUES ('clock', $1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value
        """, .bytes(bytes)))
    return Date(milliseconds: time.milliseconds)
  }
}
