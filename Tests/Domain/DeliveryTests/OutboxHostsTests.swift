import Foundation
import NIOCore
import Providers
import Registrations
import SQL
import TestDatabase
import TestSupport
import Testing

@testable import Basics
@testable import Delivery
@testable import HTTPClient

/// Tests the queues of push services, of which there may be thousands.
@Suite struct OutboxHostsTests {
  private static func host(_ name: String) -> Route {
    Route(provider: .webPush, credential: name, target: "")
  }

  private func number(_ store: OutboxStore, _ sql: String) async throws -> Int64 {
    try await store.database.read { try $0.query(Statement(sql)).integer }
  }

  @Test func `Only routes with something due are told`() async throws {
    let store = try await OutboxStore()
    #expect(try await store.outbox.dueRoutes() == [])
    try await store.keep(.sample("now"), on: Self.host("a.example"))
    try await store.keep(.sample("later"), on: Self.host("b.example"), due: 60)
    try await store.keep(.sample("now"))
    #expect(try await Set(store.outbox.dueRoutes()) == [Self.host("a.example"), OutboxStore.route])
    _ = try await store.outbox.take(on: Self.host("a.example"))
    #expect(try await store.outbox.dueRoutes() == [OutboxStore.route])
    store.clock.advance(60)
    #expect(try await store.outbox.dueRoutes().count == 3)
    // A process that has just started knows none of them, and sends to all.
    let reopened = store.reopened()
    try await reopened.recount()
    for route in try await reopened.dueRoutes() {
      #expect(try await reopened.take(on: route).count == 1)
    }
  }

  @Test func `What is over a host's share is left out, and the rest of the batch is kept`() async throws {
    var limits = Outbox.Limits()
    (limits.perHost, limits.perKindOfHosts) = (2, 3)
    (limits.perRoute, limits.perKind) = (2, 2)
    let store = try await OutboxStore(limits: limits)
    let (a, b, now) = (Self.host("a.example"), Self.host("b.example"), store.clock.now)
    func entry(_ text: String, _ route: Route, _ kind: Wire = .e2ee) -> Outbox.Addition {
      (.sample(text, kind: kind), route, now)
    }
    let results = try await store.outbox.keep([
      entry("1", a), entry("2", a), entry("3", a), entry("4", OutboxStore.route), entry("5", b),
      entry("6", b), entry("7", OutboxStore.otherRoute), entry("8", b, .legacy),
    ])
    #expect(results.map(\.reason) == [nil, nil, .noRoom, nil, nil, .noRoom, nil, nil])
    #expect(try await store.rows() == 6)
    #expect(store.outbox.count == 6)
    // A batch that APNs and FCM have no room for is refused whole, whatever there was for hosts.
    await #expect(throws: Outbox.Full.self) {
      try await store.outbox.keep([entry("9", a, .legacy), entry("10", OutboxStore.route)])
    }
    #expect(store.outbox.count == 6)
    // It is the same for a process that finds them there, and there is room again once they are gone.
    let reopened = store.reopened(limits: limits)
    try await reopened.recount()
    #expect(try await reopened.keep([entry("11", b)]).map(\.reason) == [.noRoom])
    try await reopened.remove(reopened.take(on: a))
    #expect(try await reopened.keep([entry("12", b), entry("13", b)]).map(\.reason) == [nil, .noRoom])
  }

  @Test func `One owner's dead hosts leave room for what others have waiting`() async throws {
    var limits = Outbox.Limits()
    limits.perKindOfHosts = 40
    let store = try await OutboxStore(limits: limits)
    func entry(_ number: Int64, _ owner: Int64) -> Outbox.Addition {
      (
        .sample("\(number)", registration: number, owner: .chatServer(owner)),
        Self.host("host\(number).example"), store.clock.now
      )
    }
    #expect(try await store.outbox.keep((1...60).map { entry($0, 1) }).compactMap(\.lease).count == 30)
    #expect(try await store.outbox.keep([entry(61, 2)]).compactMap(\.lease).count == 1)
    #expect(try await store.outbox.keep([entry(62, 1)]).compactMap(\.lease).isEmpty)
  }

  @Test func `Routes of hosts go when nothing waits and nothing is held, whoever still knows them`()
    async throws
  {
    let store = try await OutboxStore()
    let other = store.reopened()
    let (a, b) = (Self.host("a.example"), Self.host("b.example"))
    try await store.keep(.sample("1"), on: a)
    try await store.keep(.sample("2"), on: b)
    try await store.keep(.sample("3"))
    try await other.recount()
    for route in [a, OutboxStore.route] {
      try await store.outbox.remove(store.outbox.take(on: route))
    }
    #expect(try await store.outbox.removeUnusedRoutes(limit: 100) == 2)
    #expect(try await store.outbox.removeUnusedRoutes(limit: 100) == 0)
    #expect(try await number(store, "SELECT COUNT(*) FROM outbox_routes") == 1)
    // On SQLite the next route gets the id that the other process takes for that of the first.
    let c = Self.host("c.example")
    try await store.keep(.sample("4"), on: c)
    let now = store.clock.now
    try await other.keep([(.sample("5"), a, now), (.sample("6"), b, now)])
    for (route, texts) in [(a, ["5"]), (b, ["2", "6"]), (c, ["4"])] {
      let found = try await other.texts(on: route)
      #expect(Set(found) == Set(texts), "\(route)")
    }
    // What is held keeps its route.
    let held = Self.host("held.example")
    let queue = OutboxQueue(route: held)
    let id = try #require(try await store.database.write { try $0.queueRows(of: [queue]) }[queue])
    _ = try await store.database.write {
      try $0.run(
        Statement(
          """
          INSERT INTO registrations
            (wire, kind, token, token_hash, registered_at, dead_since, dead_reason, dead_route_id)
          VALUES (1, 2, $2, 1, 1, 1, 'r', $1)
          """, .integer(id), .bytes([1])))
    }
    #expect(try await store.outbox.removeUnusedRoutes(limit: 100) == 0)
  }

  @Test func `Push services that are not known to work leave room for those that do`() {
    var schedule = OutboxSchedule(limits: .init(hosts: 4, unprovenHosts: 2, rounds: 2))
    let now = Date(timeIntervalSince1970: 1_790_000_000)
    let dead = (0..<1000).map { Self.host("dead\($0).example") }
    let living = (0..<3).map { Self.host("living\($0).example") }
    // Each of an owner of its own.
    func queues(_ routes: [Route]) -> [OutboxQueue] {
      routes.map { OutboxQueue(route: $0, owner: .user(Int64($0.credential.hashValue))) }
    }
    let due = queues(dead + living + [OutboxStore.route])
    let first = schedule.admit(due, proven: { [] }, now: now)
    #expect(Set(first) == [dead[0], dead[1], OutboxStore.route])
    let second = schedule.admit(due, proven: { Set(living) }, now: now)
    #expect(Set(second) == [living[0], living[1], OutboxStore.route])
    // One that works goes on for some rounds, and then it is another's turn.
    func round(_ route: Route, failures: Int = 0) -> Bool {
      let owners = schedule.turns(of: route).map(\.owner)
      return schedule.ended(.init(ended: 1, failures: failures, more: owners), of: route, now: now)
    }
    #expect(round(living[0]))
    #expect(!round(living[0]))
    schedule.deactivate(living[0])
    #expect(schedule.turns(of: living[0]).map(\.limit) == [4])
    #expect(schedule.admit(queues([living[2]]) + due, proven: { Set(living) }, now: now).contains(living[2]))
    // One that fails has a pause, and its place goes to the next.
    #expect(!round(dead[0], failures: 1))
    #expect(schedule.isFailing(dead[0], now: now))
    schedule.deactivate(dead[0])
    let next = schedule.admit(queues(dead), proven: { Set(living) }, now: now)
    #expect(next == [dead[2]])
    // One that is at work is not forgotten, whatever it has left.
    schedule.forget(except: [])
    #expect(schedule.turns(of: living[0]) == [])
    #expect(schedule.turns(of: dead[2]) != [])
  }

  @Test func `Push services of one owner have a quarter of the places`() {
    var schedule = OutboxSchedule(limits: .init(hosts: 8, unprovenHosts: 8, rounds: 2))
    let queues = (0..<8).map { OutboxQueue(route: Self.host("\($0).example"), owner: .user(1)) }
    let now = Date(timeIntervalSince1970: 1_790_000_000)
    #expect(schedule.admit(queues, proven: { [] }, now: now).count == 2)
  }

  @Test func `Owners of a route have their turns, each as much as the others`() {
    var schedule = OutboxSchedule(limits: .init(late: 100))
    let now = Date(timeIntervalSince1970: 1_790_000_000)
    let queues = (1...3).map { OutboxQueue(route: OutboxStore.route, owner: .chatServer($0)) }
    func turns() -> [Int64: Int] {
      _ = schedule.admit(queues, proven: { [] }, now: now)
      let turns = schedule.turns(of: OutboxStore.route)
      _ = schedule.ended(
        .init(ended: turns.count, more: turns.map(\.owner)), of: OutboxStore.route, now: now)
      return Dictionary(uniqueKeysWithValues: turns.map { ($0.owner.id >> 2, $0.limit) })
    }
    // While one goes at a time, one after the other has it.
    #expect(turns() == [1: 1])
    #expect(turns() == [2: 1, 3: 1])
    #expect(turns() == [1: 2, 2: 1, 3: 1])
    for _ in 0..<4 { _ = turns() }
    #expect(turns().values.sorted() == [21, 21, 22])
  }

  @Test func `Entries that hang leave room for those of other owners`() {
    var schedule = OutboxSchedule(limits: .init(late: 100))
    let now = Date(timeIntervalSince1970: 1_790_000_000)
    let (hanging, other) = (Owner.chatServer(1), Owner.chatServer(2))
    func admit(_ owner: Owner) {
      _ = schedule.admit([OutboxQueue(route: OutboxStore.route, owner: owner)], proven: { [] }, now: now)
    }
    for _ in 0..<9 {
      admit(other)
      let turns = schedule.turns(of: OutboxStore.route)
      _ = schedule.ended(.init(ended: turns.count), of: OutboxStore.route, now: now)
    }
    var late = 0
    while true {
      admit(hanging)
      let count = schedule.turns(of: OutboxStore.route).first?.limit ?? 0
      guard count > 0 else { break }
      late += count
      _ = schedule.ended(.init(late: [hanging: count]), of: OutboxStore.route, now: now)
    }
    #expect(late == 75)
    admit(other)
    #expect(schedule.turns(of: OutboxStore.route) == [.init(owner: other, limit: 19)])
    // One that is given up at last makes the window no smaller, for whoever it is.
    schedule.answeredLate(
      of: OutboxQueue(route: OutboxStore.route, owner: hanging), hasFailed: nil, notBefore: nil, now: now)
    admit(other)
    let turns = schedule.turns(of: OutboxStore.route)
    #expect(turns == [.init(owner: hanging, limit: 1), .init(owner: other, limit: 13)])
  }
}
