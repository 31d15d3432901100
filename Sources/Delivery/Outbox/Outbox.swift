public import Foundation
import Providers
import Registrations
public import SQL
public import Sealing
import Synchronization

/// What was promised and no provider has taken yet, durable and sealed (`spec/decisions.md` 22).
///
/// An entry is sent under a lease: taking it moves its due time behind the end of the lease, so that
/// whoever finds it due again may take it over. The lease outlives the longest wait for an answer. The entry is
/// removed after the answer; a crash in between sends it a second time, with the same `apns-id`.
public final class Outbox: Sendable {
  /// How much is kept.
  public struct Limits: Sendable {
    /// Entries of one route.
    public var perRoute = 2_000_000
    /// Entries in all.
    public var total = 4_000_000

    /// The defaults.
    public init() {}
  }

  /// The outbox takes no more: what cannot be kept must not be promised.
  public struct Full: Error, Hashable {}

  /// How many entries there are, by the rows of `outbox_routes`. Counted once, then kept along.
  private struct Depth {
    var routes: [Int64: Int] = [:]
    /// Reserved by insertions under way.
    var arriving: [Int64: Int] = [:]
    /// What a count that is under way may have missed. One too many is put right by the next count; one
    /// too few would leave an entry waiting for it.
    var sinceCount: [Int64: Int] = [:]
    var total: Int { routes.values.reduce(0, +) }
  }

  private let database: any Database
  private let storageKey: StorageKey
  private let maxAge: TimeInterval
  private let limits: Limits
  private let now: @Sendable () -> Date
  private let depth = Mutex(Depth())
  private let routeIDs = Mutex<[Route: Int64]>([:])
  private let unsettled = Mutex<[(lease: Lease, fate: Fate, route: Route)]>([])

  /// - Parameter maxAge: how long an entry is kept at most, in seconds.
  public init(
    database: any Database, storageKey: StorageKey, maxAge: TimeInterval, limits: Limits = Limits(),
    now: @escaping @Sendable () -> Date
  ) {
    self.database = database
    self.storageKey = storageKey
    self.maxAge = maxAge
    self.limits = limits
    self.now = now
  }

  /// How many entries there are.
  public var count: Int { depth.withLock { $0.total } }

  /// Since when the entry that came first has been there; nil where there is none. One that a newer
  /// notification has replaced counts from then.
  public func oldest() async throws -> Date? {
    let statement = Statement("SELECT created_at FROM outbox ORDER BY id LIMIT 1")
    return try await database.read { try $0.query(statement).first?.int64(0) }.map(Date.init(milliseconds:))
  }

  /// Counts what is there, of a run before this one or of another node. Reads the index.
  public func recount() async throws {
    depth.withLock { $0.sinceCount = $0.arriving }
    let statement = Statement(
      """
      SELECT r.id, r.provider, r.credential, r.target, (SELECT COUNT(*) FROM outbox o WHERE o.route_id = r.id)
      FROM outbox_routes r
      """)
    let rows = try await database.read { try $0.query(statement) }
    var counted: [Int64: Int] = [:]
    var known: [Route: Int64] = [:]
    for row in rows {
      guard let provider = Route.Provider(rawValue: try row.text(1)) else { continue }
      let route = Route(provider: provider, credential: try row.text(2), target: try row.text(3))
      known[route] = try row.int64(0)
      counted[try row.int64(0)] = Int(try row.int64(4))
    }
    routeIDs.withLock { $0.merge(known) { $1 } }
    depth.withLock { $0.routes = counted.merging($0.sinceCount, uniquingKeysWith: +) }
  }

  /// The routes that have entries.
  func routesWithEntries() -> [Route] {
    let depth = depth.withLock { $0.routes }
    return routeIDs.withLock { $0.filter { depth[$0.value, default: 0] > 0 }.map(\.key) }
  }

  /// Keeps deliveries, all or none; they are durable when this returns. One that is at its provider is due when
  /// its lease ends.
  ///
  /// - Returns: for each, what settles it if it is under lease.
  /// - Throws: ``Full``, or the database's own error.
  @discardableResult
  func keep(_ entries: [(delivery: Delivery, route: Route, dueAt: Date)]) async throws -> [Lease] {
    let now = now()
    var statements: [(statement: Statement, route: Int64)] = []
    for (delivery, route, dueAt) in entries {
      let id = try await self.id(of: route)
      let expiry = min(now + maxAge, delivery.push.expiration(from: now) ?? .distantFuture)
      let collapse = delivery.push.collapseID.map {
        storageKey.hash("\(delivery.registration.collapseKey) \($0)", for: Self.collapsePurpose).prefix(8)
          .reduce(Int64(0)) { $0 << 8 | Int64($1) }
      }
      statements.append(
        (
          Statement(
            insertion, .integer(id), .integer(delivery.registration.kind.rawValue),
            .integer(delivery.registration.id), .integer(delivery.registration.registeredAt.milliseconds),
            .bytes(try SealedPush.seal(delivery.push, with: storageKey)), .integer(collapse),
            .integer(now.milliseconds), .integer(dueAt.milliseconds), .integer(expiry.milliseconds)), id
        ))
    }
    try reserve(statements.map(\.route))
    defer { arrived(statements.map(\.route)) }
    do {
      let insertions = statements
      let kept = try await database.write { connection in
        try insertions.map { insertion in
          guard let row = try connection.query(insertion.statement).first else {
            throw DatabaseError(.other, "an insertion returned no row")
          }
          return (id: try row.int64(0), attempts: Int(try row.int64(1)))
        }
      }
      // More than one attempt: the place of an older entry with the same collapse id was taken.
      release(zip(insertions, kept).filter { $1.attempts > 1 }.map(\.0.route))
      return zip(entries, kept).map {
        Lease(id: $1.id, attempts: $1.attempts, end: $0.dueAt.milliseconds)
      }
    } catch {
      release(statements.map(\.route))
      throw error
    }
  }

  private static let collapsePurpose = StorageKey.Purpose("outbox.collapse")

  private func reserve(_ routes: [Int64]) throws(Full) {
    let fits = depth.withLock { depth in
      var routesThen = depth.routes
      for route in routes { routesThen[route, default: 0] += 1 }
      guard depth.total + routes.count <= limits.total,
        routes.allSatisfy({ routesThen[$0, default: 0] <= limits.perRoute })
      else { return false }
      depth.routes = routesThen
      for route in routes {
        depth.arriving[route, default: 0] += 1
        depth.sinceCount[route, default: 0] += 1
      }
      return true
    }
    if !fits { throw Full() }
  }

  private func arrived(_ routes: [Int64]) {
    depth.withLock { depth in
      for route in routes { depth.arriving[route, default: 0] -= 1 }
    }
  }

  private func release(_ routes: some Sequence<Int64>) {
    depth.withLock { depth in
      for route in routes { depth.routes[route] = max(0, depth.routes[route, default: 0] - 1) }
    }
  }

  private func id(of route: Route) async throws -> Int64 {
    if let id = routeIDs.withLock({ $0[route] }) { return id }
    // The update changes nothing: it is there so that a row which exists comes back.
    let rows = try await database.execute(
      Statement(
        """
        INSERT INTO outbox_routes (provider, credential, target) VALUES ($1, $2, $3)
        ON CONFLICT (provider, credential, target) DO UPDATE SET target = excluded.target RETURNING id
        """, .text(route.provider.rawValue), .text(route.credential), .text(route.target)))
    guard let id = try rows.first?.int64(0) else {
      throw DatabaseError(.other, "an insertion returned no row")
    }
    routeIDs.withLock { $0[route] = id }
    return id
  }
}

extension Outbox {
  /// The right to say what becomes of an entry, until it ends or another takes the entry's place.
  struct Lease: Sendable {
    let id: Int64
    /// This try included.
    let attempts: Int
    /// In milliseconds since 1970, as it is kept: an entry that another has taken ends at another time.
    let end: Int64
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

  /// Takes due entries of a route, the longest due first. Those that no longer open are removed.
  func lease(_ route: Route, limit: Int, for seconds: TimeInterval) async throws -> [Entry] {
    try await settle()
    let routeID = try await id(of: route)
    let now = now()
    let end = (now + seconds).milliseconds
    let rows = try await database.execute(
      Statement(
        """
        UPDATE outbox SET due_at = $3, attempts = attempts + 1
        WHERE id IN (
          SELECT id FROM outbox WHERE route_id = $1 AND due_at <= $2 ORDER BY due_at LIMIT $4 $skip_locked)
        RETURNING id, registration_id, registered_at, push, attempts, expires_at, registration_kind
        """,
        .integer(routeID), .integer(now.milliseconds), .integer(end),
        .integer(Int64(limit))))
    var entries: [Entry] = []
    var unreadable: [(Lease, Fate)] = []
    for row in rows {
      let lease = Lease(id: try row.int64(0), attempts: Int(try row.int64(4)), end: end)
      guard let push = SealedPush.open(try row.bytes(3), with: storageKey),
        let kind = RegistrationReference.Kind(rawValue: try row.int64(6))
      else {
        unreadable.append((lease, .remove))
        continue
      }
      let delivery = Delivery(
        push: push,
        registration: .init(
          kind, id: try row.int64(1), registeredAt: Date(milliseconds: try row.int64(2))))
      entries.append(
        Entry(lease: lease, delivery: delivery, expiresAt: Date(milliseconds: try row.int64(5))))
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
        try waiting.filter { try connection.settle($0.lease, $0.fate) }.map(\.route)
      }
      release(removed.compactMap { routeIDs[$0] })
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

private let insertion = """
  INSERT INTO outbox
    (route_id, registration_kind, registration_id, registered_at, push, collapse_hash, created_at, due_at,
    expires_at, attempts)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1)
  ON CONFLICT (collapse_hash) WHERE collapse_hash IS NOT NULL DO UPDATE SET
    route_id = excluded.route_id, registration_kind = excluded.registration_kind,
    registration_id = excluded.registration_id, registered_at = excluded.registered_at,
    push = excluded.push, created_at = excluded.created_at, due_at = excluded.due_at, expires_at = excluded.expires_at,
    attempts = outbox.attempts + 1
  RETURNING id, attempts
  """

extension RegistrationReference {
  /// Tells registrations apart, of every kind. Those that are end-to-end encrypted keep the name they
  /// had when there were no others.
  fileprivate var collapseKey: String { kind == .e2ee ? "\(id)" : "\(kind) \(id)" }
}
