import Providers
import Registrations
import SQL

/// What waits for a route, of one owner: a row of `outbox_routes`, which entries and deletions held back refer to. It is
/// removed when nothing refers to it any more.
struct OutboxQueue: Sendable, Hashable {
  let route: Route
  var owner = Owner.nobody
}

extension OutboxQueue {
  /// As `outbox_routes` keeps it.
  var columns: [Value] {
    [.text(route.provider.rawValue), .text(route.credential), .text(route.target), .integer(owner.id)]
  }

  /// From the columns `provider`, `credential`, `target` and `owner`; nil if this program does not know the provider.
  init?(_ row: Row, from column: Int) throws {
    guard let provider = Route.Provider(rawValue: try row.text(column)) else { return nil }
    self.init(
      route: Route(
        provider: provider, credential: try row.text(column + 1), target: try row.text(column + 2)),
      owner: Owner(id: try row.int64(column + 3)))
  }
}

extension Connection {
  /// The rows of queues, made where there are none. One may be removed by another node before this transaction ends: it
  /// then fails with `foreignKeyViolation`.
  func queueRows(of queues: Set<OutboxQueue>) throws -> [OutboxQueue: Int64] {
    // In one order on all nodes: none waits for a row of another that waits for one of its own.
    let sorted = queues.sorted { ($0.route.description, $0.owner.id) < ($1.route.description, $1.owner.id) }
    var ids: [OutboxQueue: Int64] = [:]
    for queue in sorted {
      let found = try query(
        Statement(
          "SELECT id FROM outbox_routes WHERE provider = $1 AND credential = $2 AND target = $3 AND owner = $4",
          arguments: queue.columns)
      ).first
      // The update changes nothing: it is there so that a row which another node has just made comes back.
      let row =
        try found
        ?? query(
          Statement(
            """
            INSERT INTO outbox_routes (provider, credential, target, owner) VALUES ($1, $2, $3, $4)
            ON CONFLICT (provider, credential, target, owner) DO UPDATE SET target = excluded.target RETURNING id
            """, arguments: queue.columns)
        ).first
      guard let row else { throw DatabaseError(.other, "an insertion returned no row") }
      ids[queue] = try row.int64(0)
    }
    return ids
  }
}

extension Database {
  /// Runs a transaction that uses the rows of queues, once more if another node has removed one of them meanwhile.
  func write<Result: Sendable>(
    for queues: Set<OutboxQueue>,
    _ body: @escaping @Sendable (any Connection, [OutboxQueue: Int64]) throws -> Result
  ) async throws -> Result {
    let work: @Sendable (any Connection) throws -> Result = { try body($0, try $0.queueRows(of: queues)) }
    do {
      return try await write(work)
    } catch let error as DatabaseError where error.code == .foreignKeyViolation {
      return try await write(work)
    }
  }
}
