import Basics
package import SQL
package import Sealing

/// Marks in the database: the fingerprint of its storage key, the id of the key that seals values and, while
/// `keys rotate-storage` is unfinished, the id of the next key.
package enum StorageSeal {
  /// The database holds secrets sealed with another storage key, which would be lost with this one.
  package struct WrongKey: Error, Hashable, CustomStringConvertible {
    package init() {}

    package var description: String {
      "this database was sealed with another storage.key: put that file back, or use another database"
    }
  }

  /// Some of the secrets are sealed with the old storage key, and some with the new one.
  package struct Unfinished: Error, Hashable, CustomStringConvertible {
    package init() {}

    package var description: String {
      """
      storage.key is being changed, and not everything is sealed with the new key yet: run push-bouncer keys \
      rotate-storage, unless it is running; it continues where it stopped
      """
    }
  }

  /// Checks that `storageKey` is the key of the database; marks a new database.
  ///
  /// - Throws: ``WrongKey``, ``Unfinished``, or the database's own error.
  package static func verify(_ storageKey: StorageKey, on connection: any Connection) throws {
    guard try isFingerprint(of: storageKey, on: connection) else { throw WrongKey() }
    guard try connection.mark(next) == nil else { throw Unfinished() }
    guard try setOnce(sealing, storageKey.id, on: connection) == storageKey.id else { throw WrongKey() }
  }

  package static func verify(_ storageKey: StorageKey, of database: any Database) async throws {
    try await database.write { try verify(storageKey, on: $0) }
  }

  /// Whether `database` was sealed with `storageKey`; nil if nothing has been sealed yet. Writes nothing.
  ///
  /// - Throws: ``Unfinished``, or the database's own error.
  package static func matches(_ storageKey: StorageKey, in database: any Database) async throws -> Bool? {
    let marks = try await database.read { try [owner, sealing, next].map($0.mark) }
    guard let fingerprint = marks[0] else { return nil }
    guard fingerprint == storageKey.fingerprint else { return false }
    guard marks[2] == nil else { throw Unfinished() }
    return marks[1] == nil || marks[1] == storageKey.id
  }

  /// Whether anything may have been sealed.
  package static func isSealed(_ database: any Database) async throws -> Bool {
    try await database.read { try $0.mark(sealing) } != nil
  }

  /// The id of the key that everything is being sealed with; nil unless a change is under way.
  package static func nextID(of database: any Database) async throws -> [UInt8]? {
    try await database.read { try $0.mark(next) }
  }

  /// Begins a change of keys, or continues one. Until its end ``verify(_:of:)`` throws ``Unfinished``.
  ///
  /// - Returns: whether it begins now.
  /// - Throws: ``WrongKey`` if the database is not sealed with `old`, or is being changed to a third key.
  package static func begin(from old: StorageKey, to new: StorageKey, on connection: any Connection) throws
    -> Bool
  {
    guard try isFingerprint(of: old, on: connection),
      try setOnce(sealing, old.id, on: connection) == old.id
    else { throw WrongKey() }
    guard let id = try connection.mark(next) else {
      try connection.setMark(next, new.id)
      return true
    }
    guard id == new.id else { throw WrongKey() }
    return false
  }

  /// Takes back ``begin(from:to:on:)``, if nothing was sealed with the new key.
  package static func cancel(on connection: any Connection) throws { try connection.removeMark(next) }

  /// Records that everything is sealed with the new key.
  package static func finish(_ new: StorageKey, on connection: any Connection) throws {
    try checkChange(to: new, on: connection)
    try connection.setMark(sealing, new.id)
    try connection.removeMark(next)
  }

  /// Throws ``WrongKey`` unless the change to this key is under way.
  package static func checkChange(to new: StorageKey, on connection: any Connection) throws {
    guard try connection.mark(next) == new.id else { throw WrongKey() }
  }

  private static func isFingerprint(of key: StorageKey, on connection: any Connection) throws -> Bool {
    try setOnce(owner, key.fingerprint, on: connection) == key.fingerprint
  }

  /// Sets a mark that is not set yet.
  ///
  /// - Returns: its value, whichever node has set it.
  private static func setOnce(_ name: String, _ value: [UInt8], on connection: any Connection) throws
    -> [UInt8]
  {
    // The update changes nothing; it makes `RETURNING` yield the row.
    try connection.query(
      """
      INSERT INTO metadata (name, value) VALUES ($1, $2)
      ON CONFLICT (name) DO UPDATE SET value = metadata.value RETURNING value
      """, .text(name), .bytes(value)
    ).returned.bytes("value")
  }

  private static let owner = "storage_key"
  private static let sealing = "storage_key.sealing"
  private static let next = "storage_key.next"
}

extension Connection {
  /// The value of a name in the table `metadata`.
  package func mark(_ name: String) throws -> [UInt8]? {
    try query("SELECT value FROM metadata WHERE name = $1", .text(name)).first?.bytes("value")
  }

  package func setMark(_ name: String, _ value: [UInt8]) throws {
    try run(
      """
      INSERT INTO metadata (name, value) VALUES ($1, $2)
      ON CONFLICT (name) DO UPDATE SET value = excluded.value
      """, .text(name), .bytes(value))
  }

  fileprivate func removeMark(_ name: String) throws {
    try run("DELETE FROM metadata WHERE name = $1", .text(name))
  }
}

extension StorageSeal.Unfinished: Readable {}
extension StorageSeal.WrongKey: Readable {}
