import Foundation
import Logging
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import TestSupport
import Testing

@testable import Delivery

/// Tests that each waiting notification knows why it waits and until when.
@Suite(.bench(isSending: false)) struct WaitTests {
  private let bench = Fixture<DeliveryBench>.current

  private func found(_ device: DeliveryBench.Device) async throws -> FoundDevice {
    let search = DeviceSearch(
      database: bench.database, storageKey: StorageKey(bytes: [UInt8](repeating: 7, count: 32)))
    let kind = device.registration.wire.rawValue
    return try #require(
      try await search.find(.registration(wire: kind, id: device.registration.id)).devices.first)
  }

  @Test func `A token that its provider wants fewer for is named with the reason, while its route works`()
    async throws
  {
    let devices = try await bench.devices(.apns, 2)
    bench.simulator.setToken(devices[0].token, TokenRule(status: 429, reason: "TooManyRequests"))
    let results = try await bench.deliverer.deliver(devices.map { bench.push("n", to: $0) })
    #expect(results == [.queued, .delivered])
    #expect(bench.state(bench.apnsRoute) == .ok)
    var waiting = try await found(devices[0])
    #expect(waiting.state == .waiting && waiting.waitReason == "TooManyRequests")
    #expect(waiting.advice.contains(Reason.tooManyRequests.explanation.meaning))
    #expect(try #require(waiting.waitingUntil) > bench.clock.now)
    let line = try #require(bench.log.lines.first { $0.message == "notification waits" })
    #expect(line.metadata["reason"] == "TooManyRequests" && line.metadata["server"] == "chat.example.org")
    #expect(line.metadata["device"] == "\(devices[0].registration.name)" && line.metadata["until"] != nil)
    #expect(!"\(bench.log.lines)".contains(devices[0].token))
    let group = try #require(try await OutboxContents(database: bench.database).listing().groups.first)
    #expect(group.reason == "TooManyRequests")
    try await bench.outbox.recount()
    #expect(bench.outbox.reasons == [.tooManyRequests: 1])

    // Another reason at the next try takes its place, for whatever else waits for the device, too.
    #expect(try await bench.deliver("another", to: devices[0]) == .queued)
    bench.simulator.setToken(devices[0].token, TokenRule(status: 503, reason: "ServiceUnavailable"))
    try await bench.sending {
      try await eventually {
        bench.advance(5)
        return try await bench.number(
          "SELECT COUNT(*) FROM outbox WHERE reason IN ('ServiceUnavailable', 'breakerOpen')") > 0
      }
    }
    waiting = try await found(devices[0])
    #expect(waiting.waitReason != nil && waiting.waiting == 2)
    // What is given up leaves the reason on the registration.
    bench.advance(86_500)
    try await bench.sending { try await bench.drained() }
    let lost = try await found(devices[0])
    #expect(lost.state == .failing && lost.failure != nil)
    #expect(bench.log.lines.contains { $0.message == "notification given up" })
  }

  @Test func `What was not sent, as its route does not work, is named with the reason of the route`()
    async throws
  {
    let devices = try await bench.devices(.apns, 30)
    await bench.faults { $0.apns.status = 503 }
    _ = try await bench.deliverer.deliver(devices.dropLast().map { bench.push("n", to: $0) })
    guard case .open(let reason, _)? = bench.state(bench.apnsRoute) else {
      Issue.record("\(String(describing: bench.state(bench.apnsRoute)))")
      return
    }
    #expect(reason != .breakerOpen)
    #expect(try await bench.deliver("n", to: devices[29]) == .queued)
    #expect(try await found(devices[29]).waitReason == "\(reason)")
    // Nor does another try of it, or of others, say anything else.
    try await bench.database.execute("UPDATE outbox SET due_at = 0")
    try await bench.sending {
      try await eventually { try await bench.number("SELECT MAX(attempts) FROM outbox") > 1 }
    }
    #expect(try await bench.number("SELECT COUNT(*) FROM outbox WHERE reason = 'breakerOpen'") == 0)
  }

  @Test func `What its server's pace holds back says so`() async throws {
    let device = try await bench.devices(.fcm)[0]
    var push = bench.push("n", to: device)
    push.notBefore = bench.clock.now + 90
    #expect(try await bench.deliverer.deliver([push]) == [.queued])
    let waiting = try await found(device)
    #expect(
      waiting.waitReason == "serverOverPace" && waiting.advice.contains("bouncer.notifications_per_server"))
    #expect(bench.log.lines.contains { $0.metadata["reason"] == "serverOverPace" })
    let until = try #require(waiting.waitingUntil)
    #expect((89.0...100).contains(until.timeIntervalSince(bench.clock.now)))
  }

  @Test(arguments: [false, true])
  func `The first failure of the provider at one token is in the log, also where its answer comes late`(
    isLate: Bool
  ) async throws {
    let devices = try await bench.devices(.fcm, 2)
    #expect(try await bench.deliver("warm", to: devices[1]) == .delivered)
    bench.simulator.setToken(devices[0].token, TokenRule(status: 500, reason: "INTERNAL"))
    if isLate { await bench.faults { $0.fcm.latencyMilliseconds = 1500 } }
    let pushes = devices.map { bench.push("n", to: $0) }
    let results = try await bench.deliverer.deliver(pushes, within: isLate ? .milliseconds(300) : nil)
    #expect(results == (isLate ? [.queued, .queued] : [.queued, .delivered]))
    await bench.deliverer.settled()
    #expect(bench.state(bench.fcmRoute) == .ok)
    let lines = bench.log.lines.filter { $0.message == "notification waits" }
    #expect(lines.count == 1 && lines.first?.metadata["reason"] == "INTERNAL")
    #expect(lines.first?.metadata["device"] == "\(devices[0].registration.name)")
  }

  @Test func `What waits for its answer at the deadline waits for the provider`() async throws {
    let device = try await bench.devices(.fcm)[0]
    #expect(try await bench.deliver("warm", to: device) == .delivered)
    await bench.faults { $0.fcm.latencyMilliseconds = 1500 }
    let push = bench.push("n", to: device)
    #expect(try await bench.deliverer.deliver([push], within: .milliseconds(300)) == [.queued])
    #expect(try await found(device).waitReason == "timeout")
    await bench.deliverer.settled()
    #expect(bench.outbox.count == 0)
  }

  @Test func `Lines about waiting are few for each reason`() async throws {
    let devices = try await bench.devices(.fcm, 20)
    let pushes = devices.map {
      var push = bench.push("n", to: $0)
      push.notBefore = bench.clock.now + 90
      return push
    }
    _ = try await bench.deliverer.deliver(pushes)
    #expect(bench.log.lines.count { $0.message == "notification waits" } == 5)
  }

  @Test func `A backlog of a device's own is no fault of its route`() async throws {
    let device = try await bench.devices(.apns)[0]
    let pushes = (0..<102).map {
      var push = bench.push("\($0)", to: device)
      push.registration = RegistrationReference(.nextcloud, id: 7, registeredAt: bench.clock.now)
      push.notBefore = bench.clock.now + 90
      return push
    }
    #expect(try await bench.deliverer.deliver(pushes).count { $0 == .refused(.backlogged) } == 2)
    let line = try #require(bench.log.lines.first { $0.message.hasPrefix("notifications refused:") })
    #expect(line.level == .warning && line.message.hasSuffix("which is the maximum"))
    #expect(line.metadata["reason"] == "serverOverPace" && line.metadata["device"] == "nextcloud:7")
    #expect("\(line.metadata["advice"] ?? "")".contains("push-bouncer device show nextcloud:7"))
  }

  @Test func `An address that has its share of the outbox is called so, and not the device`() async throws {
    let device = try await bench.devices(.apns)[0]
    bench.providers.use(try bench.credentials(keyID: "ZZZZZZZZZZ"))
    var limits = Outbox.Limits()
    limits.perRoute = 2
    let outbox = Outbox(
      database: bench.database, storageKey: StorageKey(bytes: [UInt8](repeating: 7, count: 32)), maxAge: 3600,
      limits: limits, now: { bench.clock.now })
    let deliverer = Deliverer(
      providers: bench.providers, registrations: bench.recorder, outbox: outbox, deadline: .seconds(5),
      now: { bench.clock.now }, metrics: bench.metrics, logger: bench.log.logger)
    let pushes = (0..<4).map {
      var push = bench.push("\($0)", to: device)
      push.registration = RegistrationReference(.nextcloud, id: Int64($0), registeredAt: bench.clock.now)
      return push
    }
    let results = try await deliverer.deliver(pushes)
    #expect(results.count { $0 == .refused(.noRoom) } == 2, "\(results)")
    let line = try #require(bench.log.lines.first { $0.message.hasPrefix("notifications refused:") })
    #expect(line.message.contains("address") && !line.message.contains("this device"))
    #expect("\(line.metadata["advice"] ?? "")".contains("push-bouncer routes list"))
  }

  @Test func `A backlog because of the route is called so, whoever may register the device`() async throws {
    let device = try await bench.devices(.apns)[0]
    bench.providers.use(try bench.credentials(keyID: "ZZZZZZZZZZ"))
    let pushes = (0..<102).map {
      var push = bench.push("\($0)", to: device)
      push.registration = RegistrationReference(.gateway, id: 7, registeredAt: bench.clock.now)
      return push
    }
    // No more at a time than the device may get.
    #expect(try await bench.deliverer.deliver(Array(pushes.prefix(51))).allSatisfy { $0 == .queued })
    bench.advance(61)
    let results = try await bench.deliverer.deliver(Array(pushes.suffix(51)))
    #expect(results.count { $0 == .refused(.backlogged) } == 2)
    let line = try #require(bench.log.lines.first { $0.message.hasPrefix("notifications refused:") })
    #expect(line.metadata["device"] == "webpush_gateway:7")
    #expect("\(line.metadata["advice"] ?? "")".contains("push-bouncer routes list"))
  }
}
