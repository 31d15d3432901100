public import Foundation
import Providers
import Registrations
public import SQL
public import Sealing
import Synchronization

/// What was promised and no provider has taken yet, durable and sealed (`Documentation/Decisions` 0001, 0002).
///
/// An entry is sent under a lease: taking it moves its due time behind the end of the lease, so that
/// whoever finds it due again may take it over. The lease outlives the longest wait for an answer. The entry is
/// removed after the answer; a crash in between sends it a second time, with the same `apns-id`.
public final class Outbox: Sendable {
  /// How much is kept. Each kind of registrations has its own share: what comes of one takes no room from another.
  public struct Limits: Sendable {
    /// Entries of one route, of each kind.
    public var perRoute = 1_000_000
    /// Entries of each kind.
    public var perKind = 1_500_000
    /// Entries of one registration.
    public var perRegistration = 100

    /// The defaults.
    public init() {}
  }

  /// The outbox takes no more: what cannot be kept must not be promised.
  public struct Full: Error, Hashable {}

  /// Where an entry counts.
  struct Share: Hashable {
    /// A row of `outbox_routes`.
    let route: Int64
    let kind: RegistrationReference.Kind
  }

  /// How many entries there are. Counted once, then kept along.
  private struct Depth {
    var shares: [Share: Int] = [:]
    /// Reserved by insertions under way.
    var arriving: [Share: Int] = [:]
    /// What a count that is under way may have missed. One too many is put right by the next count; one
    /// too few would leave an entry waiting for it.
    var sinceCount: [Share: Int] = [:]
    var total: Int { shares.values.reduce(0, +) }
    var routes: Set<Int64> { Set(shares.filter { $0.value > 0 }.keys.map(\.route)) }

    /// Whether so much is allowed.
    func fits(_ limits: Limits) -> Bool {
      var kinds: [RegistrationReference.Kind: Int] = [:]
      for (share, count) in shares { kinds[share.kind, default: 0] += count }
      return shares.values.allSatisfy { $0 <= limits.perRoute }
        && kinds.values.allSatisfy { $0 <= limits.perKind }
    }
  }

  private let database: any Database
  private let storageKey: StorageKey
  private let maxAge: TimeInterval
  private let limits: Limits
  private let longestPause: TimeInterval
  private let now: @Sendable () -> Date
  private let mayExpire: @Sendable () -> Bool
  private let depth = Mutex(Depth())
  private let routeIDs = Mutex<[Route: Int64]>([:])
  private let unsettled = Mutex<[(lease: Lease, fate: Fate, route: Route)]>([])

  /// How long a provider may ask us to wait, and a try may take then, in seconds; rounded up.
  public static let longestPause: TimeInterval = 2 * 3600

  /// - Parameters:
  ///   - maxAge: how long an entry is kept at most, in seconds.
  ///   - longestPause: no entry is due further ahead than this, in seconds.
  ///   - mayExpire: whether anything may be called over now: not while the clock is doubted.
  public init(
    database: any Database, storageKey: StorageKey, maxAge: TimeInterval, limits: Limits = Limits(),
    longestPause: TimeInterval = longestPause, now: @escaping @Sendable () -> Date,
    mayExpire: @escaping @Sendable () -> Bool = { true }
  ) {
    self.database = database
    self.storageKey = storageKey
    self.maxAge = maxAge
    self.limits = limits
    self.longestPause = longestPause
    self.now = now
    self.mayExpire = mayExpire
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
      SELECT r.id, r.provider, r.credential, r.target, COUNT(CASE o.registration_kind WHEN 1 THEN 1 END),
        COUNT(CASE o.registration_kind WHEN 2 THEN 1 END), COUNT(CASE o.registration_kind WHEN 3 THEN 1 END)
      FROM outbox_routes r LEFT JOIN outbox o ON o.route_id = r.id GROUP BY r.id
      """)
    let rows = try await database.read { try $0.query(statement) }
    var counted: [Share: Int] = [:]
    var known: [Route: Int64] = [:]
    for row in rows {
      guard let provider = Route.Provider(rawValue: try row.text(1)) else { continue }
      let route = Route(provider: provider, credential: try row.text(2), target: try row.text(3))
      known[route] = try row.int64(0)
      for (index, kind) in [RegistrationReference.Kind.e2ee, .legacy, .nextcloud].enumerated() {
        counted[Share(route: try row.int64(0), kind: kind)] = Int(try row.int64(4 + index))
      }
    }
    routeIDs.withLock { $0.merge(known) { $1 } }
    depth.withLock { $0.shares = counted.merging($0.sinceCount, uniquingKeysWith: +) }
  }

  /// The routes that have entries.
  func routesWithEntries() -> [Route] {
    let depth = depth.withLock { $0.routes }
    return routeIDs.withLock { $0.filter { depth.contains($0.value) }.map(\.key) }
  }

  /// Keeps deliveries, all or none but for those of registrations that have as many as they may; they are durable when
  /// this returns. One that is at its provider is due when its lease ends.
  ///
  /// - Returns: for each, what settles it if it is under lease; nil for one that is not kept.
  /// - Throws: ``Full``, or the database's own error.
  @discardableResult
  func keep(_ entries: [(delivery: Delivery, route: Route, dueAt: Date)]) async throws -> [Lease?] {
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
            .integer(now.milliseconds), .integer(dueAt.milliseconds), .integer(expiry.milliseconds)),
          share: Share(route: id, kind: delivery.registration.kind), registration: delivery.registration.row))
    }
    let shares = insertions.map(\.share)
    try reserve(shares)
    defer { arrived(shares) }
    do {
      let kept = try await database.write { [insertions, limits] in
        try $0.insert(insertions, perRegistration: limits.perRegistration)
      }
      // More than one attempt: the place of an older entry with the same collapse id was taken.
      release(zip(shares, kept).filter { ($1?.attempts ?? 2) > 1 }.map(\.0))
      return zip(entries, kept).map { entry, kept in
        kept.map {
          Lease(
            id: $0.id, attempts: $0.attempts, end: entry.dueAt.milliseconds,
            kind: entry.delivery.registration.kind)
        }
      }
    } catch {
      release(shares)
      throw error
    }
  }

  /// Seconds until an entry that does not open is looked at again.
  private static let unreadablePause: TimeInterval = 60

  private static let collapsePurpose = StorageKey.Purpose("outbox.collapse")

  private func reserve(_ shares: [Share]) throws(Full) {
    let fits = depth.withLock { depth in
      var then = depth
      for share in shares {
        then.shares[share, default: 0] += 1
        then.arriving[share, default: 0] += 1
        then.sinceCount[share, default: 0] += 1
      }
      guard then.fits(limits) else { return false }
      depth = then
      return true
    }
    if !fits { throw Full() }
  }

  private func arrived(_ shares: [Share]) {
    depth.withLock { depth in
      for share in shares { depth.arriving[share, default: 0] -= 1 }
    }
  }

  private func release(_ shares: some Sequence<Share>) {
    depth.withLock { depth in
      for share in shares { depth.shares[share] = max(0, depth.shares[share, default: 0] - 1) }
    }
  }

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

  /// Whether an entry's time is over.
  func isOver(_ entry: Entry) -> Bool { isOver(entry.expiresAt) }

  private func isOver(_ end: Date) -> Bool { end <= now() && mayExpire() }

  /// Makes due what is due further ahead than anything is ever put off: a clock that was wrong has done that.
  public func bringForward() async throws {
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
      release(
        removed.compactMap { removed in
          guard let route = routeIDs[removed.route], let kind = removed.lease.kind else { return nil }
          return Share(route: route, kind: kind)
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
