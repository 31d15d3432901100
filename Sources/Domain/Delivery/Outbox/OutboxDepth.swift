import Basics
package import Foundation
import HTTPClient
package import Providers
import Registrations
import SQL
import Synchronization

/// Counts the outbox's entries and reserves room for new ones. The counts are read from the database
/// periodically and updated in memory in between.
final class OutboxDepth: Sendable {
  /// The limits that an entry counts against.
  struct Share: Hashable {
    let queue: OutboxQueue
    let wire: Wire

    init(queue: OutboxQueue, wire: Wire) {
      self.queue = queue
      self.wire = wire
    }

    /// Reads the columns of a queue, and `wire`; nil if this program does not know one of them.
    init?(_ row: Row) throws {
      guard let queue = try OutboxQueue(row), let wire = Wire(rawValue: try row.int64("wire")) else {
        return nil
      }
      self.init(queue: queue, wire: wire)
    }

    /// Whether it is for a push service. Anybody can name one, so these have less room than others, and take none
    /// from them.
    var isOfHost: Bool { queue.route.isOfHost }
  }

  /// The routes of one wire that have room together: one, or all of a kind.
  private struct Routes: Hashable {
    let wire: Wire
    /// Nil for all push services, or for all other routes.
    let route: Route?
    let areHosts: Bool

    static func one(_ share: Share) -> Routes {
      Routes(wire: share.wire, route: share.queue.route, areHosts: share.isOfHost)
    }

    static func all(_ share: Share) -> Routes {
      Routes(wire: share.wire, route: nil, areHosts: share.isOfHost)
    }

    func room(_ limits: Outbox.Limits) -> SharedBudget<Owner> {
      switch (route, areHosts) {
      case (_?, true): SharedBudget(limits.perHost)
      case (_?, false): SharedBudget(limits.perRoute)
      case (nil, true): SharedBudget(limits.perKindOfHosts)
      case (nil, false): SharedBudget(limits.perKind)
      }
    }
  }

  private struct Counts {
    let limits: Outbox.Limits
    /// The room, where some is taken.
    private(set) var room: [Routes: SharedBudget<Owner>] = [:]
    private(set) var routes: [Route: Int] = [:]
    private(set) var total = 0
    /// Number of waiting entries by reason, at the last count.
    var reasons: [Reason: Int] = [:]
    /// Number of entries that waited for a credential, at the last count.
    var unconfigured: [Share: Int] = [:]
    /// Insertions under way, with room reserved.
    var arriving: [Share: Int] = [:]
    /// Changes that a count under way may have missed. One too many is corrected by the next count; one too
    /// few would leave an entry waiting for that.
    var sinceCount: [Share: Int] = [:]

    init(limits: Outbox.Limits) { self.limits = limits }

    /// Number of entries of each share that has any.
    var shares: [Share: Int] {
      room.reduce(into: [:]) { shares, room in
        guard let route = room.key.route else { return }
        for (owner, count) in room.value.held {
          shares[Share(queue: OutboxQueue(route: route, owner: owner), wire: room.key.wire)] = count
        }
      }
    }

    mutating func add(_ count: Int, to share: Share) {
      let owner = share.queue.owner
      let change = max(count, -(room[.one(share)]?[owner] ?? 0))
      for routes in [Routes.one(share), .all(share)] {
        room[routes, default: routes.room(limits)].add(change, of: owner)
        if room[routes]?.total == 0 { room[routes] = nil }
      }
      Self.change(&routes, share.queue.route, by: change)
      total += change
    }

    static func change<Key>(_ counts: inout [Key: Int], _ key: Key, by change: Int) {
      let count = counts[key, default: 0] + change
      counts[key] = count > 0 ? count : nil
    }

    /// Whether there is room for one more.
    func fits(_ share: Share) -> Bool {
      [Routes.one(share), .all(share)].allSatisfy {
        (room[$0] ?? $0.room(limits)).refusal(to: share.queue.owner) == nil
      }
    }
  }

  private let counts: Mutex<Counts>

  init(limits: Outbox.Limits) { counts = Mutex(Counts(limits: limits)) }

  var total: Int { counts.withLock { $0.total } }

  /// Number of entries of each route that has any.
  var routes: [Route: Int] { counts.withLock { $0.routes } }

  /// Number of waiting entries by reason, at the last count.
  var reasons: [Reason: Int] { counts.withLock { $0.reasons } }

  /// Number of entries of each share that waited for a credential at the last count.
  var unconfigured: [Share: Int] { counts.withLock { $0.unconfigured } }

  /// Number of entries of each share that has any.
  var shares: [Share: Int] { counts.withLock(\.shares) }

  /// Begins a count of the entries in the database.
  func beginCount() { counts.withLock { $0.sinceCount = $0.arriving } }

  /// Takes the result of a count.
  func endCount(_ counted: [Share: Int], _ reasons: [Reason: Int], unconfigured: [Share: Int]) {
    counts.withLock { counts in
      var next = Counts(limits: counts.limits)
      for (share, count) in counted.merging(counts.sinceCount, uniquingKeysWith: +) {
        next.add(count, to: share)
      }
      next.arriving = counts.arriving
      next.sinceCount = counts.sinceCount
      next.reasons = reasons
      next.unconfigured = unconfigured
      counts = next
    }
  }

  /// Reserves room for insertions, all or none. Only entries over the limit of a push service, or for
  /// a device that anybody may register, are left out individually: what anybody can name must not cause others to be
  /// refused.
  ///
  /// - Returns: for each, whether it has room.
  func reserve(_ shares: [Share]) throws(Outbox.Full) -> [Bool] {
    let granted = counts.withLock { counts -> [Bool]? in
      var granted: [Bool] = []
      for share in shares {
        let fits = counts.fits(share)
        guard fits || share.isOfHost || share.wire.isOpen else {
          for (share, isGranted) in zip(shares, granted) where isGranted { counts.add(-1, to: share) }
          return nil
        }
        if fits { counts.add(1, to: share) }
        granted.append(fits)
      }
      for (share, isGranted) in zip(shares, granted) where isGranted {
        counts.arriving[share, default: 0] += 1
        counts.sinceCount[share, default: 0] += 1
      }
      return granted
    }
    guard let granted else { throw Outbox.Full() }
    return granted
  }

  /// Ends insertions, whether they succeeded or not.
  func arrived(_ shares: [Share]) {
    counts.withLock { counts in
      for share in shares { Counts.change(&counts.arriving, share, by: -1) }
    }
  }

  /// Frees the room of entries that are gone or were not inserted.
  func release(_ shares: some Sequence<Share>) {
    counts.withLock { counts in
      for share in shares { counts.add(-1, to: share) }
    }
  }
}

/// Counts of the entries, and their age.
extension Outbox {
  /// Counts the entries in the database, including those of an earlier run and of other nodes. Reads only an
  /// index.
  package func recount() async throws {
    depth.beginCount()
    let wires = Wire.allCases
    let columns = wires.map { "COUNT(CASE o.wire WHEN \($0.rawValue) THEN 1 END) AS \($0.countColumn)" }
    let rows = try await database.query(
      Statement(
        """
        SELECT r.provider, r.credential, r.target, r.owner, o.reason, \(columns.joined(separator: ", "))
        FROM outbox_routes r LEFT JOIN outbox o ON o.route_id = r.id GROUP BY r.id, o.reason
        """))
    var counted: [OutboxDepth.Share: Int] = [:]
    var unconfigured: [OutboxDepth.Share: Int] = [:]
    var reasons: [Reason: Int] = [:]
    for row in rows {
      guard let queue = try OutboxQueue(row) else { continue }
      let counts = try wires.map { Int(try row.int64($0.countColumn)) }
      let reason = try row.optionalText("reason").flatMap(Reason.init)
      for (wire, count) in zip(wires, counts) {
        let share = OutboxDepth.Share(queue: queue, wire: wire)
        counted[share, default: 0] += count
        if reason == .unconfigured, count > 0 { unconfigured[share, default: 0] += count }
      }
      if let reason {
        reasons[reason, default: 0] += counts.reduce(0, +)
      }
    }
    depth.endCount(counted, reasons, unconfigured: unconfigured)
  }

  package var count: Int { depth.total }

  /// Number of waiting entries by reason, as of the last count, which is up to a minute old.
  package var reasons: [Reason: Int] { depth.reasons }

  /// Number of entries for the routes of a credential.
  package func count(of provider: Route.Provider, credential: String) -> Int {
    counts(of: provider).reduce(0) { $1.key.credential == credential ? $0 + $1.value : $0 }
  }

  /// Number of entries of each route of a provider that has any.
  package func counts(of provider: Route.Provider) -> [Route: Int] {
    depth.routes.filter { $0.key.provider == provider }
  }

  package func count(for route: Route) -> Int { depth.routes[route] ?? 0 }

  /// How many entries are looked at for the oldest, in order of arrival. A newer notification that has replaced one keeps
  /// its place, and counts from its own time.
  private static let oldestLooked = 100

  /// When the oldest entry was stored; nil if there is none.
  package func oldest() async throws -> Date? {
    try await database.query(
      """
      SELECT MIN(created_at) AS created_at FROM (SELECT created_at FROM outbox ORDER BY id LIMIT $1) AS first
      """, .integer(Int64(Self.oldestLooked))
    ).first?.optionalDate("created_at")
  }

  /// Like ``oldest()``, but only for entries that were tried again or are overdue: not for those postponed on
  /// arrival by their chat server's pace, by their device's, or by the provider. Web Push is left out: a push service that is
  /// gone for good keeps entries waiting in vain, which concerns only its users.
  ///
  /// Only a bounded number is read, in order of arrival.
  package func oldestLate() async throws -> Date? {
    let ofHosts = depth.routes.reduce(0) { $1.key.isOfHost ? $0 + $1.value : $0 }
    guard count > ofHosts else { return nil }
    let statement = Statement(
      """
      SELECT MIN(created_at) AS created_at FROM (
        SELECT o.created_at FROM (
          SELECT id, route_id, created_at, due_at, attempts, reason FROM outbox ORDER BY id LIMIT $3
        ) AS o JOIN outbox_routes r ON r.id = o.route_id
        WHERE r.provider NOT IN (\(Route.Provider.ofHosts)) AND (o.due_at <= $1
          OR o.reason IS DISTINCT FROM $4 AND (o.attempts > 2 OR o.due_at - o.created_at <= $2))
        ORDER BY o.id LIMIT $5
      ) AS first
      """, .integer(now().milliseconds - 60_000), .integer(Self.longestFirstPause),
      .integer(Int64(ofHosts + 5000)), .text(Reason.deviceOverPace.rawValue),
      .integer(Int64(Self.oldestLooked)))
    return try await database.query(statement).first?.optionalDate("created_at")
  }

  /// Milliseconds; more than the longest pause between a first and a second try.
  private static let longestFirstPause: Int64 = 120_000
}

extension Wire {
  /// The column of a count of its entries.
  fileprivate var countColumn: String { "wire_\(rawValue)" }
}
