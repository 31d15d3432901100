import Basics
import HTTPClient
import Providers
import Registrations
import SQL

/// The entries of one owner on one route: a row of `outbox_routes`, which entries and deletions held back
/// refer to. The row is removed when nothing refers to it any more.
struct OutboxQueue: Sendable, Hashable {
  let route: Route
  var owner = Owner.nobody
}

extension OutboxQueue {
  /// The values of its columns in `outbox_routes`.
  var columns: [Value] {
    [.text(route.provider.rawValue), .text(route.credential), .text(route.target), .integer(owner.id)]
  }

  /// Reads the columns `provider`, `credential`, `target` and `owner`; nil if this program does not know the
  /// provider.
  init?(_ row: Row) throws {
    guard let provider = Route.Provider(rawValue: try row.text("provider")) else { return nil }
    self.init(
      route: Route(
        provider: provider, credential: try row.text("credential"), target: try row.text("target")),
      owner: Owner(id: try row.int64("owner")))
  }
}

extension Connection {
  /// Returns the rows of queues, creating those that are missing. If another node removes one before this
  /// transaction ends, the transaction fails with `foreignKeyViolation`.
  func queueRows(of queues: Set<OutboxQueue>) throws -> [OutboxQueue: Int64] {
    // All nodes write in the same order, so that no two deadlock on each other's rows.
    let sorted = queues.sorted { ($0.route.description, $0.owner.id) < ($1.route.description, $1.owner.id) }
    var ids: [OutboxQueue: Int64] = [:]
    for queue in sorted {
      let found = try query(
        Statement(
          "SELECT id FROM outbox_routes WHERE provider = $1 AND credential = $2 AND target = $3 AND owner = $4",
          arguments: queue.columns)
      ).first
      // The update changes nothing; it makes `RETURNING` yield a row that another node has just created.
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
      ids[queue] = try row.int64("id")
    }
    return ids
  }
}

extension Database {
  /// Runs a transaction that uses the rows of queues; repeats it once if another node has removed one of them
  /// meanwhile.
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
