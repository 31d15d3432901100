package import Foundation
internal import SQL

extension RemoteRealms {
  /// A realm with what it has here.
  package struct Summary: Sendable, Hashable {
    /// nil for legacy registrations of which no realm is known yet.
    package let uuid: UUID?
    /// Its host; empty if no realm is known.
    package let host: String
    package let name: String
    /// Its server has deactivated or deleted it.
    package let isDeactivated: Bool
    /// Its latest call that named it.
    package let lastRequestAt: Date?
    /// E2EE registrations that have not expired.
    package let registrations: Int64
    /// Registrations of the old, unencrypted kind that are left.
    package let legacyRegistrations: Int64
    /// The latest registering, of either kind.
    package let lastRegisteredAt: Date?
  }

  /// The realms of a server, by host. Reads every registration of theirs: for people, not for requests.
  package func summaries(ofServer server: Int64) async throws -> [Summary] {
    let realms = Statement(
      """
      SELECT r.id, r.uuid, r.host, r.name, r.is_deactivated + r.is_locally_deleted, r.last_request_at,
        COUNT(e.id) FILTER (WHERE e.ended_at IS NULL), MAX(e.registered_at)
      FROM remote_realms r LEFT JOIN registrations e ON e.realm_id = r.id AND e.token_id IS NOT NULL
      WHERE r.server_id = $1 GROUP BY r.id ORDER BY r.host, r.id
      """, .integer(server))
    let legacy = Statement(
      """
      SELECT COALESCE(realm_id, 0), COUNT(*), MAX(registered_at) FROM registrations
      WHERE wire = 2 AND server_id = $1 GROUP BY COALESCE(realm_id, 0)
      """, .integer(server))
    return try await database.read { connection in
      var clear: [Int64: (count: Int64, last: Date?)] = [:]
      for row in try connection.query(legacy) {
        clear[try row.int64(0)] = (try row.int64(1), try row.optionalDate(2))
      }
      var summaries = try connection.query(realms).map { row in
        let old = clear[try row.int64(0)]
        return Summary(
          uuid: try row.uuid(1), host: try row.text(2), name: try row.text(3),
          isDeactivated: try row.int64(4) > 0, lastRequestAt: try row.optionalDate(5),
          registrations: try row.int64(6), legacyRegistrations: old?.count ?? 0,
          lastRegisteredAt: [try row.optionalDate(7), old?.last].compactMap(\.self).max())
      }
      if let (count, last) = clear[0] {
        summaries.append(
          Summary(
            uuid: nil, host: "", name: "", isDeactivated: false, lastRequestAt: nil, registrations: 0,
            legacyRegistrations: count, lastRegisteredAt: last))
      }
      return summaries
    }
  }
}
