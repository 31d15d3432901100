import Basics
import Foundation
import Glibc
import HTTPClient
import Providers
import Registrations
import TestSupport
import Testing

@testable import Delivery

/// The outbox's part of the sender's rounds: turns, leases, and the end of what was leased.
///
/// `MANY_OWNERS_WAITING` says how many entries wait (a million, say), for the figures that it prints.
@Suite(.serialized) struct ManyOwnersTests {
  private static let waiting =
    ProcessInfo.processInfo.environment["MANY_OWNERS_WAITING"].flatMap(Int.init) ?? 2000

  @Test(arguments: [10, 1000, 10_000]) func `Each of many owners has its turn`(_ owners: Int) async throws {
    let owners = min(owners, Self.waiting)
    let store = try await OutboxStore(maxAge: 86_400)
    for start in stride(from: 0, to: Self.waiting, by: 1000) {
      let additions: [Outbox.Addition] = (start..<min(start + 1000, Self.waiting)).map { number in
        let owner = Owner.chatServer(Int64(number % owners + 1))
        return (
          .sample("\(number)", kind: .e2ee, registration: Int64(number + 1), owner: owner), OutboxStore.route,
          store.clock.now
        )
      }
      _ = try await store.outbox.keep(additions)
    }
    var schedule = OutboxSchedule()
    var taken: [Owner: Int] = [:]
    var sent = 0
    let due = try await store.outbox.dueQueues()
    #expect(due.count == owners)
    _ = schedule.admit(due, proven: { [] }, now: store.clock.now)
    // Of the process, in microseconds.
    let (time, cpu) = (ContinuousClock.now, clock())
    // Everybody has something left until then.
    while sent < min(Self.waiting / 2, 12_800) {
      var round = OutboxSchedule.Round()
      let turns = schedule.turns(of: OutboxStore.route)
      let entries: [Outbox.Entry]
      (entries, round.more) = try await store.outbox.lease(turns, of: OutboxStore.route, for: 60)
      try #require(!entries.isEmpty)
      for owner in Set(entries.map(\.delivery.owner)) { taken[owner, default: 0] += 1 }
      try await store.outbox.remove(entries)
      round.ended = entries.count
      sent += entries.count
      _ = schedule.ended(round, of: OutboxStore.route, now: store.clock.now)
    }
    let each = (clock() - cpu) / sent
    print(
      "\(owners) owners, \(Self.waiting) waiting: \(Int((.now - time) / .microseconds(sent))) µs an entry, "
        + "\(each) of CPU")
    // Nobody has a second turn before everybody has had the first.
    #expect(taken.count == min(owners, sent))
    #expect((taken.values.max() ?? 0) - (taken.values.min() ?? 0) <= 1)
  }
}
