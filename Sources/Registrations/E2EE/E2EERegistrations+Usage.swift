package import Foundation
internal import SQL
package import Sealing
internal import Storage

extension E2EERegistrations {
  /// How a bouncer key is used.
  package struct KeyUsage: Sendable, Hashable {
    /// The public key in base64.
    package let publicKey: String
    /// Registrations whose latest registering was sealed to it.
    package let registrations: Int64
    /// Those of them that registered in the last 30 days.
    package let recentRegistrations: Int64
    /// The latest registering.
    package let lastUsedAt: Date
  }

  /// The use of each bouncer key that has a registration. Reads every registration: for people and
  /// for what runs now and then.
  package func keyUsage() async throws -> [KeyUsage] {
    let statement = Statement(
      """
      SELECT k.public_key, COUNT(*), COUNT(*) FILTER (WHERE e.registered_at > $1), MAX(e.registered_at)
      FROM e2ee_registrations e JOIN bouncer_keys k ON k.id = e.bouncer_key_id
      GROUP BY k.public_key ORDER BY k.public_key
      """, .integer((now() - 30 * 86_400).milliseconds))
    return try await database.read { connection in
      try connection.query(statement).map { row in
        KeyUsage(
          publicKey: try row.text(0), registrations: try row.int64(1), recentRegistrations: try row.int64(2),
          lastUsedAt: try row.date(3))
      }
    }
  }

  /// Registrations of one kind.
  package struct Count: Sendable, Hashable {
    /// Whose tokens.
    package let kind: PushToken.Kind
    /// Those that live.
    package let live: Int64
    /// Those that have expired and not been removed.
    package let expired: Int64
  }

  /// How many registrations there are of each kind. Reads every registration, a quarter of a second
  /// for a million: for once a minute.
  package func counts() async throws -> [Count] {
    let statement = Statement(
      """
      SELECT kind, COUNT(*) FILTER (WHERE expired_at IS NULL), COUNT(expired_at)
      FROM e2ee_registrations GROUP BY kind
      """)
    let rows = try await database.query(statement)
    let found = try rows.map { row in (try row.int64(0), try row.int64(1), try row.int64(2)) }
    return PushToken.Kind.allCases.map { kind in
      let row = found.first { $0.0 == kind.storage }
      return Count(kind: kind, live: row?.1 ?? 0, expired: row?.2 ?? 0)
    }
  }
}
