import Foundation
import Providers
import SQL
import Storage
import Synchronization

/// The rows of `outbox_routes`, which entries and held deaths refer to. Those of push services go when nothing refers to
/// them any more, on one node while another still knows their ids: whoever uses an id looks whether it still holds.
final class OutboxRoutes: Sendable {
  /// An id that was known is no longer that of its route.
  struct Stale: Error {}

  /// Whether this error comes from such an id.
  static func isStale(_ error: any Error) -> Bool {
    error is Stale || (error as? DatabaseError)?.code == .foreignKeyViolation
  }

  private let database: any Database
  private let ids = Mutex<[Route: Int64]>([:])

  init(database: any Database) { self.database = database }

  /// The rows of routes, as they were known last; made where there are none.
  func ids(of routes: Set<Route>) async throws -> [Route: Int64] {
    var found: [Route: Int64] = [:]
    ids.withLock { ids in
      for route in routes { found[route] = ids[route] }
    }
    let missing = routes.filter { found[$0] == nil }
    if !missing.isEmpty { found.merge(try await make(missing)) { $1 } }
    return found
  }

  /// The rows of routes, as they are; made where there are none.
  func make(_ routes: Set<Route>) async throws -> [Route: Int64] {
    // In one order on all nodes: none waits for a row of another that waits for one of its own.
    let sorted = routes.sorted { $0.description < $1.description }
    let made = try await database.write { connection in
      try sorted.map { route in
        // The update changes nothing: it is there so that a row which exists comes back.
        let statement = Statement(
          """
          INSERT INTO outbox_routes (provider, credential, target) VALUES ($1, $2, $3)
          ON CONFLICT (provider, credential, target) DO UPDATE SET target = excluded.target RETURNING id
          """, arguments: route.columns)
        guard let row = try connection.query(statement).first else {
          throw DatabaseError(.other, "an insertion returned no row")
        }
        return (route, try row.int64(0))
      }
    }
    let found = Dictionary(made) { $1 }
    ids.withLock { $0.merge(found) { $1 } }
    return found
  }

  /// The row of a route; nil if it has none.
  func find(_ route: Route) async throws -> Int64? {
    if let id = ids.withLock({ $0[route] }) { return id }
    let row = try await database.query(
      Statement(
        "SELECT id FROM outbox_routes WHERE provider = $1 AND credential = $2 AND target = $3",
        arguments: route.columns)
    ).first
    guard let id = try row?.int64(0) else { return nil }
    ids.withLock { $0[route] = id }
    return id
  }

  /// Knows these no more.
  func forget(_ routes: some Collection<Route>) {
    ids.withLock { ids in
      for route in routes { ids[route] = nil }
    }
  }

  /// These are all that there are.
  func know(_ routes: [Route: Int64]) { ids.withLock { $0 = routes } }

  /// Those that have something due, in no order. Looks at one entry of each.
  func due(at now: Date) async throws -> [Route] {
    let statement = Statement(
      """
      SELECT r.id, r.provider, r.credential, r.target FROM outbox_routes r
      WHERE (SELECT MIN(o.due_at) FROM outbox o WHERE o.route_id = r.id) <= $1
      """, .integer(now.milliseconds))
    let rows = try await database.query(statement).compactMap { row in
      try Route(row, from: 1).map { ($0, try row.int64(0)) }
    }
    ids.withLock { $0.merge(rows) { $1 } }
    return rows.map(\.0).shuffled()
  }

  /// Removes rows of push services that nothing refers to, a bounded number.
  ///
  /// - Returns: how many.
  func removeUnused(limit: Int) async throws -> Int {
    do {
      let removed = try await database.execute(
        Statement(
          """
          DELETE FROM outbox_routes WHERE id IN (
            SELECT r.id FROM outbox_routes r WHERE r.provider = $1
              AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.route_id = r.id)
              AND NOT EXISTS (SELECT 1 FROM held_deaths h WHERE h.route_id = r.id) LIMIT $2)
          RETURNING provider, credential, target
          """, .text(Route.Provider.webPush.rawValue), .integer(Int64(limit))))
      forget(try removed.compactMap { try Route($0, from: 0) })
      return removed.count
    } catch let error as DatabaseError where error.code == .foreignKeyViolation {
      // Another node has kept something just now: the next time.
      return 0
    }
  }
}

extension Route {
  /// As `outbox_routes` keeps it.
  var columns: [Value] { [.text(provider.rawValue), .text(credential), .text(target)] }

  /// From three columns of a row; nil if this program does not know the provider.
  init?(_ row: Row, from column: Int) throws {
    guard let provider = Provider(rawValue: try row.text(column)) else { return nil }
    self.init(
      provider: provider, credential: try row.text(column + 1), target: try row.text(column + 2))
  }
}
