package import Foundation
package import Providers
import Registrations
import SQL
import Sealing
import Synchronization

extension Outbox {
  /// The right to say what becomes of an entry.
  struct Lease: Sendable {
    let row: LeasedQueue.Lease
    /// Where it counts; nil if this program does not know the kind of its registration.
    let share: OutboxDepth.Share?

    var id: Int64 { row.id }
    /// This try included.
    var attempts: Int { row.attempts }
  }

  /// An entry under lease.
  struct Entry: Sendable {
    let lease: Lease
    let delivery: RegisteredPush
    let expiresAt: Date
  }

  /// When an entry is tried again.
  struct Retry: Sendable {
    let at: Date
    /// Whatever else is due for this registration is put off as well.
    var registration: Int64?
  }

  /// Seconds until an entry that does not open is looked at again.
  private static let unreadablePause: TimeInterval = 60

  /// Whether an entry's time is over.
  func isOver(_ entry: Entry) -> Bool { isOver(entry.expiresAt) }

  private func isOver(_ end: Date) -> Bool { end <= now() && mayExpire() }

  /// Makes due what is due further ahead than anything is ever put off: a clock that was wrong has done that.
  ///
  /// - Parameter isTimeSetBack: as ``LeasedQueue`` has it.
  package func bringForward(isTimeSetBack: Bool = false) async throws {
    try await queue.bringForward(isTimeSetBack: isTimeSetBack)
  }

  /// Takes due entries of a queue, of one registration after the other the longest due. Those that do not open stay, for
  /// a node that can open them, until they have expired.
  func lease(_ queue: OutboxQueue, limit: Int, for seconds: TimeInterval) async throws -> [Entry] {
    try await settle()
    guard let routeID = try await routes.find(queue) else { return [] }
    let now = now()
    // One that a wrong clock has kept lives no longer than it would have by the right one.
    let latestEnd = mayExpire() ? now + maxAge : .distantFuture
    let taken = try await self.queue.take(
      limit: limit, for: seconds, .integer(routeID), .integer(latestEnd.milliseconds))
    var entries: [Entry] = []
    var unreadable: [(Lease, Retry?)] = []
    for (held, row) in taken {
      let kind = RegistrationReference.Kind(rawValue: try row.int64(4))
      let lease = Lease(row: held, share: kind.map { OutboxDepth.Share(queue: queue, kind: $0) })
      let expiresAt = Date(milliseconds: try row.int64(3))
      let registration = try kind.map { kind in
        RegistrationReference(
          kind, id: try row.int64(0), registeredAt: Date(milliseconds: try row.int64(1)))
      }
      guard let registration,
        let push = SealedPush.open(try row.bytes(2), for: registration.id, with: storageKey)
      else {
        unreadable.append((lease, isOver(expiresAt) ? nil : Retry(at: now + Self.unreadablePause)))
        continue
      }
      var delivery = RegisteredPush(push: push, registration: registration, owner: queue.owner)
      delivery.promisedAt = try row.date(5)
      entries.append(Entry(lease: lease, delivery: delivery, expiresAt: expiresAt))
    }
    try await settle(unreadable)
    return entries
  }

  /// Puts leased entries off, and removes those that are done with, well or badly. One that another has taken over meanwhile is that one's.
  ///
  /// What cannot be written now is written before anything else is leased: the answer was heard, and a database
  /// that is away for a while is no reason to send again.
  func settle(_ entries: [(lease: Lease, retry: Retry?)] = []) async throws {
    let waiting = unsettled.withLock { unsettled in
      unsettled += entries
      defer { unsettled = [] }
      return unsettled
    }
    guard !waiting.isEmpty else { return }
    do {
      let now = Value.integer(now().milliseconds)
      let removed = try await database.write { [queue] connection in
        try waiting.filter { lease, retry in
          guard let retry else { return try connection.run(queue.removal(of: lease.row)) > 0 }
          try connection.run(queue.postponement(of: lease.row, until: retry.at))
          if let registration = retry.registration {
            try connection.run(
              Statement(
                "UPDATE outbox SET due_at = $2 WHERE registration_id = $1 AND due_at <= $3",
                .integer(registration), .integer(retry.at.milliseconds), now))
          }
          return false
        }
      }
      depth.release(removed.compactMap(\.lease.share))
    } catch {
      unsettled.withLock { $0 = waiting + $0 }
      throw error
    }
  }
}

/// What waits, and for how long.
extension Outbox {
  /// How many entries there are.
  package var count: Int { depth.total }

  /// How many wait for the routes of a credential.
  package func count(of provider: Route.Provider, credential: String) -> Int {
    depth.count(of: provider, credential: credential)
  }

  /// How many wait for each route of a provider, where any does.
  package func counts(of provider: Route.Provider) -> [Route: Int] { depth.counts(of: provider) }

  /// How many wait for a route.
  package func count(for route: Route) -> Int { depth.count(of: route) }

  /// Since when the entry that came first has been there; nil where there is none. One that a newer
  /// notification has replaced counts from then.
  package func oldest() async throws -> Date? {
    let statement = Statement("SELECT created_at FROM outbox ORDER BY id LIMIT 1")
    return try await database.query(statement).first.map { Date(milliseconds: try $0.int64(0)) }
  }

  /// The same as ``oldest()`` of those that were tried again or are overdue: not of one whose time was set ahead when
  /// it came, by its chat server's pace or by the provider. Nor of Web Push: whose push service is gone for good waits
  /// in vain, and that is nobody else's matter.
  ///
  /// Only so many are looked at.
  package func oldestLate() async throws -> Date? {
    let strangers = counts(of: .webPush).values.reduce(0, +)
    let others = count - strangers
    guard others > 0 else { return nil }
    // Few among many are found by their routes; many are looked at in the order in which they came.
    let first =
      others <= Self.few
      ? """
      SELECT id, created_at, due_at, attempts FROM outbox
      WHERE route_id IN (SELECT id FROM outbox_routes WHERE provider <> 'webpush')
      """
      : """
      SELECT o.id, o.created_at, o.due_at, o.attempts FROM (
        SELECT id, route_id, created_at, due_at, attempts FROM outbox ORDER BY id
        LIMIT \(strangers == 0 ? Self.few : 10 * Self.few)
      ) AS o JOIN outbox_routes r ON r.id = o.route_id WHERE r.provider <> 'webpush'
      """
    let statement = Statement(
      """
      SELECT created_at FROM (\(first)) AS first
      WHERE attempts > 2 OR due_at <= $1 OR due_at - created_at <= $2 ORDER BY id LIMIT 1
      """, .integer(now().milliseconds - 60_000), .integer(Self.longestFirstPause))
    return try await database.query(statement).first.map { Date(milliseconds: try $0.int64(0)) }
  }

  private static let few = 5000
  /// Milliseconds; more than from any first try to the second, where nobody has set the time.
  private static let longestFirstPause: Int64 = 120_000
}

extension Outbox {
  /// As many in one statement.
  private static let atOnce = 512

  /// Drops what waits for registrations and has become worthless. One that is under way at its provider may still
  /// arrive.
  ///
  /// - Parameter collapseIDs: of what goes; nil: everything.
  func withdraw(_ collapseIDs: [String]?, from registrations: [RegistrationReference]) async throws {
    let conditions: [(sql: String, arguments: [Value])] =
      if let collapseIDs {
        chunks(
          registrations.flatMap { registration in
            collapseIDs.map { .integer(collapseHash(of: $0, registration)) }
          }
        ).map { ("collapse_hash IN (\(Statement.placeholders($0.count)))", $0) }
      } else {
        chunks(registrations.map { .integer($0.id) }).map {
          ("registration_id IN (\(Statement.placeholders($0.count)))", $0)
        }
      }
    guard !conditions.isEmpty else { return }
    let gone = try await database.write { connection in
      var gone: [OutboxDepth.Share] = []
      for (sql, arguments) in conditions {
        let found = try connection.query(
          Statement(
            """
            SELECT r.provider, r.credential, r.target, r.owner, o.wire
            FROM outbox o JOIN outbox_routes r ON r.id = o.route_id WHERE \(sql)
            """, arguments: arguments))
        guard !found.isEmpty else { continue }
        try connection.run(Statement("DELETE FROM outbox WHERE \(sql)", arguments: arguments))
        for row in found {
          guard let queue = try OutboxQueue(row, from: 0),
            let kind = RegistrationReference.Kind(rawValue: try row.int64(4))
          else { continue }
          gone.append(OutboxDepth.Share(queue: queue, kind: kind))
        }
      }
      return gone
    }
    depth.release(gone)
  }

  private func chunks(_ values: [Value]) -> [[Value]] {
    stride(from: 0, to: values.count, by: Self.atOnce).map {
      Array(values[$0..<min($0 + Self.atOnce, values.count)])
    }
  }

  /// 64 bits of a keyed hash of a registration and a collapse id.
  func collapseHash(of collapseID: String, _ registration: RegistrationReference) -> Int64 {
    storageKey.hash("\(registration.id) \(collapseID)", for: Self.collapsePurpose).prefix(8)
      .reduce(0) { $0 << 8 | Int64($1) }
  }

  private static let collapsePurpose = StorageKey.Purpose("outbox.collapse")
}
