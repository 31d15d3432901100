import Foundation
import NIOCore
import ProviderSimulator
import Providers
import Registrations
import Sealing
import TestSupport
import Testing

@testable import Delivery
@testable import SQL

/// Tests slow providers: no caller waits longer than the deadline, and nothing is sent twice because of it.
@Suite(.serialized) struct SlowProviderTests {
  private var bench: DeliveryBench { Fixture.current }

  /// The number of pushes that the simulator received, with any answer, by name.
  private static func arrivals(_ bench: DeliveryBench) -> [String: Int] {
    bench.simulator.deliveries(includingRefused: true).reduce(into: [:]) {
      $0[DeliveryBench.name($1.payload), default: 0] += 1
    }
  }

  private static func latency(_ milliseconds: Int, _ bench: DeliveryBench) async {
    await bench.faults {
      $0.apns.latencyMilliseconds = milliseconds
      $0.fcm.latencyMilliseconds = milliseconds
    }
  }

  @Test(.bench(deadline: .seconds(1), answerTimeout: .seconds(60)))
  func `Latency of many seconds holds nobody up, and each notification is accepted once`() async throws {
    await Self.latency(10_000, bench)
    let devices = try await bench.devices(.apns, 5) + bench.devices(.fcm, 5)
    var slowest = Duration.zero
    var count = 0
    for round in 0..<5 {
      let began = ContinuousClock.now
      let batch = devices.enumerated().map { bench.push("\(round).\($0)", to: $1) }
      #expect(try await Set(bench.deliverer.deliver(batch)) == [.queued])
      slowest = max(slowest, .now - began)
      count += batch.count
    }
    try await bench.drained()
    #expect(bench.accepted().count == count)
    #expect(Self.arrivals(bench).values.allSatisfy { $0 == 1 })
    print("10 s of latency: \(count) notifications, the slowest request took \(slowest)")
  }

  @Test(.bench(deadline: .seconds(1), answerTimeout: .seconds(60)))
  func `A call has a hundred under way at a time, and what is left at the deadline is kept`() async throws {
    let devices = try await bench.devices(.apns, 250)
    #expect(try await bench.deliverPatiently("before", to: devices[0]) == .delivered)
    await eventually("every answer") { [deliverer = bench.deliverer] in deliverer.lateAnswerCount == 0 }
    await Self.latency(10_000, bench)
    let batch = devices.enumerated().map { bench.push("\($0)", to: $1) }
    #expect(try await Set(bench.deliverer.deliver(batch)) == [.queued])
    #expect(bench.deliverer.lateAnswerCount == 100)
    await Self.latency(0, bench)
    try await bench.drained()
    #expect(bench.accepted().count == 251)
    #expect(Self.arrivals(bench).values.allSatisfy { $0 == 1 })
  }

  @Test(.bench(deadline: .milliseconds(300)), arguments: PushToken.Kind.allCases)
  func `What is at its provider at the deadline is kept, not sent again, and goes with its answer`(
    kind: PushToken.Kind
  ) async throws {
    let devices = try await bench.devices(kind, 3)
    for device in devices { #expect(try await bench.deliverPatiently("before", to: device) == .delivered) }
    await Self.latency(3000, bench)
    #expect(
      try await bench.deliverer.deliver(devices.map { bench.push($0.token, to: $0) }) == [
        .queued, .queued, .queued,
      ])
    #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 3)
    #expect(bench.deliverer.lateAnswerCount == 3)
    try await bench.drained()
    await eventually { bench.deliverer.lateAnswerCount == 0 }
    for device in devices { #expect(Self.arrivals(bench)[device.token] == 1) }
    #expect(bench.outbox.count == 0)
  }

  @Test(.bench(deadline: .milliseconds(300))) func `A late answer does what it would have done in time`()
    async throws
  {
    let devices = try await bench.devices(.apns, 3)
    for device in devices { #expect(try await bench.deliverPatiently("before", to: device) == .delivered) }
    let rules = [
      TokenRule(status: 410, delayMilliseconds: 1000), TokenRule(status: 413, delayMilliseconds: 1000),
      TokenRule(status: 429, delayMilliseconds: 1000, times: 1),
    ]
    for (device, rule) in zip(devices, rules) { bench.simulator.setToken(device.token, rule) }
    let pushes = zip(["dead", "refused", "again"], devices).map { bench.push($0, to: $1) }
    #expect(try await Set(bench.deliverer.deliver(pushes)) == [.queued])
    for device in devices { #expect(try await bench.lives(device)) }
    try await bench.drained()
    #expect(try await !bench.lives(devices[0]))
    #expect(try await bench.lives(devices[1]))
    #expect(Self.arrivals(bench) == ["before": 3, "dead": 1, "refused": 1, "again": 2])
    #expect(bench.accepted()["again"]?.count == 1)
  }

  @Test(.bench(deadline: .milliseconds(300), answerTimeout: .seconds(2)))
  func `What is not answered in the longest time either goes again under its id`() async throws {
    let device = try await bench.devices(.apns)[0]
    await Self.latency(30_000, bench)
    #expect(try await bench.deliver("n", to: device) == .queued)
    await eventually { bench.deliverer.lateAnswerCount == 1 }
    await bench.faults { _ in }
    await eventually { bench.deliverer.lateAnswerCount == 0 }
    try await bench.drained()
    #expect(bench.accepted()["n"]?.count == 2)
    #expect(Set(bench.accepted()["n"] ?? []).count == 1)
  }

  @Test(.bench(deadline: .milliseconds(1200), answerTimeout: .seconds(60)))
  func `A provider that answers late costs three their deadline, and fails no longer than it owes answers`()
    async throws
  {
    let devices = try await bench.devices(.apns, 9)
    #expect(try await bench.deliverPatiently("first", to: devices[0]) == .delivered)
    // Each is answered before the next one has waited in vain.
    await Self.latency(1800, bench)
    var waits: [Duration] = []
    for (index, device) in devices.enumerated() {
      let began = ContinuousClock.now
      #expect(try await bench.deliver("\(index)", to: device) == .queued)
      waits.append(.now - began)
    }
    #expect(waits.filter { $0 >= .milliseconds(1200) }.count == 3)
    guard case .failing(.timeout, since: _) = bench.state(bench.apnsRoute) else {
      Issue.record("the route is \(String(describing: bench.state(bench.apnsRoute)))")
      return
    }
    try await bench.drained()
    #expect(bench.state(bench.apnsRoute) == .ok)
  }

  @Test(.bench(deadline: .seconds(3)), arguments: [true, false])
  func `A provider that is away costs three their deadline`(wasThere: Bool) async throws {
    let devices = try await bench.devices(.apns, 9)
    if wasThere { #expect(try await bench.deliverPatiently("first", to: devices[0]) == .delivered) }
    await bench.faults { $0.apns.outage = true }
    var waits: [Duration] = []
    for (index, device) in devices.enumerated() {
      let began = ContinuousClock.now
      #expect(try await bench.deliver("\(index)", to: device) == .queued)
      waits.append(.now - began)
    }
    #expect(waits.filter { $0 >= .seconds(1) }.count <= 3, "\(waits)")
    await bench.faults { _ in }
    try await bench.drained()
    #expect(bench.accepted().count == 9 + (wasThere ? 1 : 0))
    #expect(bench.state(bench.apnsRoute) == .ok)
  }

  @Test(.bench(deadline: .seconds(20))) func `A caller that goes away takes nothing back`() async throws {
    let devices = try await bench.devices(.apns, 2)
    for device in devices { #expect(try await bench.deliverPatiently("before", to: device) == .delivered) }
    await Self.latency(2000, bench)
    let caller = Task { try await bench.deliverer.deliver(devices.map { bench.push($0.token, to: $0) }) }
    await eventually { bench.simulator.deliveries().count == 4 }
    caller.cancel()
    #expect(try await caller.value == [.queued, .queued])
    #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 2)
    try await bench.drained()
    for device in devices { #expect(Self.arrivals(bench)[device.token] == 1) }
  }

  @Test func `A slow answer does not stop the others of its route`() async throws {
    try await DeliveryBench.test(deadline: .milliseconds(300), answerTimeout: .seconds(30), isSending: false)
    {
      bench in
      // Too few, with three tries each, to open the breaker: its probe would hold up the others.
      let devices = try await bench.devices(.apns, 6)
      await bench.faults { $0.apns.outage = true }
      for device in devices { #expect(try await bench.deliver(device.token, to: device) == .queued) }
      bench.simulator.setToken(devices[0].token, TokenRule(status: 200, delayMilliseconds: 25_000))
      await bench.faults { _ in }
      bench.advance(600)
      try await bench.sending {
        try await eventually { try await bench.number("SELECT COUNT(*) FROM outbox") == 1 }
        // The slow one is the last.
        #expect(
          try await bench.number("SELECT registration_id FROM outbox") == devices[0].registration.id)
        try await bench.drained()
      }
      #expect(Self.arrivals(bench).values.allSatisfy { $0 == 1 })
    }
  }

  @Test(.bench(deadline: .milliseconds(300), isSending: false))
  func `A notification that takes the place of one under way is not removed with it`()
    async throws
  {
    let device = try await bench.devices(.apns)[0]
    #expect(try await bench.deliverPatiently("before", to: device) == .delivered)
    await Self.latency(1500, bench)
    func push(_ name: String) -> Outgoing {
      var push = bench.push(name, to: device)
      if case .apns(var notification) = push.push {
        notification.collapseID = "c"
        push.push = .apns(notification)
      }
      return push
    }
    #expect(try await bench.deliverer.deliver([push("old")]) == [.queued])
    try await bench.outbox.keep([(push("new"), bench.apnsRoute, bench.clock.now)])
    await eventually { bench.deliverer.lateAnswerCount == 0 }
    let left = try await bench.outbox.lease(bench.apnsRoute, limit: 9, for: 30)
    #expect(left.map { DeliveryBench.name($0.delivery.push) } == ["new"])
  }

  @Test func `What is under way when the program ends stays under its lease`() async throws {
    try await DeliveryBench.test(deadline: .milliseconds(300), answerTimeout: .seconds(60), isSending: false)
    {
      bench in
      let device = try await bench.devices(.apns)[0]
      #expect(try await bench.deliverPatiently("before", to: device) == .delivered)
      await Self.latency(30_000, bench)
      #expect(try await bench.deliver("n", to: device) == .queued)
      await bench.providers.shutdown(within: .milliseconds(200))
      await bench.deliverer.settled()
      #expect(try await bench.outbox.lease(bench.apnsRoute, limit: 9, for: 30).isEmpty)
      // Whoever comes next takes it over when nobody can answer it any more.
      bench.clock.advance(76)
      #expect(try await bench.outbox.lease(bench.apnsRoute, limit: 9, for: 30).count == 1)
    }
  }
}

extension DeliveryBench {
  fileprivate static func name(_ push: Push) -> String {
    switch push {
    case .apns(let notification): name(Data(notification.payload.readableBytesView))
    case .fcm(let message): message.data["name"] ?? ""
    case .webPush(let message): String(buffer: message.body)
    case .upstream: ""
    }
  }
}
