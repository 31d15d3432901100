package import Foundation
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

  private static let owner = "storage_key"
  fileprivate static let sealing = "storage_key.sealing"
  /// The key under which all values are known to be sealed.
  static let complete = "storage_key.complete"
}

extension Connection {
  func mark(_ name: String) throws -> [UInt8]? {
    try query("SELECT value FROM metadata WHERE name = $1", .text(name)).first?.bytes(0)
  }

  func setMark(_ name: String, _ value: [UInt8]) throws {
    try run(
      """
      INSERT INTO metadata (name, value) VALUES ($1, $2)
      ON CONFLICT (name) DO UPDATE SET value = excluded.value
      """, .text(name), .bytes(value))
  }
}

/// The processes that use a database, with the storage keys that each has, so that no process is left behind
/// when the key changes. Each process has a row and updates it periodically; the row of a killed process is
/// no longer updated.
package struct StorageKeyHolders: Sendable {
  /// The row of one process.
  package struct Holder: Sendable, Hashable {
    fileprivate let name: String
    /// Random bytes, different in each update.
    fileprivate let beat: [UInt8]
    /// Id of the key that it seals with.
    package let presentID: [UInt8]
    /// Ids of the keys that it can open with.
    package let ids: [[UInt8]]
  }

  private static let prefix = "lease.storage_key."
  private static let beatBytes = 8
  private static let idBytes = 16

  private let database: any Database

  package init(_ database: any Database) {
    self.database = database
  }

  /// Registers a process with its keys, and makes it seal with the key that the database names.
  ///
  /// - Returns: whether it has that key; if not, it is not registered.
  package func join(_ process: UUID, _ storageKey: StorageKey) async throws -> Bool {
    try await database.write { connection in
      if let id = try connection.mark(StorageSeal.sealing), !storageKey.seal(withKey: id) { return false }
      try announce(process, storageKey, on: connection)
      return true
    }
  }

  /// Updates the row of a process.
  package func announce(_ process: UUID, _ storageKey: StorageKey) async throws {
    try await database.write { try announce(process, storageKey, on: $0) }
  }

  private func announce(_ process: UUID, _ storageKey: StorageKey, on connection: any Connection) throws {
    let beat = withUnsafeBytes(of: UInt64.random(in: .min ... .max)) { Array($0) }
    let value = beat + storageKey.presentID + storageKey.ids.flatMap(\.self)
    try connection.setMark(Self.prefix + process.canonical, value)
  }

  /// Removes the row of a process that ends.
  package func withdraw(_ process: UUID) async throws {
    try await remove(Self.prefix + process.canonical)
  }

  /// Makes all processes seal with `new`, as soon as each notices. Changes nothing if `old` is not the key
  /// that seals now, or if a process lacks `new`. It is serialized with ``join(_:_:)``.
  package func change(from old: [UInt8], to new: [UInt8]) async throws -> Bool {
    try await database.write { connection in
      guard try connection.mark(StorageSeal.sealing) == old,
        try all(on: connection).allSatisfy({ $0.ids.contains(new) })
      else { return false }
      try connection.setMark(StorageSeal.sealing, new)
      return true
    }
  }

  /// When each row was first seen in its present state, by this process's clock.
  package typealias Sightings = [Holder: ContinuousClock.Instant]

  /// The processes that have updated their rows within `silence`; rows of the others are removed.
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

  /// All rows, including those of processes that were killed.
  package func all() async throws -> [Holder] { try await database.read { try all(on: $0) } }

  private func all(on connection: any Connection) throws -> [Holder] {
    try connection.query("SELECT name, value FROM metadata WHERE name LIKE '\(Self.prefix)%' ORDER BY name")
      .map { row in
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
    try await database.execute("DELETE FROM metadata WHERE name = $1", .text(name))
  }
}
