import Basics
import Dispatch
import Foundation
import HTTPClient
import NIOCore
import Providers
import Registrations
import SQL
import TestSupport
import Testing

@testable import Delivery

@Suite struct OutboxTests {
  private let route = OutboxStore.route

  @Test func `What was kept comes back as it was`() async throws {
    let store = try await OutboxStore()
    let apns = RegisteredPush.sample(
      "{}", registration: 5, expiration: Date(timeIntervalSince1970: 1_790_003_000), collapseID: "c")
    let fcm = RegisteredPush(
      push: .fcm(
        FCMMessage(
          token: "t:1", project: "demo", data: ["text": "é", "b": "2"], priority: .high, timeToLive: 60,
          collapseKey: "k")),
      registration: .init(.legacy, id: 6, registeredAt: Date(timeIntervalSince1970: 1_789_000_000.123)),
      owner: OutboxStore.owner)
    let subscription = try WebPushSubscription(token: WebPushPhone().token(at: "https://push.example/1"))
    let webPush = RegisteredPush(
      push: .webPush(
        WebPushMessage(
          subscription: subscription, body: ByteBuffer(string: "{}"), urgency: .normal, timeToLive: 60,
          collapseID: "c")),
      registration: .init(.nextcloudWebPush, id: 7, registeredAt: Date(timeIntervalSince1970: 1)),
      owner: OutboxStore.owner)
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    for (push, route) in [(apns, route), (fcm, OutboxStore.otherRoute), (webPush, route)] {
      try await store.keep(push, on: route)
      let kept = try #require(try await store.outbox.take(on: route).first).delivery
      #expect(kept.registration == push.registration)
      #expect(try encoder.encode(kept.push) == encoder.encode(push.push))
    }
  }

  @Test func `Who stores little waits for one long write of another, not for all of them`() async throws {
    let store = try await OutboxStore()
    @Sendable func keep(_ registrations: ClosedRange<Int64>, of owner: Owner) async throws {
      let deliveries = registrations.map { RegisteredPush.sample("", registration: $0, owner: owner) }
      try await store.outbox.keep(deliveries.map { ($0, route, store.clock.now) })
    }
    // Their queues exist.
    for owner: Int64 in 1...2 { try await keep(1...1, of: .chatServer(owner)) }
    let gate = DispatchSemaphore(value: 0)
    try await withThrowingTaskGroup(of: Void.self) { group in
      // Nothing is written before all are there.
      group.addImmediateTask { try await store.database.write { _ in gate.wait() } }
      for _ in 1...5 { group.addImmediateTask { try await keep(100...199, of: .chatServer(1)) } }
      group.addImmediateTask { try await keep(999...999, of: .chatServer(2)) }
      gate.signal()
      try await group.waitForAll()
    }
    // PostgreSQL writes several at a time, and begins with any.
    #expect(try await store.rows(before: 999) < 2 + 500)
    #expect(try await store.rows() == 2 + 500 + 1)
  }

  @Test func `What a device has no room for, whatever else waits, is not even written`() async throws {
    var limits = Outbox.Limits()
    limits.perRegistration = 3
    let store = try await OutboxStore(limits: limits)
    func sample(_ text: String, collapseID: String? = nil) -> Outbox.Addition {
      let isBackground = text.hasPrefix("silent")
      return (
        .sample(text, registration: 1, collapseID: collapseID, isBackground: isBackground), route,
        store.clock.now
      )
    }
    let kept = try await store.outbox.keep(
      ["silent 0", "silent 1", "silent 2", "silent 3", "shown 0", "shown 1", "shown 2", "shown 3"].map {
        sample($0)
      } + [sample("collapsing", collapseID: "c")])
    #expect(
      kept.map { $0.reason == .backlogged } == [true, true, true, true, false, false, false, true, true])
    #expect(store.outbox.count == 3)
    try await store.keep(.sample("next", registration: 2))
    // All but the last of the silent ones and the last of those shown: what collapses may replace one of these.
    #expect(try await store.newestID() == 7 + 1)
  }

  @Test func `A removal that comes late removes no newer entry`() async throws {
    let store = try await OutboxStore()
    func keep() async throws -> Outbox.Lease {
      let delivery = RegisteredPush.sample("one", registration: 5)
      return try #require(try await store.outbox.keep([(delivery, route, store.clock.now + 75)]).first?.lease)
    }
    let first = try await keep()
    try await store.outbox.settle([(first, nil)])
    let second = try await keep()
    // Its answer was lost: it is written again.
    try await store.outbox.settle([(first, nil)])
    #expect(first.id != second.id)
    #expect(try await store.rows() == 1)
  }

  @Test func `Entries are taken in the order of their due times, and none before`() async throws {
    let store = try await OutboxStore()
    for (text, due) in [("late", 30.0), ("first", 1), ("second", 2), ("third", 3)] {
      try await store.keep(.sample(text), due: due)
    }
    #expect(try await store.outbox.take().isEmpty)
    store.clock.advance(3)
    var taken: [String] = []
    for _ in 0..<4 { taken += try await store.outbox.lease(route, limit: 1, for: 60).map(\.delivery.text) }
    #expect(taken == ["first", "second", "third"])
    #expect(try await store.outbox.take(on: OutboxStore.otherRoute).isEmpty)
  }

  @Test func `An entry is leased once until the lease ends, and then taken over`() async throws {
    let store = try await OutboxStore()
    try await store.keep(.sample("one"))
    let first = try #require(try await store.outbox.take(1).first)
    store.clock.advance(29.9)
    #expect(try await store.outbox.take(1).isEmpty)
    store.clock.advance(0.1)
    let second = try #require(try await store.outbox.take(1).first)
    #expect(second.lease.id == first.lease.id && second.lease.attempts == first.lease.attempts + 1)
    // The former lease holder can no longer change it.
    try await store.outbox.remove([first])
    try await store.outbox.settle([(first.lease, .init(until: store.clock.now))])
    #expect(try await store.rows() == 1)
    #expect(store.outbox.count == 1)
    #expect(try await store.outbox.take(1).isEmpty)
    try await store.outbox.remove([second])
    #expect(try await store.rows() == 0)
    #expect(store.outbox.count == 0)
  }

  @Test func `An entry that is to be tried again is due when it was told`() async throws {
    let store = try await OutboxStore()
    try await store.keep(.sample("one"))
    let entry = try #require(try await store.outbox.take(1).first)
    try await store.outbox.settle(
      [(entry.lease, .init(until: store.clock.now + 5))])
    store.clock.advance(4.9)
    #expect(try await store.outbox.take(1).isEmpty)
    store.clock.advance(0.1)
    let again = try await store.outbox.take(1)
    #expect(again.map(\.lease.attempts) == [entry.lease.attempts + 1])
    #expect(store.outbox.count == 1)
  }

  @Test func `An end that cannot be written now is written before anything else is taken`() async throws {
    let store = try await OutboxStore()
    for text in ["answered", "other"] { try await store.keep(.sample(text)) }
    let entry = try #require(try await store.outbox.take().first { $0.delivery.text == "answered" })
    _ = try await store.database.write {
      try $0.run(Statement("ALTER TABLE outbox RENAME COLUMN due_at TO gone"))
    }
    await #expect(throws: DatabaseError.self) {
      try await store.outbox.remove([entry])
    }
    await #expect(throws: DatabaseError.self) { try await store.outbox.take() }
    _ = try await store.database.write {
      try $0.run(Statement("ALTER TABLE outbox RENAME COLUMN gone TO due_at"))
    }
    store.clock.advance(31)
    #expect(try await store.outbox.texts() == ["other"])
    #expect(store.outbox.count == 1)
  }

  @Test func `A batch that does not fit is refused whole`() async throws {
    var limits = Outbox.Limits()
    (limits.perRoute, limits.perKind) = (3, 5)
    let store = try await OutboxStore(limits: limits)
    let (now, other) = (store.clock.now, OutboxStore.otherRoute)
    func entries(_ count: Int, _ route: Route) -> [Outbox.Addition] {
      (0..<count).map {
        (.sample("\($0)", owner: route == other ? .chatServer(2) : OutboxStore.owner), route, now)
      }
    }
    try await store.outbox.keep(entries(2, route))
    // One route's limit holds back the whole batch, and what it had is not counted twice.
    await #expect(throws: Outbox.Full.self) {
      try await store.outbox.keep(entries(1, other) + entries(2, route))
    }
    #expect(try await store.rows() == 2)
    #expect(store.outbox.count == 2)
    try await store.outbox.keep(entries(3, other))
    await #expect(throws: Outbox.Full.self) { try await store.outbox.keep(entries(1, route)) }
    #expect(try await store.rows() == 5)
    let taken = try await store.outbox.lease(other, of: .chatServer(2), limit: 1, for: 30)
    try await store.outbox.remove(taken)
    try await store.outbox.keep(entries(1, route))
    #expect(store.outbox.count == 5)
  }

  @Test func `Who has most waiting is refused more, and whoever comes next finds room`() async throws {
    var limits = Outbox.Limits()
    limits.perRoute = 100
    let store = try await OutboxStore(limits: limits)
    let now = store.clock.now
    func keep(_ owner: Int64) async throws {
      try await store.outbox.keep([
        (.sample("\(owner)", registration: .random(in: 1...(.max)), owner: .chatServer(owner)), route, now)
      ])
    }
    for _ in 0..<75 { try await keep(1) }
    await #expect(throws: Outbox.Full.self) { try await keep(1) }
    for owner in 2...4 { try await keep(Int64(owner)) }
    // As it is for a process that finds them there.
    let reopened = store.reopened(limits: limits)
    try await reopened.recount()
    await #expect(throws: Outbox.Full.self) {
      try await reopened.keep([(.sample("more", registration: -1), route, now)])
    }
    try await reopened.keep([(.sample("another", registration: -1, owner: .chatServer(5)), route, now)])
  }

  @Test func `Registrations of an owner have their turns, each in the order of due times`() async throws {
    let store = try await OutboxStore()
    for number in 0..<20 { try await store.keep(.sample("much \(number)"), due: Double(number)) }
    for number in 0..<2 {
      try await store.keep(.sample("few \(number)", registration: 2), due: Double(20 + number))
    }
    try await store.keep(.sample("one", registration: 3), due: 30)
    store.clock.advance(60)
    let taken = try await store.outbox.texts(8)
    #expect(Set(taken) == ["much 0", "few 0", "one", "much 1", "few 1", "much 2", "much 3", "much 4"])
    // Others' are not among them.
    #expect(try await store.outbox.lease(route, of: .chatServer(2), limit: 9, for: 30).isEmpty)
  }

  @Test func `Whose notification has been due longest has the first turn`() async throws {
    let store = try await OutboxStore()
    // Made in another order than they are due in.
    for (owner, due) in [(3, 1.0), (1, 30), (2, 20), (3, 40), (4, 90)] {
      try await store.keep(
        .sample("\(owner) \(due)", registration: Int64(owner), owner: .chatServer(Int64(owner))), due: due)
    }
    store.clock.advance(60)
    #expect(try await store.outbox.dueQueues().map(\.owner) == [3, 2, 1].map(Owner.chatServer))
  }

  @Test func `What a device waits for, all that is due for it waits for`() async throws {
    let store = try await OutboxStore()
    for number in 0..<3 { try await store.keep(.sample("paused \(number)")) }
    try await store.keep(.sample("later"), due: 90)
    try await store.keep(.sample("other", registration: 2))
    let taken = try await store.outbox.take(1)
    let entry = try #require(taken.first)
    let end = store.clock.now + 60
    try await store.outbox.settle([
      (entry.lease, .init(until: end, registration: entry.delivery.registration.id))
    ])
    store.clock.advance(59)
    #expect(try await store.outbox.lease(route, limit: 9, for: 1).map(\.delivery.text) == ["other"])
    store.clock.advance(1)
    let later = try await store.outbox.texts()
    #expect(Set(later) == ["paused 0", "paused 1", "paused 2", "other"])
  }

  @Test func `What comes of one kind of registrations takes no room from another`() async throws {
    var limits = Outbox.Limits()
    (limits.perRoute, limits.perKind) = (2, 3)
    let store = try await OutboxStore(limits: limits)
    let (now, other) = (store.clock.now, OutboxStore.otherRoute)
    func entries(_ count: Int, _ route: Route, _ kind: Wire) -> [Outbox.Addition] {
      (0..<count).map { (.sample("\($0)", kind: kind), route, now) }
    }
    try await store.outbox.keep(entries(2, route, .nextcloud) + entries(1, other, .nextcloud))
    for route in [route, other] {
      // Others' of the same request are kept.
      #expect(try await store.outbox.keep(entries(1, route, .nextcloud)).compactMap(\.lease).isEmpty)
    }
    for kind in [Wire.e2ee, .legacy] {
      try await store.outbox.keep(entries(2, route, kind) + entries(1, other, kind))
    }
    // It is the same for a process that finds them there.
    let reopened = store.reopened(limits: limits)
    try await reopened.recount()
    #expect(reopened.count == 9)
    #expect(try await reopened.keep(entries(1, other, .nextcloud)).compactMap(\.lease).isEmpty)
    try await reopened.remove(reopened.take(on: other))
    try await reopened.keep(entries(1, other, .nextcloud))
    #expect(reopened.count == 7)
  }

  @Test func `A device has a hundred entries at most, and keeps nobody else's out`() async throws {
    let store = try await OutboxStore()
    let now = store.clock.now
    func entries(_ range: Range<Int>, _ registration: Int64, _ kind: Wire = .e2ee)
      -> [Outbox.Addition]
    {
      range.map { (.sample("\($0)", kind: kind, registration: registration), route, now) }
    }
    let kept = try await store.outbox.keep(entries(0..<60, 1) + entries(0..<1, 2) + entries(60..<150, 1))
    // The last of them are not taken.
    #expect(
      kept.map { $0.lease != nil } == Array(repeating: true, count: 101) + Array(repeating: false, count: 50))
    #expect(try await store.rows() == 101)
    #expect(store.outbox.count == 101)
    #expect(try await store.outbox.keep(entries(0..<1, 1)).allSatisfy { $0.lease == nil })
    #expect(try await store.outbox.keep(entries(0..<1, 3, .nextcloud)).allSatisfy { $0.lease != nil })
    try await store.outbox.remove(store.outbox.take(1))
    #expect(try await store.outbox.keep(entries(0..<2, 1)).map { $0.lease != nil } == [true, false])
    // The newest of a collapse id takes the older one's place however many there are.
    let collapsing = (0..<3).map {
      (RegisteredPush.sample("\($0)", registration: 2, collapseID: "c"), route, now)
    }
    try await store.outbox.keep(entries(0..<98, 2) + collapsing[..<1])
    #expect(try await store.outbox.keep(Array(collapsing[1...])).allSatisfy { $0.lease != nil })
    #expect(try await store.outbox.keep(entries(0..<1, 2)).allSatisfy { $0.lease == nil })
    try await store.outbox.recount()
    #expect(try await store.rows() == 201)
    #expect(store.outbox.count == 201)
  }

  @Test func `What shows nothing gives way when a device has a hundred entries, the last of it first`()
    async throws
  {
    let store = try await OutboxStore()
    let now = store.clock.now
    func entries(_ names: [String], isBackground: Bool) -> [Outbox.Addition] {
      names.map { (.sample($0, registration: 1, isBackground: isBackground), route, now) }
    }
    func names(_ prefix: String, _ range: Range<Int>) -> [String] { range.map { "\(prefix)\($0)" } }
    var former: [OutboxQueue] = []
    func keep(_ additions: [Outbox.Addition]) async throws -> Int {
      try await store.outbox.keep(additions) { queue, registration in
        #expect(registration == 1)
        former.append(queue)
      }.count { $0.lease != nil }
    }
    #expect(try await keep(entries(names("silent", 0..<150), isBackground: true)) == 100)
    #expect(try await keep(entries(["more"], isBackground: true)) == 0)
    #expect(try await keep(entries(names("shown", 0..<2), isBackground: false)) == 2)
    #expect(former == Array(repeating: OutboxQueue(route: route, owner: OutboxStore.owner), count: 2))
    #expect(store.outbox.count == 100)
    // In one batch, too.
    #expect(
      try await keep(
        entries(names("late", 0..<1), isBackground: true)
          + entries(names("shown", 2..<4), isBackground: false))
        == 2)
    #expect(former.count == 4)
    #expect(try await keep(entries(names("shown", 4..<104), isBackground: false)) == 96)
    #expect(former.count == 100 && store.outbox.count == 100)
    #expect(Set(try await store.outbox.texts(200)) == Set(names("shown", 0..<100)))
    try await store.outbox.recount()
    #expect(store.outbox.count == 100)
  }

  @Test func `What replaced an older entry and gives way is counted once`() async throws {
    let store = try await OutboxStore()
    let now = store.clock.now
    func silent(_ text: String) -> Outbox.Addition {
      (.sample(text, registration: 1, collapseID: "c", isBackground: true), route, now)
    }
    try await store.outbox.keep([silent("first")])
    let shown: [Outbox.Addition] = (0..<100).map { (.sample("\($0)", registration: 1), route, now) }
    let kept = try await store.outbox.keep([silent("second")] + shown)
    #expect(kept.map { $0.lease != nil } == [false] + Array(repeating: true, count: 100))
    #expect(store.outbox.count == 100)
    #expect(try await store.rows() == 100)
  }

  @Test func `A database that fails keeps nothing and counts nothing`() async throws {
    let store = try await OutboxStore()
    try await store.keep(.sample("one"))
    _ = try await store.database.write {
      try $0.run(Statement("ALTER TABLE outbox RENAME COLUMN push TO gone"))
    }
    await #expect(throws: DatabaseError.self) { try await store.keep(.sample("two")) }
    #expect(store.outbox.count == 1)
    #expect(try await store.rows() == 1)
  }

  @Test func `A newer notification with the same collapse id takes the older one's place`() async throws {
    let store = try await OutboxStore()
    try await store.keep(.sample("old", collapseID: "c"))
    try await store.keep(.sample("new", collapseID: "c"))
    try await store.keep(.sample("of another device", registration: 2, collapseID: "c"))
    try await store.keep(.sample("another", collapseID: "d"))
    try await store.keep(.sample("on its own"))
    let texts = try await store.outbox.texts()
    #expect(Set(texts) == ["new", "of another device", "another", "on its own"])
    #expect(texts.count == 4)
    #expect(store.outbox.count == 4)
  }

  @Test func `The newer notification that takes an older one's place has its own life`() async throws {
    let store = try await OutboxStore()
    let now = store.clock.now
    try await store.keep(.sample("old", expiration: now + 60, collapseID: "c"))
    store.clock.advance(30)
    try await store.keep(.sample("new", expiration: now + 600, collapseID: "c"))
    store.clock.advance(60)
    let entry = try #require(try await store.outbox.take().first)
    #expect(entry.expiresAt == now + 600 && entry.delivery.promisedAt == now + 30)
  }

  @Test func `Replacing an entry that is being sent leaves the newer one to be sent`() async throws {
    let store = try await OutboxStore()
    try await store.keep(.sample("old", collapseID: "c"))
    let old = try #require(try await store.outbox.take(1).first)
    try await store.keep(.sample("new", collapseID: "c"))
    try await store.outbox.remove([old])
    #expect(try await store.outbox.texts() == ["new"])
    #expect(store.outbox.count == 1)
  }

  @Test func `The oldest is not the first if that was replaced since`() async throws {
    let store = try await OutboxStore()
    #expect(try await store.outbox.oldest() == nil)
    let start = store.clock.now
    try await store.keep(.sample("old", collapseID: "c"))
    store.clock.advance(10)
    try await store.keep(.sample("another"))
    store.clock.advance(10)
    #expect(try await store.outbox.oldest() == start)
    try await store.keep(.sample("new", collapseID: "c"))
    #expect(try await store.outbox.oldest() == start + 10)
    store.clock.advance(100)
    try await store.outbox.recount()
    #expect(try await store.outbox.oldestLate() == start + 10)
  }

  @Test func `An entry ends with the notification's own expiration or the greatest age`() async throws {
    let store = try await OutboxStore(maxAge: 600)
    let now = store.clock.now
    for (text, expiration) in [("never", nil), ("soon", now + 60), ("later", now + 6000)] {
      try await store.keep(.sample(text, expiration: expiration))
    }
    let entries = try await store.outbox.take()
    let ends = Dictionary(uniqueKeysWithValues: entries.map { ($0.delivery.text, $0.expiresAt) })
    #expect(ends == ["never": now + 600, "soon": now + 60, "later": now + 600])
  }

  @Test func `Nothing is over while the clock is doubted`() async throws {
    let store = try await OutboxStore(maxAge: 600)
    try await store.keep(.sample("one"))
    store.clock.isTrusted = false
    store.clock.advance(25 * 3600)
    let entry = try #require(try await store.outbox.take().first)
    #expect(!store.outbox.isOver(entry))
    store.clock.isTrusted = true
    #expect(store.outbox.isOver(entry))
    store.clock.advance(-25 * 3600)
    #expect(!store.outbox.isOver(entry))
  }

  @Test func `What a clock that was wrong has put off too far is due, and lives no longer for it`()
    async throws
  {
    let store = try await OutboxStore(maxAge: 86_400)
    store.clock.advance(25 * 3600)
    // One under a lease, too, of a process that has died.
    for (text, due) in [("kept", 0.0), ("later", 15.0), ("leased", 75.0)] {
      try await store.keep(.sample(text), due: due)
    }
    store.clock.advance(-25 * 3600)
    // What the longest pause explains is not due: a provider may ask for an hour.
    try await store.keep(.sample("asked"), due: 3600)
    #expect(try await store.outbox.take().isEmpty)
    try await store.outbox.queue.bringForward()
    let entries = try await store.outbox.take()
    #expect(Set(entries.map(\.delivery.text)) == ["kept", "later", "leased"])
    #expect(Set(entries.map(\.expiresAt)) == [store.clock.now + 86_400])
    store.clock.advance(3600)
    #expect(try await store.outbox.texts().contains("asked"))
  }

  @Test func `A clock that is doubted shortens no entry's life`() async throws {
    let store = try await OutboxStore(maxAge: 600)
    try await store.keep(.sample("one"))
    let end = store.clock.now + 600
    store.clock.isTrusted = false
    store.clock.advance(-25 * 3600)
    try await store.outbox.queue.bringForward()
    // Due by the clock that stands back is what was due by the right one.
    #expect(try await store.outbox.take(1).map(\.expiresAt) == [end])
  }

  @Test func `What was kept before a restart is counted after it`() async throws {
    let store = try await OutboxStore()
    for text in ["one", "two"] { try await store.keep(.sample(text)) }
    try await store.keep(.sample("three"), on: OutboxStore.otherRoute)
    let outbox = store.reopened()
    #expect(outbox.count == 0)
    try await outbox.recount()
    #expect(outbox.count == 3)
    #expect(Set(outbox.depth.routes.keys) == [route, OutboxStore.otherRoute])
    #expect(try await Set(outbox.texts()) == ["one", "two"])
  }

  @Test func `Counting while entries arrive misses none`() async throws {
    let store = try await OutboxStore()
    try await withThrowingTaskGroup { group in
      for index in 0..<200 {
        group.addTask { try await store.keep(.sample("\(index)", registration: Int64(index))) }
        if index.isMultiple(of: 10) { group.addTask { try await store.outbox.recount() } }
      }
      try await group.waitForAll()
    }
    #expect(store.outbox.count >= 200)
    try await store.outbox.recount()
    #expect(store.outbox.count == 200)
  }

  @Test func `No token and no payload stands in a file of the database`() async throws {
    let store = try await OutboxStore()
    let token = String(repeating: "5ec2e7", count: 10)
    try await store.keep(.sample("a payload of its own", token: token, collapseID: "collapse-it"))
    #expect(try await store.keeps(inClear: "org.example.chat"))
    for secret in [token, "a payload of its own", "collapse-it"] {
      #expect(try await !store.keeps(inClear: secret))
      #expect(try await !store.keeps(inClear: Data(secret.utf8).base64EncodedString()))
    }
  }

  @Test func `An entry that does not open stays until it has expired, and the others do not wait for it`()
    async throws
  {
    let store = try await OutboxStore(maxAge: 3600)
    try await store.keep(.sample("old"))
    let other = store.reopened(key: 8)
    try await other.recount()
    try await other.keep([(.sample("new", registration: 2), route, store.clock.now)])
    let new = try await other.take()
    #expect(new.map(\.delivery.text) == ["new"])
    try await other.remove(new)
    #expect(other.count == 1)
    // Another node can open it.
    store.clock.advance(61)
    #expect(try await store.outbox.texts() == ["old"])
    store.clock.advance(3600)
    #expect(try await other.take().isEmpty)
    #expect(try await store.rows() == 0)
    #expect(other.count == 0)
  }
}
