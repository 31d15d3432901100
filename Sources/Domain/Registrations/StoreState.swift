package import Foundation
package import SQL
import Sealing

/// The values by which a loss of the database is detected.
package struct StoreState: Sendable, Hashable {
  /// Random id of the database; 16 bytes.
  package let id: [UInt8]
  /// The number of devices at the Nextcloud push proxy.
  package let devices: Int64
  /// The number of them that this program has ever removed.
  package var removed: Int64
  /// PostgreSQL's timeline, 8 hex digits: a standby that is promoted begins another one, and so does a recovery
  /// to a point in time. It is nil on SQLite, and where the server does not tell it.
  package var timeline: String?
  /// The last time that a service used it; it never goes back.
  package var heartbeat: Date?
  /// What this `Keys` folder has left there last; 0 for nothing. It rises each time.
  package var mark: Int64 = 0
  /// When a node, any of them, last found that it had lost something.
  var lostAt: Date?

  package init(id: [UInt8], devices: Int64, removed: Int64 = 0) {
    self.id = id
    self.devices = devices
    self.removed = removed
  }
}

extension Database {
  /// Reads the state of the database, counting at most `limit` devices. The first call gives the database its
  /// id.
  ///
  /// - Parameter folder: the id of the `Keys` folder whose mark is read.
  package func storeState(countingTo limit: Int64 = .max, markedBy folder: [UInt8] = []) async throws
    -> StoreState
  {
    let row = try await query(
      """
      SELECT value AS id,
        (SELECT COUNT(*) FROM (SELECT 1 FROM registrations WHERE seen_at IS NOT NULL LIMIT $1) AS counted) AS devices,
        COALESCE((SELECT devices FROM nextcloud_removals WHERE id = 1), 0) AS removed,
        (SELECT value FROM metadata WHERE name = 'store_heartbeat') AS heartbeat,
        (SELECT value FROM metadata WHERE name = 'store_lost_at') AS lost_at,
        (SELECT value FROM metadata WHERE name = $2) AS mark
      FROM metadata WHERE name = 'store'
      """, .integer(limit), .text(Self.markName(folder))
    ).first
    guard let row else {
      let id = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
      try await execute(
        "INSERT INTO metadata (name, value) VALUES ('store', $1) ON CONFLICT (name) DO NOTHING", .bytes(id))
      return try await storeState(countingTo: limit, markedBy: folder)
    }
    var state = StoreState(
      id: try row.bytes("id"), devices: try row.int64("devices"), removed: try row.int64("removed"))
    state.heartbeat = try row.optionalBytes("heartbeat").map { Date(milliseconds: Int64(ascending: $0)) }
    state.lostAt = try row.optionalBytes("lost_at").map { Date(milliseconds: Int64(ascending: $0)) }
    state.mark = try row.optionalBytes("mark").map(Int64.init(ascending:)) ?? 0
    state.timeline = try await timeline()
    return state
  }

  /// The id of the database; nil if no service has used it yet. Writes nothing.
  package func storeID() async throws -> [UInt8]? {
    try await query("SELECT value FROM metadata WHERE name = 'store'").first?.bytes("value")
  }

  /// The id of the newest registration; 0 if there is none.
  func newestRegistration() async throws -> Int64 {
    try await query("SELECT COALESCE(MAX(id), 0) AS id FROM registrations").first?.int64("id") ?? 0
  }

  /// Writes that a service uses the database. None of these values ever goes back.
  ///
  /// - Parameters:
  ///   - mark: of this `Keys` folder; nil: it leaves none.
  ///   - lostAt: when the database was found to have lost something; nil: it was not.
  func beat(at now: Date, mark: (folder: [UInt8], count: Int64)? = nil, lostAt: Date? = nil) async throws {
    var values = [("store_heartbeat", now.milliseconds)]
    if let lostAt { values.append(("store_lost_at", lostAt.milliseconds)) }
    if let mark { values.append((Self.markName(mark.folder), mark.count)) }
    let rows = values.indices.map { "(\(Statement.placeholders(2, from: $0 * 2 + 1)))" }
    // One statement, so that nodes lock its rows in the same order.
    _ = try await execute(
      Statement(
        """
        INSERT INTO metadata (name, value) VALUES \(rows.joined(separator: ", "))
        ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE metadata.value < excluded.value
        """, arguments: values.flatMap { [.text($0), .bytes($1.ascending)] }))
  }

  private static func markName(_ folder: [UInt8]) -> String { "store_mark.\(Base64.encode(folder))" }
}

extension Int64 {
  /// Big-endian, so that higher numbers compare as greater.
  fileprivate var ascending: [UInt8] { withUnsafeBytes(of: bigEndian, Array.init) }

  fileprivate init(ascending bytes: [UInt8]) { self = bytes.reduce(0) { $0 << 8 | Int64($1) } }
}
