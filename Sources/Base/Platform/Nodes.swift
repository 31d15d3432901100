import Basics
package import Foundation
import Migrations
package import SQL
package import Sealing

/// The processes that use one database. The list keeps a migration from cutting off a running process, and a process from
/// going on with an old storage key. Each process has a row; that of a killed one is no longer updated.
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
    self.database = database
    self.schema = schema
    self.now = now
    startedAt = now()
  }

  /// Adds this process, before it seals anything.
  ///
  /// Serialized with ``migrate(_:watching:waiting:)`` and with the change of the storage key: either this process notices
  /// the change here, or the change notices this process.
  ///
  /// - Throws: ``DatabaseError``, ``DatabaseError/Code/newerSchema`` among them; what
  ///   ``StorageSeal/verify(_:on:)`` throws.
  package func join(_ storageKey: StorageKey, isServing: Bool = false) async throws {
    try await database.write { connection in
      try Migrator.checkOldest(schema, on: connection)
      try StorageSeal.verify(storageKey, on: connection)
      try add(isServing: isServing, on: connection)
    }
  }

  /// Adds this process without any check.
  package func add(isServing: Bool, on connection: any Connection) throws {
    try connection.run(
      Statement(
        """
        INSERT INTO nodes (id, hostname, version, schema, started_at, seen_at, is_serving)
        VALUES ($1, $2, $3, $4, $5, $6, $7)
        ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, is_serving = excluded.is_serving
        """, .text(own.canonical), .text(ProcessInfo.processInfo.hostName), .text(Version.text),
        .integer(Int64(schema)), .integer(startedAt.milliseconds), .integer(now().milliseconds),
        .flag(isServing)))
  }

  /// Writes a heartbeat.
  ///
  /// - Returns: whether this process is still in the list; it may have been removed if it was silent for long.
  package func touch(isServing: Bool) async throws -> Bool {
    try await database.write { connection in
      try connection.run(
        Statement(
          "UPDATE nodes SET seen_at = $2, is_serving = $3 WHERE id = $1", .text(own.canonical),
          .integer(now().milliseconds), .flag(isServing))) > 0
    }
  }

  /// Stays in the list, which this process has joined, until its task is cancelled; then leaves it.
  ///
  /// - Parameter isServing: false in a command.
  /// - Throws: what ``join(_:isServing:)`` throws, if this process was silent for long and may not go on: its storage key
  ///   was changed, or a migration has cut it off.
  package func stay(_ storageKey: StorageKey, isServing: Bool) async throws {
    while !Task.isCancelled {
      do {
        if try await !touch(isServing: isServing) { try await join(storageKey, isServing: isServing) }
      } catch let error as DatabaseError where error.code != .newerSchema {
        // An outage of the database usually ends soon, and other parts report it.
      }
      try? await Task.sleep(for: Self.interval)
    }
    try? await leave()
  }

  /// Removes this process, which ends.
  package func leave() async throws { try await remove(own) }

  private func remove(_ id: UUID) async throws {
    _ = try await database.execute(Statement("DELETE FROM nodes WHERE id = $1", .text(id.canonical)))
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

  /// The time for which rows are watched to see which processes are alive: a little longer than ``interval``.
  package static let watch = interval + .seconds(5)

  /// The processes that serve and are alive: those whose rows change while they are watched.
  ///
  /// - Parameters:
  ///   - schema: finds the processes that do not know this migration, instead of those that serve.
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

  /// Uses only columns of the first migration, because it also runs before later ones.
  private static let select = Statement(
    """
    SELECT id, hostname, version, started_at, seen_at, is_serving, schema FROM nodes
    ORDER BY started_at, id
    """)
}

extension Nodes.Node {
  fileprivate init(_ row: Row) throws {
    guard let id = UUID(uuidString: try row.text("id")) else {
      throw DatabaseError(.other, "a node has no UUID")
    }
    self.init(
      id: id, hostname: try row.text("hostname"), version: try row.text("version"),
      schema: Int(try row.int64("schema")),
      startedAt: try row.date("started_at"), seenAt: try row.date("seen_at"),
      isServing: try row.flag("is_serving"))
  }
}
