import Foundation
import HTTPClient
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import TestSupport
import Testing

@testable import Delivery

/// Tests that one device gets no more than Google takes for one, whatever wire it comes from.
@Suite struct DevicePaceTests {
  private var bench: DeliveryBench { Fixture.current }

  @Test(.bench(), arguments: Wire.allCases)
  func
    `A phone of Google's gets no more in a minute than its sender may have, and the rest waits and says so`(
      kind: Wire
    ) async throws
  {
    let device = try await bench.devices(.fcm)[0]
    bench.clock.stop()
    func push(_ name: String) -> RegisteredPush {
      let registration = RegistrationReference(
        kind, id: device.registration.id, registeredAt: device.registration.registeredAt)
      return RegisteredPush(
        push: bench.push(name, to: device).push, registration: registration, owner: .chatServer(1))
    }
    let results = try await bench.deliverer.deliver((0..<500).map { push("\($0)") })
    func count(_ result: DeliveryResult) -> Int { results.count { $0 == result } }
    // Three quarters of 160; without credentials three quarters of half.
    let most = kind.isOpen ? 60 : 120
    #expect(count(.delivered) == most && count(.queued) == 100 && count(.refused(.backlogged)) == 400 - most)
    let waiting = try await OutboxContents(database: bench.database).listing().groups
    #expect(waiting.map(\.reason) == ["deviceOverPace"] && waiting.map(\.count) == [100])
    #expect(try #require(waiting.first).dueAt > bench.clock.now + 9)
    #expect(bench.state(bench.fcmRoute) == .ok)
    // They are not late, however often they have to wait.
    try await bench.database.execute("UPDATE outbox SET attempts = 9")
    #expect(try await bench.outbox.oldestLate() == nil)
    await eventually {
      bench.advance(5)
      return bench.accepted().count == most + 100
    }
    try await bench.drained()
  }

  @Test(.bench())
  func `However many strangers send to a phone whose token they know, its chat server's go at once`()
    async throws
  {
    let device = try await bench.devices(.fcm)[0]
    bench.clock.stop()
    func strangers(_ count: Int) -> [RegisteredPush] {
      (0..<count).map { index in
        RegisteredPush(
          push: bench.push("stranger", to: device).push,
          registration: RegistrationReference(
            index.isMultiple(of: 2) ? .gateway : .nextcloud, id: device.registration.id,
            registeredAt: device.registration.registeredAt),
          owner: .address(Int64(index % 50)))
      }
    }
    for minute in 0..<3 {
      let results = try await bench.deliverer.deliver(strangers(500))
      #expect(results.count { $0 == .delivered } <= 80)
      #expect(try await bench.deliver("message \(minute)", to: device) == .delivered)
      bench.advance(61)
    }
  }

  @Test(arguments: Besieged.allCases)
  func `A chat server does not wait for what others send to its user's phone`(_ besieged: Besieged) {
    let waits = besieged.waits()
    print(
      "\(besieged.testDescription): the longest wait of \(waits.count) notifications is \(waits.max() ?? 0) s"
    )
    #expect(waits.count == 540 && waits.allSatisfy { $0 <= besieged.longestWait })
  }

  /// A phone for an hour and a half, to which its chat server sends a notification every ten seconds, while others send all
  /// that they may from the beginning.
  struct Besieged: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// The others, one after the other in each second.
    let others: [DevicePace.Claim]
    var longestWait = 0

    private static func open(_ count: Int) -> [DevicePace.Claim] {
      (0..<count).map { .init(device: 1, owner: .address(Int64($0)), isOpen: true) }
    }

    private static func servers(_ count: Int) -> [DevicePace.Claim] {
      (0..<count).map { .init(device: 1, owner: .chatServer(Int64($0 + 2))) }
    }

    static let allCases = [
      Besieged(testDescription: "one stranger", others: open(1)),
      Besieged(testDescription: "a crowd of strangers", others: open(1000)),
      Besieged(testDescription: "another chat server", others: servers(1)),
      Besieged(testDescription: "another chat server, then strangers", others: servers(1) + open(5)),
      Besieged(testDescription: "strangers, then three other chat servers", others: open(5) + servers(3)),
      Besieged(testDescription: "eight other chat servers", others: servers(8), longestWait: 20),
    ]

    /// How long each notification of the chat server waits, in seconds.
    func waits() -> [Int] {
      let (pace, start, end) = (DevicePace(DevicePace.google), 1_800_000_000, 5400)
      var others = others
      var waiting: [(since: Int, until: TimeInterval)] = []
      var waits: [Int] = []
      for second in 0..<end {
        let now = Date(timeIntervalSince1970: TimeInterval(start + second))
        // Those of a crowd take turns.
        if others.count > 12 { others.append(others.removeFirst()) }
        for other in others.prefix(12) { while pace.admit(other, now: now) == nil {} }
        if second.isMultiple(of: 10) { waiting.append((second, TimeInterval(second))) }
        waiting = waiting.compactMap { since, until in
          guard until <= TimeInterval(second) else { return (since, until) }
          guard let next = pace.admit(.init(device: 1, owner: .chatServer(1)), now: now) else {
            waits.append(second - since)
            return nil
          }
          return (since, next.timeIntervalSince1970 - TimeInterval(start))
        }
      }
      return waits + waiting.map { end - $0.since }
    }
  }

  @Test(.bench()) func `An iPhone of a chat server's has no such pace`() async throws {
    let device = try await bench.devices(.apns)[0]
    let results = try await bench.deliverer.deliver((0..<300).map { bench.push("\($0)", to: device) })
    #expect(Set(results) == [.delivered])
  }

  @Test(.bench()) func `What Google refuses for the pace does not count, and what it takes does`()
    async throws
  {
    let device = try await bench.devices(.fcm)[0]
    bench.clock.stop()
    let push = bench.push("n", to: device)
    bench.simulator.setToken(device.token, TokenRule(status: 429, reason: "RESOURCE_EXHAUSTED"))
    #expect(try await bench.deliverer.deliver([push]) == [.queued])
    bench.simulator.setToken(device.token, nil)
    bench.advance(1)
    let claim = try #require(push.paceClaim)
    let now = bench.clock.now
    #expect((0..<300).count { _ in bench.deliverer.pace.admit(claim, now: now) == nil } == 120)
  }

  @Test func `No minute and no hour has more than Google takes, and an hour hardly less`() {
    let pace = DevicePace(DevicePace.google)
    var random = SystemRandomNumberGenerator()
    var sent: [Int] = []
    for second in 0..<14_400 {
      let time = Date(timeIntervalSince1970: TimeInterval(1_800_000_000 + second))
      guard !(3000..<3600).contains(second) else { continue }
      for owner in 0..<Int64.random(in: 1...4, using: &random) {
        while pace.admit(claim(of: owner), now: time) == nil { sent.append(second) }
      }
    }
    for (most, seconds) in [(240, 60), (5000, 3600)] {
      for index in sent.indices.dropFirst(most) { #expect(sent[index] - sent[index - most] >= seconds) }
    }
    #expect(sent.count > 4 * 4400)
  }

  @Test
  func
    `An owner has three times what is free at most, and half of it without credentials or if it shows nothing`()
  {
    let pace = DevicePace(.init(places: 16, seconds: 10))
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    func taken(_ claim: DevicePace.Claim) -> Int {
      (0..<20).count { _ in pace.admit(claim, now: now) == nil }
    }
    var background = claim(2)
    background.isBackground = true
    var hidden = stranger(3)
    hidden.isBackground = true
    #expect(taken(background) == 6 && taken(hidden) == 3)
    #expect(taken(stranger(1, 1)) == 6 && taken(stranger(1, 2)) == 2 && taken(stranger(1, 3)) == 0)
    #expect(taken(claim(1, of: 1)) == 6 && taken(claim(1, of: 2)) == 2)
    // Another device is another matter.
    #expect(taken(claim(4)) == 12)
  }

  @Test func `Who waits may go at the time that was named, if nobody else has sent until then`() {
    let pace = DevicePace(.init(places: 8, seconds: 30))
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    for second in 0..<6 { #expect(pace.admit(claim(), now: now + TimeInterval(second)) == nil) }
    #expect(pace.admit(claim(), now: now + 6) == now + 30)
    // One that has its share waits for a while, so that several go together.
    #expect(pace.admit(claim(), now: now + 29) == now + 39)
    #expect(pace.admit(claim(), now: now + 30) == nil)
    // Another owner waits no longer than until the next place is free.
    for owner in [2, 3] as [Int64] { #expect(pace.admit(claim(of: owner), now: now + 30) == nil) }
    #expect(pace.admit(claim(of: 4), now: now + 31) == now + 60)
  }

  @Test func `What did not go has no place, and a clock that was put back holds nobody up`() {
    let pace = DevicePace(.init(places: 1, seconds: 3600))
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    #expect(pace.admit(claim(), now: now) == nil)
    #expect(pace.admit(claim(), now: now + 10) == now + 3600)
    pace.giveBack(claim(), now: now + 10)
    #expect(pace.admit(claim(), now: now + 20) == nil)
    #expect(pace.admit(claim(), now: now - 86_400) == nil)
  }

  @Test func `Memory for devices is bounded, and those without a place share one`() {
    let pace = DevicePace(.init(places: 1, seconds: 60), capacity: 2)
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    for device in [1, 2] { #expect(pace.admit(claim(device), now: now) == nil) }
    #expect((3...100_000).count { pace.admit(claim($0), now: now) == nil } <= 1 << 14)
    for device in [1, 2] { #expect(pace.admit(claim(device), now: now) != nil) }
    let roomy = DevicePace(.init(places: 1, seconds: 60), capacity: 100_000)
    #expect((1...100_000).allSatisfy { roomy.admit(claim($0), now: now) == nil })
  }

  @Test func `A crowd of strangers and tokens leaves half of the memory to chat servers`() {
    let pace = DevicePace(.init(places: 2, seconds: 60), capacity: 4)
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    #expect((1...100_000).count { pace.admit(stranger($0), now: now) == nil } <= (1 << 14) + 2)
    for device in [100_001, 100_002, 100_001, 100_002] {
      #expect(pace.admit(claim(device), now: now) == nil)
    }
  }

  private func claim(_ device: Int = 1, of owner: Int64 = 1) -> DevicePace.Claim {
    .init(device: device, owner: .chatServer(owner))
  }

  private func stranger(_ device: Int = 1, _ address: Int64 = 1) -> DevicePace.Claim {
    .init(device: device, owner: .address(address), isOpen: true)
  }
}
