import Registrations
import SQL

/// How many of the devices of chat servers are registered end-to-end encrypted, and how many still as legacy
/// ones (`Documentation/Decisions` 0009).
struct DeviceCounts: Sendable, Hashable {
  /// Devices with legacy registrations, each counted once even if several users share it.
  var legacy: Int64 = 0
  /// Live E2EE registrations.
  var e2ee: Int64 = 0

  /// A realm, by its row id and its server's. Legacy devices whose realm is unknown count as realm 0 of their
  /// server.
  struct RealmKey: Sendable, Hashable {
    let server: Int64
    let realm: Int64
  }

  static func += (left: inout DeviceCounts, right: DeviceCounts) {
    left.legacy += right.legacy
    left.e2ee += right.e2ee
  }

  /// Those of all realms with devices. Reads every registration.
  static func all(in database: any Database) async throws -> [RealmKey: DeviceCounts] {
    let rows = try await database.query(
      Statement(
        """
        SELECT server_id, COALESCE(realm_id, 0) AS realm_id, COUNT(DISTINCT token_hash) AS legacy, 0 AS e2ee
        FROM registrations
        WHERE wire = \(Wire.legacy.sql) GROUP BY server_id, COALESCE(realm_id, 0)
        UNION ALL
        SELECT r.server_id, e.realm_id, 0, e.devices
        FROM (
          SELECT realm_id, COUNT(*) AS devices FROM registrations
          WHERE token_id IS NOT NULL AND ended_at IS NULL GROUP BY realm_id) e
        JOIN remote_realms r ON r.id = e.realm_id
        """))
    return try rows.reduce(into: [:]) { counts, row in
      let realm = RealmKey(server: try row.int64("server_id"), realm: try row.int64("realm_id"))
      counts[realm, default: .init()] += DeviceCounts(
        legacy: try row.int64("legacy"), e2ee: try row.int64("e2ee"))
    }
  }
}
