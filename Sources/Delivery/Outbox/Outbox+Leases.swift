import Foundation
import Providers
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
