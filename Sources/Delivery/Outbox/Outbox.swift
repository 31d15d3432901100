package import Foundation
package import Providers
import Registrations
package import SQL
package import Sealing
import Storage
import Synchronization

/// What was promised and no provider has taken yet, durable and sealed (`Documentation/Decisions` 0001, 0002).
///
/// An entry is sent under a lease: taking it moves its due time behind the end of the lease, so that
/// whoever finds it due again may take it over. The lease outlives the longest wait for an answer. The entry is
/// removed after the answer; a crash in between sends it a second time, with the same `apns-id`.
package final class Outbox: Sendable {
  /// How much is kept. Each kind of registrations has its own share: what comes of one takes no room from another.
  package struct Limits: Sendable {
    /// Entries of one route, of each kind.
    var perRoute = 1_000_000
    /// Entries of each kind.
    var perKind = 1_500_000
    /// Entries of one registration.
    var perRegistration = 100

    /// The defaults.
    package init() {}
  }

  /// The outbox takes no more: what cannot be kept must not be promised.
  package struct Full: Error, Hashable {}

  let database: any Database
  let storageKey: StorageKey
  let maxAge: TimeInterval
  private let limits: Limits
  let queue: LeasedQueue
  let now: @Sendable () -> Date
  let mayExpire: @Sendable () -> Bool
  let depth: OutboxDepth
  private let backlog = Mutex<Date?>(nil)
  private let routeIDs = Mutex<[Route: Int64]>([:])
  let unsettled = Mutex<[(lease: Lease, fate: Fate, route: Route)]>([])

  /// How long a provider may ask us to wait, and a try may take then, in seconds; rounded up.
  package static let longestPause: TimeInterval = 2 * 3600

  /// - Parameters:
  ///   - maxAge: how long an entry is kept at most, in seconds.
  ///   - longestPause: no entry is due further ahead than this, in seconds.
  ///   - mayExpire: whether anything may be taken as expired now: not while the clock is doubted.
  package init(
    database: any Database, storageKey: StorageKey, maxAge: TimeInterval, limits: Limits = Limits(),
    longestPause: TimeInterval = longestPause, now: @escaping @Sendable () -> Date,
    mayExpire: @escaping @Sendable () -> Bool = { true }
  ) {
    self.database = database
    self.storageKey = storageKey
    self.maxAge = maxAge
    self.limits = limits
    depth = OutboxDepth(limits: limits)
    queue = LeasedQueue(
      "outbox", columns: "registration_id, registered_at, push, expires_at, registration_kind, created_at",
      where: "route_id = $4", changing: "expires_at = CASE WHEN expires_at > $5 THEN $5 ELSE expires_at END",
      longestPause: longestPause, all: "route_id IN (SELECT id FROM outbox_routes)", database: database,
      now: now)
    self.now = now
    self.mayExpire = mayExpire
  }

  /// As many as may wait for one device; more are refused.
  package var mostPerDevice: Int { limits.perRegistration }

  /// When a notification was last refused because as many waited for its device.
  package var backloggedAt: Date? { backlog.withLock { $0 } }

  /// How many entries there are.
  package var count: Int { depth.total }

  /// Since when the entry that came first has been there; nil where there is none. One that a newer
  /// notification has replaced counts from then.
  package func oldest() async throws -> Date? {
    let statement = Statement("SELECT created_at FROM outbox ORDER BY id LIMIT 1")
    return try await database.query(statement).first.map { Date(milliseconds: try $0.int64(0)) }
  }

  /// How many wait for the routes of a credential.
  package func count(of provider: Route.Provider, credential: String) -> Int {
    let ids = routeIDs.withLock { routes in
      routes.filter { $0.key.provider == provider && $0.key.credential == credential }.map(\.value)
    }
    return ids.reduce(0) { $0 + depth.count(ofRoute: $1) }
  }

  /// How many wait for a route.
  package func count(for route: Route) -> Int {
    routeIDs.withLock { $0[route] }.map { depth.count(ofRoute: $0) } ?? 0
  }

  /// The same as ``oldest()`` of those that were tried again or are overdue: not of one whose time was set ahead when
  /// it came, by its chat server's pace or by the provider. Only so many are looked at.
  package func oldestLate() async throws -> Date? {
    let statement = Statement(
      """
      SELECT created_at FROM (SELECT id, created_at, due_at, attempts FROM outbox ORDER BY id LIMIT 5000) AS first
      WHERE attempts > 2 OR due_at <= $1 OR due_at - created_at <= $2 ORDER BY id LIMIT 1
      """, .integer(now().milliseconds - 60_000), .integer(Self.longestFirstPause))
    return try await database.query(statement).first.map { Date(milliseconds: try $0.int64(0)) }
  }

  /// Milliseconds; more than from any first try to the second, where nobody has set the time.
  private static let longestFirstPause: Int64 = 120_000

  /// Counts what is there, of a run before this one or of another node. Reads the index.
  package func recount() async throws {
    depth.beginCount()
    let statement = Statement(
      """
      SELECT r.id, r.provider, r.credential, r.target, COUNT(CASE o.registration_kind WHEN 1 THEN 1 END),
        COUNT(CASE o.registration_kind WHEN 2 THEN 1 END), COUNT(CASE o.registration_kind WHEN 3 THEN 1 END)
      FROM outbox_routes r LEFT JOIN outbox o ON o.route_id = r.id GROUP BY r.id
      """)
    let rows = try await database.query(statement)
    var counted: [OutboxDepth.Share: Int] = [:]
    var known: [Route: Int64] = [:]
    for row in rows {
      guard let provider = Route.Provider(rawValue: try row.text(1)) else { continue }
      let route = Route(provider: provider, credential: try row.text(2), target: try row.text(3))
      known[route] = try row.int64(0)
      for (index, kind) in [RegistrationReference.Kind.e2ee, .legacy, .nextcloud].enumerated() {
        counted[OutboxDepth.Share(route: try row.int64(0), kind: kind)] = Int(try row.int64(4 + index))
      }
    }
    routeIDs.withLock { $0.merge(known) { $1 } }
    depth.endCount(counted)
  }

  /// The routes that have entries.
  func routesWithEntries() -> [Route] {
    let routes = depth.routes
    return routeIDs.withLock { $0.filter { routes.contains($0.value) }.map(\.key) }
  }

  /// Keeps deliveries, all or none but for those of registrations that have as many as they may; they are durable when
  /// this returns. One that is at its provider is due when its lease ends.
  ///
  /// - Returns: for each, what settles it if it is under lease; nil for one that is not kept.
  /// - Throws: ``Full``, or the database's own error.
  @discardableResult
  func keep(_ entries: [(delivery: RegisteredPush, route: Route, dueAt: Date)]) async throws -> [Lease?] {
    let now = now()
    var insertions: [Insertion] = []
    for (delivery, route, dueAt) in entries {
      let id = try await self.id(of: route)
      let expiry = min(now + maxAge, delivery.push.expiration(from: now) ?? .distantFuture)
      let collapse = delivery.push.collapseID.map {
        storageKey.hash("\(delivery.registration.collapseKey) \($0)", for: Self.collapsePurpose).prefix(8)
          .reduce(Int64(0)) { $0 << 8 | Int64($1) }
      }
      insertions.append(
        Insertion(
          statement: Statement(
            insertion, .integer(id), .integer(delivery.registration.kind.rawValue),
            .integer(delivery.registration.id), .integer(delivery.registration.registeredAt.milliseconds),
            .bytes(
              try SealedPush.seal(delivery.push, for: delivery.registration.row, with: storageKey)),
            .integer(collapse),
            .integer(now.milliseconds), .integer(dueAt.milliseconds),
            .integer(expiry.milliseconds)),
          share: OutboxDepth.Share(route: id, kind: delivery.registration.kind),
          registration: delivery.registration.row))
    }
    let shares = insertions.map(\.share)
    try depth.reserve(shares)
    defer { depth.arrived(shares) }
    do {
      let kept = try await database.write { [insertions, limits] in
        try $0.insert(insertions, perRegistration: limits.perRegistration)
      }
      // More than one attempt: the place of an older entry with the same collapse id was taken.
      depth.release(zip(shares, kept).filter { ($1?.attempts ?? 2) > 1 }.map(\.0))
      if kept.contains(where: { $0 == nil }) { backlog.withLock { $0 = now } }
      return zip(entries, kept).map { entry, kept in
        kept.map {
          Lease(
            row: .init(id: $0.id, attempts: $0.attempts, end: entry.dueAt),
            kind: entry.delivery.registration.kind)
        }
      }
    } catch {
      depth.release(shares)
      throw error
    }
  }

  private static let collapsePurpose = StorageKey.Purpose("outbox.collapse")

  /// The row of a route.
  func id(of route: Route) async throws -> Int64 {
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
