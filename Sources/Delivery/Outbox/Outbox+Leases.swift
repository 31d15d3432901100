import Foundation
import Providers
import Registrations
import SQL
import Sealing
import Storage
import Synchronization

extension Outbox {
  /// The right to say what becomes of an entry, until it ends or another takes the entry's place.
  struct Lease: Sendable {
    let id: Int64
    /// This try included.
    let attempts: Int
    /// In milliseconds since 1970, as it is kept: an entry that another has taken ends at another time.
    let end: Int64
    /// Whose registration it is for; nil if this program does not know.
    let kind: RegistrationReference.Kind?
  }

  /// An entry under lease.
  struct Entry: Sendable {
    let lease: Lease
    let delivery: Delivery
    let expiresAt: Date
  }

  /// What becomes of an entry.
  enum Fate: Sendable {
    /// It is done with, well or badly.
    case remove
    /// It is tried again.
    case retry(at: Date)
  }

  /// Seconds until an entry that does not open is looked at again.
  private static let unreadablePause: TimeInterval = 60

  /// Whether an entry's time is over.
  func isOver(_ entry: Entry) -> Bool { isOver(entry.expiresAt) }

  private func isOver(_ end: Date) -> Bool { end <= now() && mayExpire() }

  /// Makes due what is due further ahead than anything is ever put off: a clock that was wrong has done that.
  package func bringForward() async throws {
    let now = now()
    // By the routes, which have an index.
    let statement = Statement(
      """
      UPDATE outbox SET due_at = $1
      WHERE route_id IN (SELECT id FROM outbox_routes) AND due_at > $2
      """, .integer(now.milliseconds), .integer((now + longestPause).milliseconds))
    _ = try await database.execute(statement)
  }

  /// Takes due entries of a route, the longest due first. Those that do not open stay, for
  /// a node that can open them, until they have expired.
  func lease(_ route: Route, limit: Int, for seconds: TimeInterval) async throws -> [Entry] {
    try await settle()
    let routeID = try await id(of: route)
    let now = now()
    let end = (now + seconds).milliseconds
    // One that a wrong clock has kept lives no longer than it would have by the right one.
    let latestEnd = mayExpire() ? now + maxAge : .distantFuture
    let rows = try await database.execute(
      Statement(
        """
        UPDATE outbox SET due_at = $3, attempts = attempts + 1,
          expires_at = CASE WHEN expires_at > $5 THEN $5 ELSE expires_at END
        WHERE id IN (
          SELECT id FROM outbox WHERE route_id = $1 AND due_at <= $2 ORDER BY due_at LIMIT $4 $skip_locked)
        RETURNING id, registration_id, registered_at, push, attempts, expires_at, registration_kind
        """,
        .integer(routeID), .integer(now.milliseconds), .integer(end),
        .integer(Int64(limit)), .integer(latestEnd.milliseconds)))
    var entries: [Entry] = []
    var unreadable: [(Lease, Fate)] = []
    for row in rows {
      let kind = RegistrationReference.Kind(rawValue: try row.int64(6))
      let lease = Lease(id: try row.int64(0), attempts: Int(try row.int64(4)), end: end, kind: kind)
      let expiresAt = Date(milliseconds: try row.int64(5))
      let registration = try kind.map { kind in
        RegistrationReference(
          kind, id: try row.int64(1), registeredAt: Date(milliseconds: try row.int64(2)))
      }
      guard let registration,
        let push = SealedPush.open(try row.bytes(3), for: registration.row, with: storageKey)
      else {
        unreadable.append((lease, isOver(expiresAt) ? .remove : .retry(at: now + Self.unreadablePause)))
        continue
      }
      entries.append(
        Entry(
          lease: lease, delivery: Delivery(push: push, registration: registration), expiresAt: expiresAt))
    }
    try await settle(unreadable, on: route)
    return entries
  }

  /// Writes down what became of leased entries. One that another has taken over meanwhile is that one's.
  ///
  /// What cannot be written now is written before anything else is leased: the answer was heard, and a database
  /// that is away for a while is no reason to send again.
  func settle(_ fates: [(lease: Lease, fate: Fate)] = [], on route: Route? = nil) async throws {
    let waiting = unsettled.withLock { unsettled in
      if let route { unsettled += fates.map { ($0, $1, route) } }
      defer { unsettled = [] }
      return unsettled
    }
    guard !waiting.isEmpty else { return }
    do {
      var routeIDs: [Route: Int64] = [:]
      for route in Set(waiting.map(\.route)) { routeIDs[route] = try await id(of: route) }
      let removed = try await database.write { connection in
        try waiting.filter { try connection.settle($0.lease, $0.fate) }
      }
      depth.release(
        removed.compactMap { removed in
          guard let route = routeIDs[removed.route], let kind = removed.lease.kind else { return nil }
          return OutboxDepth.Share(route: route, kind: kind)
        })
    } catch {
      unsettled.withLock { $0 = waiting + $0 }
      throw error
    }
  }
}

extension Connection {
  /// Whether the entry is gone by that.
  fileprivate func settle(_ lease: Outbox.Lease, _ fate: Outbox.Fate) throws -> Bool {
    let key: [Value] = [.integer(lease.id), .integer(Int64(lease.attempts)), .integer(lease.end)]
    switch fate {
    case .remove:
      return try run(
        Statement("DELETE FROM outbox WHERE id = $1 AND attempts = $2 AND due_at = $3", arguments: key)) > 0
    case .retry(let date):
      try run(
        Statement(
          "UPDATE outbox SET due_at = $4 WHERE id = $1 AND attempts = $2 AND due_at = $3",
          arguments: key + [.integer(date.milliseconds)]))
      return false
    }
  }
}
