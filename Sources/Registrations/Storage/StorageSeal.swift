package import SQL
package import Sealing

/// The mark of the storage key in the database that was sealed with it, and which of its keys seals.
package enum StorageSeal {
  /// The database holds secrets that another key has sealed: with this key they would be lost.
  package struct WrongKey: Error, Hashable, CustomStringConvertible {
    /// The mistake.
    package init() {}

    /// A sentence for the operator.
    package var description: String {
      "this database was sealed with another storage.key: put that file back, or use another database"
    }
  }

  /// Checks that `storageKey` is the key of `database`, and seals with the key that the database names from now on;
  /// marks a database that is new.
  ///
  /// - Throws: ``WrongKey``, or the database's own error.
  package static func verify(_ storageKey: StorageKey, of database: any Database) async throws {
    let (fingerprint, id) = (storageKey.fingerprint, storageKey.presentID)
    let marks = try await database.write { connection in
      // The updates change nothing: they are there so that the rows which won come back.
      try [(owner, fingerprint), (sealing, id)].map { name, value in
        try connection.query(
          Statement(
            """
            INSERT INTO metadata (name, value) VALUES ($1, $2)
            ON CONFLICT (name) DO UPDATE SET value = metadata.value RETURNING value
            """, .text(name), .bytes(value))
        ).first?.bytes(0)
      }
    }
    guard marks[0] == fingerprint, let present = marks[1], storageKey.seal(withKey: present) else {
      throw WrongKey()
    }
  }

  /// Whether `database` was sealed with `storageKey`; nil if nothing has been sealed yet. Changes nothing.
  package static func matches(_ storageKey: StorageKey, in database: any Database) async throws -> Bool? {
    let marks = try await database.read { try [owner, sealing].map($0.mark) }
    guard let fingerprint = marks[0] else { return nil }
    return fingerprint == storageKey.fingerprint && (marks[1].map(storageKey.ids.contains) ?? true)
  }

  /// Seals with the key that the database names.
  ///
  /// - Returns: whether `storageKey` has it.
  @discardableResult
  package static func follow(_ database: any Database, _ storageKey: StorageKey) async throws -> Bool {
    guard let id = try await sealingID(of: database) else { return true }
    return id == storageKey.presentID || storageKey.seal(withKey: id)
  }

  /// The id of the key that seals; nil if nothing has been sealed yet.
  package static func sealingID(of database: any Database) async throws -> [UInt8]? {
    try await database.read { try $0.mark(sealing) }
  }

  /// Whether everything that was there is known to have been sealed under the present key.
  package static func isComplete(_ storageKey: StorageKey, in database: any Database) async throws -> Bool {
    try await database.read { try $0.mark(complete) } == storageKey.presentID
  }

  /// Notes that this is so.
  package static func noteComplete(under id: [UInt8], in database: any Database) async throws {
    try await database.write { try $0.setMark(complete, id) }
  }

  static func sealingID(on connection: any Connection) throws -> [UInt8]? { try connection.mark(sealing) }

  static func setSealingID(_ id: [UInt8], on connection: any Connection) throws {
    try connection.setMark(sealing, id)
  }

  private static let owner = "storage_key"
  private static let sealing = "storage_key.sealing"
  private static let complete = "storage_key.complete"
}

extension Connection {
  fileprivate func mark(_ name: String) throws -> [UInt8]? {
    try query(Statement("SELECT value FROM metadata WHERE name = $1", .text(name))).first?.bytes(0)
  }

  fileprivate func setMark(_ name: String, _ value: [UInt8]) throws {
    try run(
      Statement(
        """
        INSERT INTO metadata (name, value) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value
        """, .text(name), .bytes(value)))
  }
}
