package import Foundation
import Providers
package import Registrations
package import SQL
package import Sealing
import Synchronization

/// What was promised and no provider has taken yet, durable and sealed (`Documentation/Decisions` 0001, 0002).
///
/// An entry is sent under a lease: taking it moves its due time behind the end of the lease, so that
/// whoever finds it due again may take it over. The lease outlives the longest wait for an answer. The entry is
/// removed after the answer; a crash in between sends it a second time, with the same `apns-id`.
package final class Outbox: Sendable {
  /// How much is kept. Each kind of registrations has its own share: what comes of one takes no room from another. In
  /// each, an owner has at most three times as much as is free (``FairShare``).
  package struct Limits: Sendable {
    /// Entries of one route of APNs or FCM, of each kind.
    var perRoute = 1_500_000
    /// Entries of each kind.
    var perKind = 2_000_000
    /// Entries of one push service, of each kind. There may be thousands of them, named by strangers.
    var perHost = 10_000
    /// Entries of all push services, of each kind, besides those of APNs and FCM.
    var perKindOfHosts = 300_000
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
  let routes: OutboxRoutes
  let unsettled = Mutex<[(lease: Lease, retry: Retry?)]>([])

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
    routes = OutboxRoutes(database: database)
    queue = LeasedQueue(
      "outbox", columns: "registration_id, registered_at, push, expires_at, wire, created_at",
      where: "route_id = $4", inTurnsOf: "registration_id",
      changing: "expires_at = CASE WHEN expires_at > $5 THEN $5 ELSE expires_at END",
      longestPause: longestPause, all: "route_id IN (SELECT id FROM outbox_routes)", database: database,
      now: now)
    self.now = now
    self.mayExpire = mayExpire
  }

  /// As many as may wait for one device; more are refused.
  package var mostPerDevice: Int { limits.perRegistration }

  /// When a notification was last refused because as many waited for its device.
  package var backloggedAt: Date? { backlog.withLock { $0 } }

  /// Counts what is there, of a run before this one or of another node. Reads the index.
  package func recount() async throws {
    depth.beginCount()
    let statement = Statement(
      """
      SELECT r.id, r.provider, r.credential, r.target, r.owner, COUNT(CASE o.wire WHEN 1 THEN 1 END),
        COUNT(CASE o.wire WHEN 2 THEN 1 END), COUNT(CASE o.wire WHEN 3 THEN 1 END),
        COUNT(CASE o.wire WHEN 4 THEN 1 END)
      FROM outbox_routes r LEFT JOIN outbox o ON o.route_id = r.id GROUP BY r.id
      """)
    let rows = try await database.query(statement)
    var counted: [OutboxDepth.Share: Int] = [:]
    var known: [OutboxQueue: Int64] = [:]
    for row in rows {
      guard let queue = try OutboxQueue(row, from: 1) else { continue }
      known[queue] = try row.int64(0)
      for (index, kind) in [RegistrationReference.Kind.e2ee, .legacy, .nextcloud, .nextcloudWebPush]
        .enumerated()
      {
        counted[OutboxDepth.Share(queue: queue, kind: kind)] = Int(try row.int64(5 + index))
      }
    }
    routes.know(known)
    depth.endCount(counted)
  }

  /// The routes that have entries.
  func routesWithEntries() -> Set<Route> { depth.routes }

  /// The queues that have something due.
  func dueQueues() async throws -> [OutboxQueue] {
    depth.total > 0 ? try await routes.due(at: now()) : []
  }

  /// Keeps deliveries, all or none but for those of registrations, of push services and of whoever registers with the
  /// push proxy that have as many as they may;
  /// they are durable when this returns. One that is at its provider is due when its lease ends.
  ///
  /// - Returns: for each, what settles it if it is under lease; nil for one that is not kept.
  /// - Throws: ``Full``, or the database's own error.
  @discardableResult
  func keep(_ entries: [(delivery: RegisteredPush, route: Route, dueAt: Date)]) async throws -> [Lease?] {
    let now = now()
    let shares = entries.map {
      OutboxDepth.Share(
        queue: OutboxQueue(route: $0.route, owner: $0.delivery.owner), kind: $0.delivery.registration.kind)
    }
    let granted = try depth.reserve(shares)
    let taken = entries.indices.filter { granted[$0] }
    let reserved = taken.map { shares[$0] }
    defer { depth.arrived(reserved) }
    do {
      let kept = taken.isEmpty ? [] : try await insert(taken.map { entries[$0] }, now: now)
      // More than one attempt: the place of an older entry with the same collapse id was taken.
      depth.release(zip(reserved, kept).filter { ($1?.attempts ?? 2) > 1 }.map(\.0))
      var leases = [Lease?](repeating: nil, count: entries.count)
      for (index, kept) in zip(taken, kept) {
        leases[index] = kept.map {
          Lease(
            row: .init(id: $0.id, attempts: $0.attempts, end: entries[index].dueAt), share: shares[index])
        }
      }
      // A push service is of those who chose it: one that is gone is nobody else's matter.
      if zip(entries, leases).contains(where: { $1 == nil && $0.route.provider != .webPush }) {
        backlog.withLock { $0 = now }
      }
      return leases
    } catch {
      depth.release(reserved)
      throw error
    }
  }

  private func insert(
    _ entries: [(delivery: RegisteredPush, route: Route, dueAt: Date)], now: Date, triesLeft: Int = 3
  ) async throws -> [(id: Int64, attempts: Int)?] {
    let queues = entries.map { OutboxQueue(route: $0.route, owner: $0.delivery.owner) }
    let ids = try await routes.ids(of: Set(queues))
    do {
      let insertions = try zip(entries, queues).map { try insertion(of: $0, in: $1, ids[$1] ?? 0, now) }
      return try await database.write { [limits] in
        try $0.insert(insertions, perRegistration: limits.perRegistration)
      }
    } catch  where triesLeft > 0 && OutboxRoutes.isStale(error) {
      routes.forget(ids.keys)
      return try await insert(entries, now: now, triesLeft: triesLeft - 1)
    }
  }

  private func insertion(
    of entry: (delivery: RegisteredPush, route: Route, dueAt: Date), in queue: OutboxQueue, _ routeID: Int64,
    _ now: Date
  ) throws -> Insertion {
    let (push, registration) = (entry.delivery.push, entry.delivery.registration)
    let expiry = min(now + maxAge, push.expiration(from: now) ?? .distantFuture)
    let collapse = push.collapseID.map { collapseHash(of: $0, registration) }
    let values: [Value] = [
      .integer(routeID), .integer(registration.kind.rawValue), .integer(registration.id),
      .integer(registration.registeredAt.milliseconds),
      .bytes(try SealedPush.seal(push, for: registration.id, with: storageKey)), .integer(collapse),
      .integer(now.milliseconds), .integer(entry.dueAt.milliseconds), .integer(expiry.milliseconds),
    ]
    return Insertion(
      statement: Statement(Self.insertion, arguments: values + queue.columns),
      registration: registration.id)
  }

  /// Takes rows of routes away that nothing refers to any more, a bounded number.
  ///
  /// - Returns: how many.
  package func removeUnusedRoutes(limit: Int) async throws -> Int {
    try await routes.removeUnused(limit: limit)
  }

  /// Inserts nothing where the route's row is gone, or is another's by now.
  private static let insertion = """
    INSERT INTO outbox
      (route_id, wire, registration_id, registered_at, push, collapse_hash, created_at, due_at,
      expires_at, attempts)
    SELECT id, $2, $3, $4, $5, CAST($6 AS BIGINT), $7, $8, $9, 1 FROM outbox_routes
    WHERE id = $1 AND provider = $10 AND credential = $11 AND target = $12 AND owner = $13
    ON CONFLICT (collapse_hash) WHERE collapse_hash IS NOT NULL DO UPDATE SET
      route_id = excluded.route_id, wire = excluded.wire,
      registration_id = excluded.registration_id, registered_at = excluded.registered_at,
      push = excluded.push, created_at = excluded.created_at, due_at = excluded.due_at,
      expires_at = excluded.expires_at, attempts = outbox.attempts + 1
    RETURNING id, attempts
    """
}

extension Outbox {
  /// Gives what is on its way to a registration to another one, in the transaction in which that takes its place: it
  /// was promised, and is not sent twice.
  package static func handOver(
    from old: RegistrationReference, to new: RegistrationReference, sealedUnder storageKey: StorageKey,
    on connection: any Connection
  ) throws {
    let waiting = try connection.query(
      Statement(
        "SELECT id, push FROM outbox WHERE registration_id = $1", .integer(old.id)))
    for row in waiting {
      let sealed = try row.bytes(1)
      let push = storageKey.open(sealed, at: place(of: old.id))
      try connection.run(
        Statement(
          """
          UPDATE outbox SET wire = $2, registration_id = $3, registered_at = $4, push = $5
          WHERE id = $1
          """, .integer(try row.int64(0)), .integer(new.kind.rawValue), .integer(new.id),
          .integer(new.registeredAt.milliseconds),
          .bytes(push.map { storageKey.seal($0, at: place(of: new.id)) } ?? sealed)))
    }
  }

  /// Where the pushes to a registration stand in the outbox.
  package static func place(of registration: Int64) -> SealedPlace {
    SealedColumn.outboxPush.place(.integer(registration))
  }
}

extension Outbox {
  /// An entry on its way into the table.
  struct Insertion: Sendable {
    let statement: Statement
    let registration: Int64
  }
}

extension Connection {
  /// Inserts all, and takes out again, from the end, what registrations have too many of then; nil for those.
  func insert(_ insertions: [Outbox.Insertion], perRegistration limit: Int) throws -> [(
    id: Int64, attempts: Int
  )?] {
    var kept: [(id: Int64, attempts: Int)?] = try insertions.map { insertion in
      guard let row = try query(insertion.statement).first else { throw OutboxRoutes.Stale() }
      return (id: try row.int64(0), attempts: Int(try row.int64(1)))
    }
    let counts = try query(
      Statement(
        """
        SELECT registration_id, COUNT(*) FROM outbox WHERE registration_id IN ($list) GROUP BY registration_id
        """, list: Set(insertions.map(\.registration)).map { .integer($0) }))
    var tooMany: [Int64: Int] = [:]
    for row in counts { tooMany[try row.int64(0)] = Int(try row.int64(1)) - limit }
    guard tooMany.values.contains(where: { $0 > 0 }) else { return kept }
    // What has taken the place of another one did not make it more.
    let replaced = Set(kept.compactMap { $0 }.filter { $0.attempts > 1 }.map(\.id))
    for (index, insertion) in insertions.enumerated().reversed() {
      guard let entry = kept[index], !replaced.contains(entry.id),
        tooMany[insertion.registration, default: 0] > 0
      else { continue }
      try run(Statement("DELETE FROM outbox WHERE id = $1", .integer(entry.id)))
      tooMany[insertion.registration, default: 0] -= 1
      kept[index] = nil
    }
    return kept
  }
}
