import Basics
package import Foundation
import HTTP
import HTTPClient
import Providers
import Registrations
package import SQL
package import Sealing
import Synchronization

/// Promised notifications that no provider has accepted yet, durable and sealed (`Documentation/Decisions`
/// 0001, 0002).
///
/// An entry is sent under a lease. Leasing it moves its due time to the end of the lease, so that another
/// sender takes it over only after that. The lease outlasts the longest wait for an answer. The entry is
/// removed after the answer; a crash in between sends it a second time, with the same `apns-id`.
package final class Outbox: Sendable {
  /// Limits on the number of entries. Each kind of registration is counted by itself, so that one kind takes
  /// no room from another. Within each limit an owner has at most three times as much as is free
  /// (``FairShare``).
  package struct Limits: Sendable {
    /// Maximum for one route of APNs or FCM, for each kind.
    var perRoute = 1_500_000
    /// Maximum for all routes of APNs and FCM, for each kind.
    var perKind = 2_000_000
    /// Maximum for one push service, for each kind. There may be thousands of push services, since anybody can name one.
    var perHost = 10_000
    /// Maximum for all push services, for each kind.
    var perKindOfHosts = 300_000
    /// Maximum for one registration.
    var perRegistration = 100

    package init() {}
  }

  /// Thrown when the outbox has no room, or too much is being written: the caller must not promise what it cannot store.
  package struct Full: Error, Hashable {}

  /// What became of a delivery that was to be stored.
  enum Kept: Sendable {
    case stored(Lease)
    /// It is not stored: ``Reason/backlogged`` or ``Reason/noRoom``.
    case leftOut(Reason)

    var lease: Lease? {
      guard case .stored(let lease) = self else { return nil }
      return lease
    }
  }

  /// A delivery to be stored, and when it is due.
  typealias Addition = (delivery: RegisteredPush, route: Route, dueAt: Date)

  let database: any Database
  let storageKey: StorageKey
  let maxAge: TimeInterval
  private let limits: Limits
  package let queue: LeasedQueue
  let now: @Sendable () -> Date
  let isClockTrusted: @Sendable () -> Bool
  let depth: OutboxDepth
  /// Limits the long writes at a time to two, and to one of each owner: short ones of others wait for few of them.
  let longWrites = FairSemaphore<Owner>(2, each: 1)
  let unsettled = Mutex<[(lease: Lease, postponement: Postponement?)]>([])

  /// Maximum number of rows that are written without waiting for a turn, in a millisecond or two.
  private static let shortWrite = 50
  /// The longest wait for a turn.
  private static let turnLimit = Duration.seconds(6)

  /// The longest wait that a provider may ask for plus the try after it, in seconds.
  package static let longestPause: TimeInterval = 2 * 3600

  /// - Parameters:
  ///   - maxAge: longest time that an entry is kept, in seconds.
  ///   - longestPause: furthest due time ahead of now, in seconds.
  ///   - isClockTrusted: whether entries may be treated as expired; false while the clock is in doubt.
  package init(
    database: any Database, storageKey: StorageKey, maxAge: TimeInterval, limits: Limits = Limits(),
    longestPause: TimeInterval = longestPause, now: @escaping @Sendable () -> Date,
    isClockTrusted: @escaping @Sendable () -> Bool = { true }
  ) {
    self.database = database
    self.storageKey = storageKey
    self.maxAge = maxAge
    self.limits = limits
    depth = OutboxDepth(limits: limits)
    queue = LeasedQueue(
      "outbox",
      columns: """
        registration_id, registered_at, push, expires_at, wire, created_at, reason, doubts, is_background,
          (SELECT owner FROM outbox_routes WHERE outbox_routes.id = route_id) AS owner
        """,
      where: """
        route_id = (
          SELECT id FROM outbox_routes WHERE provider = $4 AND credential = $5 AND target = $6 AND owner = $8)
        """, inTurnsOf: "registration_id",
      firstsOf: (
        rows: """
        FROM outbox_routes r
        WHERE r.provider = $4 AND r.credential = $5 AND r.target = $6 AND r.owner IN ($list)
        """, condition: "route_id = r.id"
      ),
      changing: "expires_at = CASE WHEN expires_at > $7 THEN $7 ELSE expires_at END",
      longestPause: longestPause, all: "route_id IN (SELECT id FROM outbox_routes)", database: database,
      now: now)
    self.now = now
    self.isClockTrusted = isClockTrusted
  }

  /// Maximum number of entries that may wait for one device; further notifications are refused.
  package var mostPerDevice: Int { limits.perRegistration }

  /// Stores deliveries, all or none; they are durable when this returns. A delivery is left out if its registration has
  /// its maximum of entries: background notifications first, which are removed even if they were stored before. One is
  /// left out, too, if its push service has its maximum, or the owner of registrations of an open kind. A delivery that
  /// is under way at its provider is due when its lease ends.
  ///
  /// - Parameter displaced: called with the queue and the registration of each entry that was stored before and is removed.
  /// - Throws: ``Full``, or the database's own error.
  @discardableResult
  func keep(
    _ additions: [Addition], displaced: (OutboxQueue, Int64) -> Void = { _, _ in }
  ) async throws -> [Kept] {
    let now = now()
    let shares = additions.map {
      OutboxDepth.Share(
        queue: OutboxQueue(route: $0.route, owner: $0.delivery.owner), wire: $0.delivery.registration.wire)
    }
    let fitting = fitting(additions)
    let granted = try depth.reserve(fitting.map { shares[$0] })
    let taken = zip(fitting, granted).filter(\.1).map(\.0)
    let reserved = taken.map { shares[$0] }
    defer { depth.arrived(reserved) }
    do {
      let rows = try taken.map { (try row(of: additions[$0], now), shares[$0].queue) }
      let (kept, former) = try await inTurn(of: additions.first?.delivery.owner, rows: rows.count) {
        try await insert(rows)
      }
      depth.release(former.map(\.share))
      for (registration, share) in former { displaced(share.queue, registration) }
      // More than one attempt means that it replaced an older entry with the same collapse id, which was
      // counted already.
      depth.release(zip(reserved, kept).filter { ($1?.attempts ?? 2) > 1 }.map(\.0))
      var results = [Kept](repeating: .leftOut(.backlogged), count: additions.count)
      for (index, isGranted) in zip(fitting, granted) where !isGranted { results[index] = .leftOut(.noRoom) }
      for (index, kept) in zip(taken, kept) {
        results[index] =
          kept.map {
            .stored(
              Lease(
                row: .init(id: $0.id, attempts: $0.attempts, end: additions[index].dueAt),
                share: shares[index]))
          } ?? .leftOut(.backlogged)
      }
      return results
    } catch {
      depth.release(reserved)
      throw error
    }
  }

  /// The indices of the additions that may stay. The others would be stored only to be removed at once: each replaces nothing,
  /// and comes after as many to its registration as that may have.
  private func fitting(_ additions: [Addition]) -> [Int] {
    guard additions.count > limits.perRegistration else { return Array(additions.indices) }
    var counts: [Int64: (all: Int, shown: Int)] = [:]
    return additions.indices.filter { index in
      let delivery = additions[index].delivery
      guard delivery.push.collapseID == nil else { return true }
      let (all, shown) = counts[delivery.registration.id] ?? (0, 0)
      counts[delivery.registration.id] = (all + 1, shown + (delivery.isBackground ? 0 : 1))
      // A notification displaces background ones.
      return (delivery.isBackground ? all : shown) < limits.perRegistration
    }
  }

  /// Runs `write`, which writes this many rows. If they are many, it waits for its owner's turn.
  ///
  /// - Throws: ``Full`` if others' writes take too long.
  private func inTurn<Result>(
    of owner: Owner?, rows: Int, _ write: () async throws -> Result
  ) async throws -> Result {
    guard let owner, rows > Self.shortWrite else { return try await write() }
    guard try await longWrites.acquire(1, of: owner, within: Self.turnLimit) else { throw Full() }
    defer { longWrites.release(1, of: owner) }
    return try await write()
  }

  /// A row of the table, without its route.
  private struct NewRow: Sendable {
    let registration: Int64
    let values: [Value]
  }

  private func row(of addition: Addition, _ now: Date) throws -> NewRow {
    let push = addition.delivery.push
    let registration = addition.delivery.registration
    let expiry = min(now + maxAge, push.expiration(from: now) ?? .distantFuture)
    let collapse = push.collapseID.map { collapseHash(of: $0, push.recipients == nil ? registration : nil) }
    return NewRow(
      registration: registration.id,
      values: [
        .integer(registration.wire.rawValue), .integer(registration.id),
        .integer(registration.registeredAt.milliseconds), .bytes(try seal(push, for: registration.id)),
        .integer(collapse), .integer(now.milliseconds), .integer(addition.dueAt.milliseconds),
        .integer(expiry.milliseconds), .text(addition.delivery.wait?.reason.rawValue),
        .integer(Int64(addition.delivery.wait?.doubts ?? 0)), .flag(addition.delivery.isBackground),
      ])
  }

  private static let insertion = """
    INSERT INTO outbox
      (route_id, wire, registration_id, registered_at, push, collapse_hash, created_at, due_at, expires_at, reason,
        doubts, is_background, attempts)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 1)
    ON CONFLICT (collapse_hash) WHERE collapse_hash IS NOT NULL DO UPDATE SET
      route_id = excluded.route_id, wire = excluded.wire,
      registration_id = excluded.registration_id, registered_at = excluded.registered_at,
      push = excluded.push, created_at = excluded.created_at, due_at = excluded.due_at,
      expires_at = excluded.expires_at, reason = excluded.reason, doubts = excluded.doubts,
      is_background = excluded.is_background,
      attempts = outbox.attempts + 1
    RETURNING id, attempts
    """

  /// An inserted row: its id, and how often it was tried or replaced, including this time.
  private typealias Inserted = (id: Int64, attempts: Int)

  /// Inserts all rows, then removes rows of registrations that have too many: the latest background notifications first,
  /// then the latest of the inserted ones.
  ///
  /// - Returns: each inserted row, nil for one that was removed; and the registrations and shares of removed rows that were
  ///   stored before.
  private func insert(_ rows: [(row: NewRow, queue: OutboxQueue)]) async throws -> (
    kept: [Inserted?], former: [(registration: Int64, share: OutboxDepth.Share)]
  ) {
    guard !rows.isEmpty else { return ([], []) }
    return try await database.write(for: Set(rows.map(\.queue))) { [limits] connection, ids in
      var kept: [Inserted?] = try rows.map { row, queue in
        let arguments = [.integer(ids[queue])] + row.values
        guard let row = try connection.query(Statement(Self.insertion, arguments: arguments)).first else {
          throw DatabaseError(.other, "an insertion returned no row")
        }
        return (try row.int64("id"), Int(try row.int64("attempts")))
      }
      let full = try connection.query(
        Statement(
          """
          SELECT registration_id, COUNT(*) - $1 AS surplus FROM outbox WHERE registration_id IN ($list)
          GROUP BY registration_id HAVING COUNT(*) > $1 ORDER BY registration_id
          """, .integer(Int64(limits.perRegistration)),
          list: Set(rows.map(\.row.registration)).map { .integer($0) }))
      var former: [(registration: Int64, share: OutboxDepth.Share)] = []
      for row in full {
        let registration = try row.int64("registration_id")
        let new = rows.indices.filter { rows[$0].row.registration == registration }
        let surplus = try connection.surplus(
          of: registration, new: new.compactMap { kept[$0]?.id }, count: try row.int64("surplus"))
        for (id, share) in surplus {
          let index = new.first { kept[$0]?.id == id }
          // A row that replaced an older entry counts as stored before.
          if index.flatMap({ kept[$0]?.attempts }) != 1, let share { former.append((registration, share)) }
          if let index { kept[index] = nil }
        }
        try connection.run(
          Statement("DELETE FROM outbox WHERE id IN ($list)", list: surplus.map { .integer($0.id) }))
      }
      return (kept, former)
    }
  }

  /// Removes a bounded number of unused rows of `outbox_routes`.
  ///
  /// - Returns: how many were removed.
  package func removeUnusedRoutes(limit: Int) async throws -> Int {
    do {
      return try await database.execute(
        Statement(
          """
          DELETE FROM outbox_routes WHERE id IN (
            SELECT r.id FROM outbox_routes r
            WHERE NOT EXISTS (SELECT 1 FROM outbox o WHERE o.route_id = r.id)
              AND NOT EXISTS (SELECT 1 FROM registrations g WHERE g.dead_route_id = r.id) LIMIT $1)
          RETURNING id
          """, .integer(Int64(limit)))
      ).count
    } catch let error as DatabaseError where error.code == .foreignKeyViolation {
      // Another node has just stored an entry for one of them: left for the next time.
      return 0
    }
  }
}
