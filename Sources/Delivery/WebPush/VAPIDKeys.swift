package import Foundation
package import Providers
import Registrations
package import SQL
package import Sealing

/// The key pair that push services know us by (`vapid_keys`): one for all nodes, made when it is first needed and then
/// for good. The private half is kept sealed.
///
/// One that does not open is an error and is never replaced: every subscription that was made with the old one would be
/// dead.
package struct VAPIDKeys: Sendable {
  private static let place = SealedColumn.vapidKey.place(.integer(1))

  private let database: any Database
  private let storageKey: StorageKey
  private let now: @Sendable () -> Date

  /// The key pair in `database`, sealed under `storageKey`.
  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// The key pair, which is made if there is none.
  ///
  /// - Throws: the database's error; `corrupt` if it does not open.
  package func key() async throws -> VAPIDKey {
    if let key = try await find() { return key }
    let sealed = storageKey.seal([UInt8](VAPIDKey().rawRepresentation), at: Self.place)
    // The update changes nothing: it is there so that the row which won comes back, whichever node's it is.
    let rows = try await database.execute(
      Statement(
        """
        INSERT INTO vapid_keys (id, private_key, created_at) VALUES (1, $1, $2)
        ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING private_key
        """, .bytes(sealed), .integer(now().milliseconds)))
    guard let row = rows.first else { throw DatabaseError(.other, "an insertion returned no row") }
    return try open(row)
  }

  /// The key pair; nil if none has been made.
  package func find() async throws -> VAPIDKey? {
    try await database.query(Statement("SELECT private_key FROM vapid_keys WHERE id = 1")).first.map(open)
  }

  private func open(_ row: Row) throws -> VAPIDKey {
    guard let secret = storageKey.open(try row.bytes(0), at: Self.place),
      let key = try? VAPIDKey(rawRepresentation: secret)
    else { throw DatabaseError(.corrupt, "the VAPID key does not open") }
    return key
  }
}
