package import Foundation
package import Logging
internal import Registrations
package import SQL
internal import Timing

/// The processes that serve with a database.
package struct Nodes: Sendable {
  /// A process that serves, or did until it was killed.
  package struct Node: Sendable, Hashable {
    /// Its own, new with each start.
    package let id: UUID
    package let hostname: String
    package let version: String
    package let startedAt: Date
    /// Its last sign of life, by its machine's clock.
    package let seenAt: Date
  }

  /// Between two signs of life.
  package static let interval = Duration.seconds(10)
  /// After which a row that nobody touches is removed. A node whose clock is far behind puts its row back each time.
  private static let silence: TimeInterval = 3600

  private let database: any Database
  private let now: @Sendable () -> Date

  package init(database: any Database, now: @escaping @Sendable () -> Date = { Date() }) {
    self.database = database
    self.now = now
  }

  /// Says that this process serves, until its task is cancelled; then that it no longer does.
  package func serve(logger: Logger) async {
    let (id, start) = (UUID(), now())
    await every(Self.interval) {
      try await touch(id, since: start)
    } onError: { _ in
      // The database is away: who asks it, says so.
      logger.debug("sign of life not written")
    }
    try? await remove(id)
  }

  /// A sign of life. What has shown none for long is forgotten.
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

  /// Those that are alive: whose rows change while they are watched, for somewhat more than the pause between two signs
  /// of life. No clock is compared with another.
  ///
  /// - Parameter waiting: called once if there are rows to be watched.
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
      // Another process writes the rows, so they can only be looked at again: a few rows, for some seconds, by a command.
      try await Task.sleep(for: .milliseconds(200))
    }
  }

  /// All of them, the oldest first; among them those that were killed within the last hour.
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
