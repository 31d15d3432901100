import Foundation
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

  @Test(.bench(), arguments: RegistrationReference.Kind.allCases)
  func `A phone of Google's gets 240 in a minute, and what is over that waits and says so`(
    kind: RegistrationReference.Kind
  ) async throws {
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
    #expect(count(.delivered) == 240 && count(.queued) == 100 && count(.refused(.backlogged)) == 160)
    let waiting = try await OutboxContents(database: bench.database).listing().groups
    #expect(waiting.map(\.reason) == ["deviceOverPace"] && waiting.map(\.count) == [100])
    #expect(try #require(waiting.first).dueAt > bench.clock.now + 59)
    #expect(bench.state(bench.fcmRoute) == .ok)
    // They are not late, however often they have to wait.
    try await bench.database.execute("UPDATE outbox SET attempts = 9")
    #expect(try await bench.outbox.oldestLate() == nil)
    bench.advance(61)
    try await bench.drained()
    #expect(bench.accepted().count == 340)
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
    let hash = try #require(push.pacedDevice)
    let now = bench.clock.now
    #expect((0..<300).count { _ in bench.deliverer.pace.admit(hash, now: now) == nil } == 240)
  }

  @Test func `An hour holds no more either where pushes go out all the time, and hardly less`() {
    let pace = DevicePace([.init(pushes: 240, seconds: 60), .init(pushes: 2000, seconds: 3600)])
    var sent: [Int] = []
    for second in 0..<14_400 {
      let time = Date(timeIntervalSince1970: TimeInterval(1_800_000_000 + second))
      // Slowly at first, so that what then comes in haste meets what is known to the minute alone.
      for _ in 0..<(second < 3600 ? 1 : 30) where pace.admit(1, now: time) == nil {
        sent.append(second)
        if sent.count > 2000 { #expect(sent[sent.count - 2001] < second - 3600) }
      }
    }
    #expect(sent.count > 4 * 2000 - 200)
  }

  @Test func `In any minute and hour a device gets no more than the limits say, and no less`() {
    let limits = [DevicePace.Limit(pushes: 7, seconds: 60), .init(pushes: 20, seconds: 600)]
    let pace = DevicePace(limits)
    var random = SystemRandomNumberGenerator()
    var sent: [Int] = []
    var now = 1_800_000_000
    for _ in 0..<3000 {
      now += Int.random(in: 0...12, using: &random)
      let isFree = limits.allSatisfy { limit in
        sent.count { $0 >= now - limit.seconds } < limit.pushes
      }
      let wait = pace.admit(1, now: Date(timeIntervalSince1970: TimeInterval(now) + 0.5))
      #expect((wait == nil) == isFree)
      if wait == nil { sent.append(now) }
      if let wait { #expect(wait.timeIntervalSince1970 > TimeInterval(now)) }
    }
    // Another device is another matter.
    #expect(pace.admit(2, now: Date(timeIntervalSince1970: TimeInterval(now))) == nil)
  }

  @Test func `What shows nothing goes while half of the pace is free`() {
    let pace = DevicePace([.init(pushes: 7, seconds: 60)])
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    func admits(isBackground: Bool) -> Bool { pace.admit(1, isBackground: isBackground, now: now) == nil }
    #expect((0..<5).count { _ in admits(isBackground: true) } == 4)
    #expect((0..<5).count { _ in admits(isBackground: false) } == 3)
    #expect(pace.admit(1, isBackground: true, now: now) == now + 61)
  }

  @Test func `What did not go counts for nothing, and a clock that was put back holds nobody up`() {
    let pace = DevicePace([.init(pushes: 1, seconds: 3600)])
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    #expect(pace.admit(1, now: now) == nil)
    #expect(pace.admit(1, now: now + 10) == now + 3601)
    pace.uncount(1, admitted: now)
    #expect(pace.admit(1, now: now + 20) == nil)
    #expect(pace.admit(1, now: now - 86_400) == nil)
  }

  @Test func `Memory for devices is bounded, and those without a place share one`() {
    let pace = DevicePace([.init(pushes: 1, seconds: 60)], capacity: 2)
    let now = Date(timeIntervalSince1970: 1_800_000_000)
    for device in 1...3 { #expect(pace.admit(device, now: now) == nil) }
    for device in [1, 2, 3, 3 + (1 << 16)] { #expect(pace.admit(device, now: now) != nil) }
    let roomy = DevicePace([.init(pushes: 1, seconds: 60)], capacity: 2)
    for device in [3, 3 + (1 << 16)] { #expect(roomy.admit(device, now: now) == nil) }
  }
}
