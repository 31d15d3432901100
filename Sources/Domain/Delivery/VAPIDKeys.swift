package import Foundation
package import Providers
import Registrations
package import SQL
package import Sealing

/// The key pair that identifies this service to push services (`vapid_keys`): one for all nodes, created when
/// first needed and never replaced. The private half is stored sealed.
///
/// A key that does not open is an error and is not replaced, because every subscription bound to it would be
/// dead.
package struct VAPIDKeys: Sendable {
  private static let place = SealedColumn.vapidKey.place(.integer(1))

  private let database: any Database
  private let storageKey: StorageKey
  private let now: @Sendable () -> Date

  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// Returns the key pair; creates it if there is none.
  ///
  /// - Throws: the database's error; `corrupt` if the key does not open.
  package func key() async throws -> VAPIDKey {
    if let key = try await find() { return key }
    let sealed = storageKey.seal([UInt8](VAPIDKey().rawRepresentation), at: Self.place)
    // The update changes nothing; it makes `RETURNING` yield the row, whichever node created it.
    let rows = try await database.execute(
      Statement(
        """
        INSERT INTO vapid_keys (id, private_key, created_at) VALUES (1, $1, $2)
        ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING private_key
        """, .bytes(sealed), .integer(now().milliseconds)))
    guard let row = rows.first else { throw DatabaseError(.other, "an insertion returned no row") }
    return try open(row)
  }

  /// Returns the key pair; nil if none has been created.
  package func find() async throws -> VAPIDKey? {
    try await database.query(Statement("SELECT private_key FROM vapid_keys WHERE id = 1")).first.map(open)
  }

  private func open(_ row: Row) throws -> VAPIDKey {
    guard let secret = storageKey.open(try row.bytes("private_key"), at: Self.place),
      let key = try? VAPIDKey(rawRepresentation: secret)
    else { throw DatabaseError(.corrupt, "the VAPID key does not open") }
    return key
  }
}
