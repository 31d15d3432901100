package import Foundation
package import Migrations
package import SQL
package import Sealing
internal import Settings

/// The processes that use one database, with the storage keys that each has, so that no process is left behind
/// when the key changes, nor cut off by a migration. Each has a row; the row of a killed process is no longer updated.
package struct Nodes: Sendable {
  /// A process, or one that was killed.
  package struct Node: Sendable, Hashable {
    /// A new id for each start.
    package let id: UUID
    package let hostname: String
    package let version: String
    /// The number of the last migration that it knows.
    let schema: Int
    package let startedAt: Date
    /// The time of its last heartbeat, by its own machine's clock.
    package let seenAt: Date
    /// False for a command.
    let isServing: Bool
    /// Id of the storage key that it seals with.
    package let presentKey: [UInt8]
    /// Ids of the storage keys that it can open with.
    package let keys: [[UInt8]]
  }

  /// The time between two heartbeats.
  package static let interval = Duration.seconds(10)

  package let database: any Database
  private let schema: Int
  private let now: @Sendable () -> Date
  /// This process's id, if it joins.
  package let own = UUID()
  private let startedAt: Date

  /// - Parameter schema: the number of the last migration that this process knows.
  package init(
    database: any Database, schema: Int = Schema.version, now: @escaping @Sendable () -> Date = { Date() }
  ) {
    (self.database, self.schema, self.now, startedAt) = (database, schema, now, now())
  }

  /// Adds this process with its storage keys, and makes it seal with the key that the database names.
  ///
  /// It is serialized with ``migrate(_:watching:waiting:)``: what a newer program takes away meanwhile is noticed here, or
  /// this process there.
  ///
  /// - Returns: whether it has that key; if not, it is not added.
  /// - Throws: ``DatabaseError``, ``DatabaseError/Code/newerSchema`` among them.
  package func join(_ storageKey: StorageKey) async throws -> Bool {
    try await database.write { connection in
      try Migrator.checkOldest(schema, on: connection)
      if let id = try StorageSeal.sealingID(on: connection), !storageKey.seal(withKey: id) { return false }
      try announce(storageKey, isServing: false, on: connection)
      return true
    }
  }

  /// Writes a heartbeat of this process.
  package func announce(_ storageKey: StorageKey, isServing: Bool) async throws {
    try await database.write { try announce(storageKey, isServing: isServing, on: $0) }
  }

  private func announce(
    _ storageKey: StorageKey, isServing: Bool, on connection: any Connection
  ) throws {
    try connection.run(
      Statement(
        """
        INSERT INTO nodes (id, hostname, version, schema, started_at, seen_at, is_serving, storage_keys)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
        ON CONFLICT (id) DO UPDATE SET
          seen_at = excluded.seen_at, is_serving = excluded.is_serving, storage_keys = excluded.storage_keys
        """, .text(own.canonical), .text(ProcessInfo.processInfo.hostName), .text(Version.text),
        .integer(Int64(schema)), .integer(startedAt.milliseconds), .integer(now().milliseconds),
        .flag(isServing),
        .bytes(storageKey.presentID + storageKey.ids.flatMap(\.self))))
  }

  /// Removes this process, which ends.
  package func leave() async throws { try await remove(own) }

  private func remove(_ id: UUID) async throws {
    _ = try await database.execute(Statement("DELETE FROM nodes WHERE id = $1", .text(id.canonical)))
  }

  /// Makes all processes seal with the storage key `new`, as soon as each notices. Changes nothing if `old` is
  /// not the key that seals now, or if a process lacks `new`. It is serialized with ``join(_:)``.
  package func changeKey(from old: [UInt8], to new: [UInt8]) async throws -> Bool {
    try await database.write { connection in
      guard try StorageSeal.sealingID(on: connection) == old,
        try all(on: connection).allSatisfy({ $0.keys.contains(new) })
      else { return false }
      try StorageSeal.setSealingID(new, on: connection)
      return true
    }
  }

  /// When each row was first seen in its present state, by this process's clock.
  package typealias Sightings = [Node: ContinuousClock.Instant]

  /// The processes that have updated their rows within `silence`; rows of the others are removed. This compares
  /// no clocks of different machines.
  package func living(within silence: Duration, _ sightings: inout Sightings) async throws -> [Node] {
    let now = ContinuousClock.now
    let all = try await all()
    let before = sightings
    sightings = Dictionary(all.map { ($0, before[$0] ?? now) }, uniquingKeysWith: { first, _ in first })
    for (node, since) in sightings where now - since >= silence {
      try await remove(node.id)
      sightings[node] = nil
    }
    return all.filter { sightings[$0] != nil }
  }

  /// The time that rows are watched to see who is alive: a little longer than that between two heartbeats.
  package static let watch = interval + .seconds(5)

  /// The processes that serve and are alive: those whose rows change while they are watched.
  ///
  /// - Parameters:
  ///   - schema: instead of those that serve, all that do not know this migration are meant.
  ///   - waiting: called once, with the number of rows, before they are watched.
  package func alive(
    watching duration: Duration = watch, olderThan schema: Int? = nil, waiting: (_ rows: Int) -> Void
  ) async throws -> [Node] {
    func isMeant(_ node: Node) -> Bool { schema.map { node.schema < $0 } ?? node.isServing }
    let before = try await all().filter(isMeant)
    guard !before.isEmpty else { return [] }
    waiting(before.count)
    let end = ContinuousClock.now + duration
    while true {
      let rows = try await all().filter(isMeant)
      let changed = rows.filter { !before.contains($0) }
      if !changed.isEmpty || rows.isEmpty || ContinuousClock.now >= end { return changed }
      // Another process writes the rows, so polling is the only way to see changes. A command does this for a
      // few seconds.
      try await Task.sleep(for: .milliseconds(200))
    }
  }

  /// The processes that serve, oldest first, including those that were killed during the last hour.
  package func serving() async throws -> [Node] { try await all().filter(\.isServing) }

  /// All processes, oldest first.
  package func all() async throws -> [Node] { try await database.query(Self.select).map(Node.init) }

  package func all(on connection: any Connection) throws -> [Node] {
    try connection.query(Self.select).map(Node.init)
  }

  /// Also read from a database that has yet to be migrated, and so only what the first migration has made.
  private static let select = Statement(
    """
    SELECT id, hostname, version, started_at, seen_at, is_serving, storage_keys, schema FROM nodes
    ORDER BY started_at, id
    """)
}

extension Nodes.Node {
  private static let keyIDBytes = 16

  fileprivate init(_ row: Row) throws {
    guard let id = UUID(uuidString: try row.text(0)) else {
      throw DatabaseError(.other, "a node has no UUID")
    }
    let bytes = try row.bytes(6)
    let ids = stride(from: 0, to: bytes.count, by: Self.keyIDBytes).map { start in
      Array(bytes[start..<min(start + Self.keyIDBytes, bytes.count)])
    }
    self.init(
      id: id, hostname: try row.text(1), version: try row.text(2), schema: Int(try row.int64(7)),
      startedAt: try row.date(3),
      seenAt: try row.date(4), isServing: try row.flag(5), presentKey: ids.first ?? [],
      keys: Array(ids.dropFirst()))
  }
}
