package import Foundation
internal import SQL
package import Sealing

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
      FROM registrations e JOIN bouncer_keys k ON k.id = e.bouncer_key_id
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
}
