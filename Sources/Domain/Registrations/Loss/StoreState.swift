package import Foundation
package import SQL

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

  package init(id: [UInt8], devices: Int64, removed: Int64 = 0) {
    self.id = id
    self.devices = devices
    self.removed = removed
  }
}

extension Database {
  /// Reads the state of the database, counting at most `limit` devices. The first call gives the database its
  /// id.
  package func storeState(countingTo limit: Int64 = .max) async throws -> StoreState {
    let row = try await query(
      """
      SELECT value AS id,
        (SELECT COUNT(*) FROM (SELECT 1 FROM registrations WHERE seen_at IS NOT NULL LIMIT $1) AS counted) AS devices,
        COALESCE((SELECT devices FROM nextcloud_removals WHERE id = 1), 0) AS removed,
        (SELECT value FROM metadata WHERE name = 'store_heartbeat') AS heartbeat
      FROM metadata WHERE name = 'store'
      """, .integer(limit)
    ).first
    guard let row else {
      let id = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
      try await execute(
        "INSERT INTO metadata (name, value) VALUES ('store', $1) ON CONFLICT (name) DO NOTHING", .bytes(id))
      return try await storeState(countingTo: limit)
    }
    var state = StoreState(
      id: try row.bytes("id"), devices: try row.int64("devices"), removed: try row.int64("removed"))
    state.heartbeat = try row.optionalBytes("heartbeat").map(Date.init(heartbeat:))
    state.timeline = try await timeline()
    return state
  }

  /// Writes that a service uses the database.
  func beat(at now: Date) async throws {
    try await execute(
      """
      INSERT INTO metadata (name, value) VALUES ('store_heartbeat', $1)
      ON CONFLICT (name) DO UPDATE SET value = excluded.value WHERE metadata.value < excluded.value
      """, .bytes(now.heartbeat))
  }
}

extension Date {
  /// Milliseconds since 1970 in 8 bytes, big-endian, so that later times compare as greater.
  fileprivate var heartbeat: [UInt8] { withUnsafeBytes(of: milliseconds.bigEndian, Array.init) }

  fileprivate init(heartbeat bytes: [UInt8]) {
    self = Date(milliseconds: bytes.reduce(0) { $0 << 8 | Int64($1) })
  }
}
