package import SQL
package import Sealing

/// Marks in the database: a fingerprint of the storage key that it was sealed with, and which of its keys
/// seals now.
package enum StorageSeal {
  /// The database holds secrets sealed with another storage key, which would be lost with this one.
  package struct WrongKey: Error, Hashable, CustomStringConvertible {
    package init() {}

    package var description: String {
      "this database was sealed with another storage.key: put that file back, or use another database"
    }
  }

  /// Checks that `storageKey` is the key of `database`, and makes it seal with the key that the database
  /// names; marks a new database.
  ///
  /// - Throws: ``WrongKey``, or the database's own error.
  package static func verify(_ storageKey: StorageKey, of database: any Database) async throws {
    let (fingerprint, id) = (storageKey.fingerprint, storageKey.presentID)
    let marks = try await database.write { connection in
      // The updates change nothing; they make `RETURNING` yield the rows, whichever node created them.
      try [(owner, fingerprint), (sealing, id)].map { name, value in
        try connection.query(
          """
          INSERT INTO metadata (name, value) VALUES ($1, $2)
          ON CONFLICT (name) DO UPDATE SET value = metadata.value RETURNING value
          """, .text(name), .bytes(value)
        ).returned.bytes(0)
      }
    }
    guard marks[0] == fingerprint, storageKey.seal(withKey: marks[1]) else {
      throw WrongKey()
    }
  }

  /// Whether `database` was sealed with `storageKey`; nil if nothing has been sealed yet. Writes nothing.
  package static func matches(_ storageKey: StorageKey, in database: any Database) async throws -> Bool? {
    let marks = try await database.read { try [owner, sealing].map($0.mark) }
    guard let fingerprint = marks[0] else { return nil }
    return fingerprint == storageKey.fingerprint && (marks[1].map(storageKey.ids.contains) ?? true)
  }

  /// Makes `storageKey` seal with the key that the database names.
  ///
  /// - Returns: whether `storageKey` has that key.
  @discardableResult
  package static func follow(_ database: any Database, _ storageKey: StorageKey) async throws -> Bool {
    guard let id = try await sealingID(of: database) else { return true }
    return id == storageKey.presentID || storageKey.seal(withKey: id)
  }

  /// Id of the key that seals; nil if nothing has been sealed yet.
  package static func sealingID(of database: any Database) async throws -> [UInt8]? {
    try await database.read { try $0.mark(sealing) }
  }

  package static func sealingID(on connection: any Connection) throws -> [UInt8]? {
    try connection.mark(sealing)
  }

  package static func setSealingID(_ id: [UInt8], on connection: any Connection) throws {
    try connection.setMark(sealing, id)
  }

  private static let owner = "storage_key"
  private static let sealing = "storage_key.sealing"
  /// The key under which all values are known to be sealed.
  package static let complete = "storage_key.complete"
}

extension Connection {
  /// What the table `metadata` holds under a name.
  package func mark(_ name: String) throws -> [UInt8]? {
    try query("SELECT value FROM metadata WHERE name = $1", .text(name)).first?.bytes(0)
  }

  package func setMark(_ name: String, _ value: [UInt8]) throws {
    try run(
      """
      INSERT INTO metadata (name, value) VALUES ($1, $2)
      ON CONFLICT (name) DO UPDATE SET value = excluded.value
      """, .text(name), .bytes(value))
  }
}
