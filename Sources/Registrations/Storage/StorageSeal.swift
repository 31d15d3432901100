public import SQL
public import Sealing

/// The mark of the storage key in the database that was sealed with it.
public enum StorageSeal {
  /// The database holds secrets that another key has sealed: with this key they would be lost.
  public struct WrongKey: Error, Hashable, CustomStringConvertible {
    /// The mistake.
    public init() {}

    /// A sentence for the operator.
    public var description: String {
      "this database was sealed with another storage.key: put that file back, or use another database"
    }
  }

  /// Checks that `storageKey` is the key of `database`; marks a database that is new.
  ///
  /// - Throws: ``WrongKey``, or the database's own error.
  public static func verify(_ storageKey: StorageKey, of database: any Database) async throws {
    let fingerprint = storageKey.fingerprint
    // The update changes nothing: it is there so that the row which won comes back.
    let rows = try await database.execute(
      Statement(
        """
        INSERT INTO metadata (name, value) VALUES ('storage_key', $1)
        ON CONFLICT (name) DO UPDATE SET value = metadata.value RETURNING value
        """, .bytes(fingerprint)))
    guard try rows.first?.bytes(0) == fingerprint else { throw WrongKey() }
  }

  /// Whether `database` was sealed with `storageKey`; nil if nothing has been sealed yet. Changes nothing.
  public static func matches(_ storageKey: StorageKey, in database: any Database) async throws -> Bool? {
    let statement = Statement("SELECT value FROM metadata WHERE name = 'storage_key'")
    let rows = try await database.read { try $0.query(statement) }
    return try rows.first?.bytes(0).elementsEqual(storageKey.fingerprint)
  }
}
