package import Foundation
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

/// What the processes that use a database say of their keys, so that none is left behind when the key changes: each
/// has a row and touches it now and then, and one that is killed leaves a row that nobody touches.
package struct StorageKeyHolders: Sendable {
  /// What one process says.
  package struct Holder: Sendable, Hashable {
    /// Of its row.
    fileprivate let name: String
    /// Other bytes each time.
    fileprivate let beat: [UInt8]
    /// The key that it seals with.
    package let presentID: [UInt8]
    /// The keys that it can open with.
    package let ids: [[UInt8]]
  }

  private static let prefix = "lease.storage_key."
  private static let beatBytes = 8
  private static let idBytes = 16

  private let database: any Database

  /// Those of `database`.
  package init(_ database: any Database) {
    self.database = database
  }

  /// A process begins: says which keys it has, and lets it seal with the one that the database names.
  ///
  /// - Returns: whether it has that one; else nothing is said.
  package func join(_ process: UUID, _ storageKey: StorageKey) async throws -> Bool {
    try await database.write { connection in
      if let id = try StorageSeal.sealingID(on: connection), !storageKey.seal(withKey: id) { return false }
      try announce(process, storageKey, on: connection)
      return true
    }
  }

  /// Says which keys a process has.
  package func announce(_ process: UUID, _ storageKey: StorageKey) async throws {
    try await database.write { try announce(process, storageKey, on: $0) }
  }

  private func announce(_ process: UUID, _ storageKey: StorageKey, on connection: any Connection) throws {
    let beat = withUnsafeBytes(of: UInt64.random(in: .min ... .max)) { Array($0) }
    let value = beat + storageKey.presentID + storageKey.ids.flatMap(\.self)
    try connection.run(
      Statement(
        """
        INSERT INTO metadata (name, value) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value
        """, .text(Self.prefix + process.canonical), .bytes(value)))
  }

  /// A process is at its end.
  package func withdraw(_ process: UUID) async throws {
    try await remove(Self.prefix + process.canonical)
  }

  /// Makes `new` the key that every process seals with, as soon as each looks. Changes nothing if `old` is not the key that
  /// seals now, or if a process does not have `new`. A process that joins at this moment joins before or after.
  package func change(from old: [UInt8], to new: [UInt8]) async throws -> Bool {
    try await database.write { connection in
      guard try StorageSeal.sealingID(on: connection) == old,
        try all(on: connection).allSatisfy({ $0.ids.contains(new) })
      else { return false }
      try StorageSeal.setSealingID(new, on: connection)
      return true
    }
  }

  /// Since when each has been seen as it is, by this process's clock.
  package typealias Sightings = [Holder: ContinuousClock.Instant]

  /// Everybody but who has shown no sign of life for so long, and so is no more: that one's row is removed.
  package func living(within silence: Duration, _ sightings: inout Sightings) async throws -> [Holder] {
    let now = ContinuousClock.now
    let all = try await all()
    let before = sightings
    sightings = Dictionary(all.map { ($0, before[$0] ?? now) }, uniquingKeysWith: { first, _ in first })
    for (holder, since) in sightings where now - since >= silence {
      try await remove(holder.name)
      sightings[holder] = nil
    }
    return all.filter { sightings[$0] != nil }
  }

  /// Everybody, those who are no more included.
  package func all() async throws -> [Holder] { try await database.read { try all(on: $0) } }

  private func all(on connection: any Connection) throws -> [Holder] {
    let statement = Statement(
      "SELECT name, value FROM metadata WHERE name LIKE '\(Self.prefix)%' ORDER BY name")
    return try connection.query(statement).map { row in
      let value = try row.bytes(1)
      let ids = stride(from: Self.beatBytes, to: value.count, by: Self.idBytes).map { start in
        Array(value[start..<min(start + Self.idBytes, value.count)])
      }
      return Holder(
        name: try row.text(0), beat: Array(value.prefix(Self.beatBytes)), presentID: ids.first ?? [],
        ids: Array(ids.dropFirst()))
    }
  }

  private func remove(_ name: String) async throws {
    _ = try await database.execute(Statement("DELETE FROM metadata WHERE name = $1", .text(name)))
  }
}
