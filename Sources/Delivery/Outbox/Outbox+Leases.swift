import Foundation
import Providers
import Registrations
import SQL
import Sealing
import Storage
import Synchronization

extension Outbox {
  /// The right to say what becomes of an entry.
  struct Lease: Sendable {
    let row: LeasedQueue.Lease
    /// Whose registration it is for; nil if this program does not know.
    let kind: RegistrationReference.Kind?

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
  ///
  /// - Parameter isTimeSetBack: as ``LeasedQueue`` has it.
  package func bringForward(isTimeSetBack: Bool = false) async throws {
    try await queue.bringForward(isTimeSetBack: isTimeSetBack)
  }

  /// Takes due entries of a route, the longest due first. Those that do not open stay, for
  /// a node that can open them, until they have expired.
  func lease(_ route: Route, limit: Int, for seconds: TimeInterval) async throws -> [Entry] {
    try await settle()
    guard let routeID = try await routes.find(route) else { return [] }
    let now = now()
    // One that a wrong clock has kept lives no longer than it would have by the right one.
    let latestEnd = mayExpire() ? now + maxAge : .distantFuture
    let taken = try await queue.take(
      limit: limit, for: seconds, .integer(routeID), .integer(latestEnd.milliseconds))
    var entries: [Entry] = []
    var unreadable: [(Lease, Fate)] = []
    for (held, row) in taken {
      let kind = RegistrationReference.Kind(rawValue: try row.int64(4))
      let lease = Lease(row: held, kind: kind)
      let expiresAt = Date(milliseconds: try row.int64(3))
      let registration = try kind.map { kind in
        RegistrationReference(
          kind, id: try row.int64(0), registeredAt: Date(milliseconds: try row.int64(1)))
      }
      guard let registration,
        let push = SealedPush.open(try row.bytes(2), for: registration.row, with: storageKey)
      else {
        unreadable.append((lease, isOver(expiresAt) ? .remove : .retry(at: now + Self.unreadablePause)))
        continue
      }
      var delivery = RegisteredPush(push: push, registration: registration)
      delivery.promisedAt = try row.date(5)
      entries.append(Entry(lease: lease, delivery: delivery, expiresAt: expiresAt))
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
      let removed = try await database.write { [queue] connection in
        try waiting.filter { lease, fate, _ in
          switch fate {
          case .remove: return try connection.run(queue.removal(of: lease.row)) > 0
          case .retry(let date):
            try connection.run(queue.postponement(of: lease.row, until: date))
            return false
          }
        }
      }
      depth.release(
        removed.compactMap { removed in
          removed.lease.kind.map { OutboxDepth.Share(route: removed.route, kind: $0) }
        })
    } catch {
      unsettled.withLock { $0 = waiting + $0 }
      throw error
    }
  }
}
