import Basics
import Foundation
import HTTPClient
import Providers
package import Registrations
import SQL
import Sealing
import Synchronization

extension Outbox {
  /// The right to settle an entry.
  struct Lease: Sendable {
    let row: LeasedQueue.Lease
    /// The share it counts against; nil if this program does not know the kind of its registration.
    let share: OutboxDepth.Share?

    var id: Int64 { row.id }
    /// Number of tries, the present one included.
    var attempts: Int { row.attempts }
  }

  /// An entry under lease.
  struct Entry: Sendable {
    let lease: Lease
    var delivery: RegisteredPush
    let expiresAt: Date
  }

  /// The next try of an entry.
  struct Postponement: Sendable {
    /// The time of that try.
    let until: Date
    /// The registration of which all other due entries are postponed as well; nil for none.
    var registration: Int64?
    /// The reason why it waits; nil keeps the former one.
    var reason: Reason?
    /// 1 if the provider may have the notification after this try.
    var doubts = 0
  }

  /// Seconds until an entry that does not open is tried again.
  private static let unreadablePause: TimeInterval = 60

  /// Whether the entry has expired.
  func isOver(_ entry: Entry) -> Bool { isOver(entry.expiresAt) }

  private func isOver(_ end: Date) -> Bool { end <= now() && isClockTrusted() }

  /// The queues with due entries, the one first whose entry has been due longest: what was stored together is then sent
  /// together, and stands on the same pages of the database. Those of push services are in no order, since one that does not
  /// work would have its turn before others again and again. Reads one entry of each.
  func dueQueues() async throws -> [OutboxQueue] {
    guard depth.total > 0 else { return [] }
    let statement = Statement(
      """
      SELECT provider, credential, target, owner FROM (
        SELECT r.*, (SELECT MIN(o.due_at) FROM outbox o WHERE o.route_id = r.id) AS oldest FROM outbox_routes r) AS routes
      WHERE oldest <= $1 ORDER BY oldest
      """, .integer(now().milliseconds))
    let queues = try await database.query(statement).compactMap { try OutboxQueue($0) }
    return queues.filter { !$0.route.isOfHost } + queues.filter(\.route.isOfHost).shuffled()
  }

  /// Leases due entries of a route: for each turn so many of its owner's, one of each registration in turn, the one due
  /// longest. Entries that do not open are left, for a node that can open them, until they expire.
  ///
  /// - Returns: also the owners that may have more.
  func lease(
    _ turns: [OutboxSchedule.Turn], of route: Route, for seconds: TimeInterval
  ) async throws -> (entries: [Entry], more: [Owner]) {
    try await settle()
    let now = now()
    let taken = try await take(turns, of: route, for: seconds, now)
    var entries: [Entry] = []
    var unreadable: [(Lease, Postponement?)] = []
    var counts: [Owner: Int] = [:]
    for (held, row) in taken {
      let owner = Owner(id: try row.int64("owner"))
      let wire = Wire(rawValue: try row.int64("wire"))
      let lease = Lease(
        row: held,
        share: wire.map { OutboxDepth.Share(queue: OutboxQueue(route: route, owner: owner), wire: $0) })
      let id = try row.int64("registration_id")
      let expiresAt = try row.date("expires_at")
      guard let wire, var push = open(try row.bytes("push"), for: id) else {
        unreadable.append((lease, isOver(expiresAt) ? nil : Postponement(until: now + Self.unreadablePause)))
        continue
      }
      let createdAt = try row.date("created_at")
      if isClockTrusted() { push.wait(now.timeIntervalSince(createdAt)) }
      let registration = RegistrationReference(wire, id: id, registeredAt: try row.date("registered_at"))
      var delivery = RegisteredPush(
        push: push, registration: registration, owner: owner, isBackground: try row.flag("is_background"))
      delivery.promisedAt = createdAt
      let doubts = Int(try row.int64("doubts"))
      delivery.wait = try row.optionalText("reason").flatMap(Reason.init).map {
        .init(reason: $0, doubts: doubts)
      }
      entries.append(Entry(lease: lease, delivery: delivery, expiresAt: expiresAt))
      counts[owner, default: 0] += 1
    }
    try await settle(unreadable)
    return (entries, turns.filter { counts[$0.owner] == $0.limit }.map(\.owner))
  }

  private func take(
    _ turns: [OutboxSchedule.Turn], of route: Route, for seconds: TimeInterval, _ now: Date
  ) async throws -> [(lease: LeasedQueue.Lease, row: Row)] {
    // An entry that was stored while the clock was wrong expires no later than it would have by the right
    // clock.
    let latestEnd = isClockTrusted() ? now + maxAge : .distantFuture
    let arguments: [Value] = [
      .text(route.provider.rawValue), .text(route.credential), .text(route.target),
      .integer(latestEnd.milliseconds),
    ]
    // Concurrently, because writes made at the same time share a commit. All owners of whom one entry is taken share a
    // statement.
    return try await withThrowingTaskGroup(of: [(lease: LeasedQueue.Lease, row: Row)].self) { [queue] group in
      let single = turns.filter { $0.limit == 1 }.map { Value.integer($0.owner.id) }
      if !single.isEmpty {
        group.addTask { try await queue.takeFirsts(of: single, for: seconds, arguments) }
      }
      for turn in turns where turn.limit > 1 {
        group.addTask {
          try await queue.take(
            limit: turn.limit, for: seconds, arguments: arguments + [.integer(turn.owner.id)])
        }
      }
      return try await group.reduce(into: []) { $0 += $1 }
    }
  }

  /// Postpones leased entries, and removes those without a postponement. Entries that another node has taken over
  /// meanwhile are not changed.
  ///
  /// What cannot be written now is written before anything else is leased: the provider has answered, so the
  /// entry must not be sent again because the database was unavailable for a while.
  func settle(_ entries: [(lease: Lease, postponement: Postponement?)] = []) async throws {
    let waiting = unsettled.withLock { unsettled in
      unsettled += entries
      defer { unsettled = [] }
      return unsettled
    }
    guard !waiting.isEmpty else { return }
    do {
      let now = Value.integer(now().milliseconds)
      let removed = try await database.write { [queue] connection in
        try waiting.filter { lease, postponement in
          guard let postponement else { return try connection.run(queue.removal(of: lease.row)) > 0 }
          for statement in postponement.statements(of: lease, in: queue, now) {
            try connection.run(statement)
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

  /// Extends a lease.
  ///
  /// - Returns: the extended lease; nil if another node has taken over the entry.
  func extend(_ lease: Lease, for seconds: TimeInterval) async throws -> Lease? {
    let end = now() + seconds
    let statement = queue.postponement(of: lease.row, until: end)
    guard try await database.write({ try $0.run(statement) }) > 0 else { return nil }
    return Lease(row: .init(id: lease.id, attempts: lease.attempts, end: end), share: lease.share)
  }

  /// The entry that waits under a collapse id; nil if there is none.
  ///
  /// - Returns: what settles it as long as nobody has taken or replaced it.
  func waiting(_ collapseID: String, of registration: RegistrationReference) async throws -> Lease? {
    try await database.query(
      """
      SELECT o.id, o.attempts, o.due_at, o.wire, r.provider, r.credential, r.target, r.owner
      FROM outbox o JOIN outbox_routes r ON r.id = o.route_id WHERE o.collapse_hash = $1
      """, .integer(collapseHash(of: collapseID, registration))
    ).first.map { row in
      Lease(
        row: .init(
          id: try row.int64("id"), attempts: Int(try row.int64("attempts")), end: try row.date("due_at")),
        share: try .init(row))
    }
  }

  /// Removes outdated entries of registrations. One that is already at its provider may still arrive.
  ///
  /// - Parameter collapseIDs: the collapse ids of the entries to remove; nil for all entries.
  package func withdraw(_ collapseIDs: [String]?, from registrations: [RegistrationReference]) async throws {
    let (column, values): (String, [Value]) =
      if let collapseIDs {
        (
          "collapse_hash",
          registrations.flatMap { registration in
            collapseIDs.map { .integer(collapseHash(of: $0, registration)) }
          }
        )
      } else {
        ("registration_id", registrations.map { .integer($0.id) })
      }
    guard !values.isEmpty else { return }
    let gone = try await database.write { connection in
      var gone: [OutboxDepth.Share] = []
      for start in stride(from: 0, to: values.count, by: Self.withdrawnAtOnce) {
        let list = Array(values[start...].prefix(Self.withdrawnAtOnce))
        let found = try connection.query(
          Statement(
            """
            SELECT r.provider, r.credential, r.target, r.owner, o.wire
            FROM outbox o JOIN outbox_routes r ON r.id = o.route_id WHERE \(column) IN ($list)
            """, list: list))
        guard !found.isEmpty else { continue }
        try connection.run(Statement("DELETE FROM outbox WHERE \(column) IN ($list)", list: list))
        gone += try found.compactMap { try OutboxDepth.Share($0) }
      }
      return gone
    }
    depth.release(gone)
  }

  private static let withdrawnAtOnce = 512
}

extension Outbox.Postponement {
  /// The statements that postpone an entry, and everything else that is due for its registration if that is the reason.
  fileprivate func statements(of lease: Outbox.Lease, in queue: LeasedQueue, _ now: Value) -> [Statement] {
    let reason = Value.text(reason?.rawValue)
    let own = queue.postponement(
      of: lease.row, until: until, changing: "reason = COALESCE($5, reason), doubts = doubts + $6",
      [reason, .integer(Int64(doubts))])
    guard let registration else { return [own] }
    return [
      own,
      Statement(
        """
        UPDATE outbox SET due_at = $2, reason = COALESCE($4, reason) WHERE registration_id = $1 AND due_at <= $3
        """, .integer(registration), .integer(until.milliseconds), now, reason),
    ]
  }
}
