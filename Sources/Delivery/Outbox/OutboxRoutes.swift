import Foundation
import Providers
import Registrations
import SQL
import Synchronization

/// What waits for a route, of one owner.
struct OutboxQueue: Sendable, Hashable {
  let route: Route
  var owner = Owner.nobody
}

/// The rows of `outbox_routes`, a queue each, which entries and deletions held back refer to. They go when nothing refers to
/// them any more, on one node while another still knows their ids: whoever uses an id looks whether it still holds.
final class OutboxRoutes: Sendable {
  /// An id that was known is no longer that of its queue.
  struct Stale: Error {}

  /// Whether this error comes from such an id.
  static func isStale(_ error: any Error) -> Bool {
    error is Stale || (error as? DatabaseError)?.code == .foreignKeyViolation
  }

  private let database: any Database
  private let ids = Mutex<[OutboxQueue: Int64]>([:])

  init(database: any Database) { self.database = database }

  /// The rows of queues, as they were known last; made where there are none.
  func ids(of queues: Set<OutboxQueue>) async throws -> [OutboxQueue: Int64] {
    var found: [OutboxQueue: Int64] = [:]
    ids.withLock { ids in
      for queue in queues { found[queue] = ids[queue] }
    }
    let missing = queues.filter { found[$0] == nil }
    if !missing.isEmpty { found.merge(try await make(missing)) { $1 } }
    return found
  }

  /// The rows of queues, as they are; made where there are none.
  func make(_ queues: Set<OutboxQueue>) async throws -> [OutboxQueue: Int64] {
    // In one order on all nodes: none waits for a row of another that waits for one of its own.
    let sorted = queues.sorted {
      ($0.route.description, $0.owner.id) < ($1.route.description, $1.owner.id)
    }
    let made = try await database.write { connection in
      try sorted.map { queue in
        // The update changes nothing: it is there so that a row which exists comes back.
        let statement = Statement(
          """
          INSERT INTO outbox_routes (provider, credential, target, owner) VALUES ($1, $2, $3, $4)
          ON CONFLICT (provider, credential, target, owner) DO UPDATE SET target = excluded.target RETURNING id
          """, arguments: queue.columns)
        guard let row = try connection.query(statement).first else {
          throw DatabaseError(.other, "an insertion returned no row")
        }
        return (queue, try row.int64(0))
      }
    }
    let found = Dictionary(made) { $1 }
    ids.withLock { $0.merge(found) { $1 } }
    return found
  }

  /// The row of a queue; nil if it has none.
  func find(_ queue: OutboxQueue) async throws -> Int64? {
    if let id = ids.withLock({ $0[queue] }) { return id }
    let row = try await database.query(
      Statement(
        "SELECT id FROM outbox_routes WHERE provider = $1 AND credential = $2 AND target = $3 AND owner = $4",
        arguments: queue.columns)
    ).first
    guard let id = try row?.int64(0) else { return nil }
    ids.withLock { $0[queue] = id }
    return id
  }

  /// Knows these no more.
  func forget(_ queues: some Collection<OutboxQueue>) {
    ids.withLock { ids in
      for queue in queues { ids[queue] = nil }
    }
  }

  /// These are all that there are.
  func know(_ queues: [OutboxQueue: Int64]) { ids.withLock { $0 = queues } }

  /// Those that have something due, in no order. Looks at one entry of each.
  func due(at now: Date) async throws -> [OutboxQueue] {
    let statement = Statement(
      """
      SELECT r.id, r.provider, r.credential, r.target, r.owner FROM outbox_routes r
      WHERE (SELECT MIN(o.due_at) FROM outbox o WHERE o.route_id = r.id) <= $1
      """, .integer(now.milliseconds))
    let rows = try await database.query(statement).compactMap { row in
      try OutboxQueue(row, from: 1).map { ($0, try row.int64(0)) }
    }
    ids.withLock { $0.merge(rows) { $1 } }
    return rows.map(\.0).shuffled()
  }

  /// Removes rows that nothing refers to, a bounded number.
  ///
  /// - Returns: how many.
  func removeUnused(limit: Int) async throws -> Int {
    do {
      let removed = try await database.execute(
        Statement(
          """
          DELETE FROM outbox_routes WHERE id IN (
            SELECT r.id FROM outbox_routes r
            WHERE NOT EXISTS (SELECT 1 FROM outbox o WHERE o.route_id = r.id)
              AND NOT EXISTS (SELECT 1 FROM registrations g WHERE g.dead_route_id = r.id) LIMIT $1)
          RETURNING provider, credential, target, owner
          """, .integer(Int64(limit))))
      forget(try removed.compactMap { try OutboxQueue($0, from: 0) })
      return removed.count
    } catch let error as DatabaseError where error.code == .foreignKeyViolation {
      // Another node has kept something just now: the next time.
      return 0
    }
  }
}

extension OutboxQueue {
  /// As `outbox_routes` keeps it.
  var columns: [Value] {
    [.text(route.provider.rawValue), .text(route.credential), .text(route.target), .integer(owner.id)]
  }

  /// From four columns of a row; nil if this program does not know the provider.
  init?(_ row: Row, from column: Int) throws {
    guard let route = try Route(row, from: column) else { return nil }
    self.init(route: route, owner: Owner(id: try row.int64(column + 3)))
  }
}

extension Route {
  /// From three columns of a row; nil if this program does not know the provider.
  init?(_ row: Row, from column: Int) throws {
    guard let provider = Provider(rawValue: try row.text(column)) else { return nil }
    self.init(
      provider: provider, credential: try row.text(column + 1), target: try row.text(column + 2))
  }
}
