package import Foundation
package import Logging
internal import Registrations
package import SQL
internal import Timing

/// The processes that serve from one database.
package struct Nodes: Sendable {
  /// A process that serves, or one that was killed while serving.
  package struct Node: Sendable, Hashable {
    /// A new id for each start.
    package let id: UUID
    package let hostname: String
    package let version: String
    package let startedAt: Date
    /// The time of its last heartbeat, by its own machine's clock.
    package let seenAt: Date
  }

  /// The time between two heartbeats.
  package static let interval = Duration.seconds(10)
  /// In seconds. A row without a heartbeat for this long is removed. A node whose clock is far behind adds
  /// its row again each time.
  private static let silence: TimeInterval = 3600

  private let database: any Database
  private let now: @Sendable () -> Date

  package init(database: any Database, now: @escaping @Sendable () -> Date = { Date() }) {
    self.database = database
    self.now = now
  }

  /// Writes heartbeats until the task is cancelled, and then removes this process's row.
  package func serve(logger: Logger) async {
    let (id, start) = (UUID(), now())
    await every(Self.interval) {
      try await touch(id, since: start)
    } onError: { _ in
      // The database is down, which other parts report.
      logger.debug("sign of life not written")
    }
    try? await remove(id)
  }

  /// Writes a heartbeat, and removes the rows of processes that had none for too long.
  func touch(_ id: UUID, since start: Date) async throws {
    let now = now()
    let (hostname, version) = (ProcessInfo.processInfo.hostName, Version.text)
    try await database.write { connection in
      try connection.run(
        Statement(
          """
          INSERT INTO nodes (id, hostname, version, started_at, seen_at) VALUES ($1, $2, $3, $4, $5)
          ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at
          """, .text(id.canonical), .text(hostname), .text(version), .integer(start.milliseconds),
          .integer(now.milliseconds)))
      try connection.run(
        Statement("DELETE FROM nodes WHERE seen_at < $1", .integer((now - Self.silence).milliseconds)))
    }
  }

  func remove(_ id: UUID) async throws {
    _ = try await database.execute(Statement("DELETE FROM nodes WHERE id = $1", .text(id.canonical)))
  }

  /// The processes that are alive: those whose rows change while they are watched for a little longer than
  /// the time between two heartbeats. This compares no clocks of different machines.
  ///
  /// - Parameter waiting: called once, with the number of rows, before the rows are watched.
  package func alive(
    watching duration: Duration = interval + .seconds(5), waiting: (_ rows: Int) -> Void
  ) async throws -> [Node] {
    let before = try await all()
    guard !before.isEmpty else { return [] }
    waiting(before.count)
    let end = ContinuousClock.now + duration
    while true {
      let rows = try await all()
      let changed = rows.filter { !before.contains($0) }
      if !changed.isEmpty || rows.isEmpty || ContinuousClock.now >= end { return changed }
      // Another process writes the rows, so polling is the only way to see changes. A command does this for a
      // few seconds.
      try await Task.sleep(for: .milliseconds(200))
    }
  }

  /// All rows, oldest first, including those of processes that were killed during the last hour.
  package func all() async throws -> [Node] {
    let statement = Statement(
      "SELECT id, hostname, version, started_at, seen_at FROM nodes ORDER BY started_at, id")
    return try await database.query(statement).compactMap { row in
      guard let id = UUID(uuidString: try row.text(0)) else { return nil }
      return Node(
        id: id, hostname: try row.text(1), version: try row.text(2),
        startedAt: Date(milliseconds: try row.int64(3)), seenAt: Date(milliseconds: try row.int64(4)))
    }
  }
}
