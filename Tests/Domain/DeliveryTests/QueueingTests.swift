import Foundation
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import Synchronization
import TestSupport
import Testing

@testable import Delivery

/// Tests what is stored in the outbox, and how it is sent from there.
@Suite struct QueueingTests {
  private var bench: DeliveryBench { Fixture.current }

  @Test(.bench()) func `A device that gets too many waits as long as its provider says`() async throws {
    for kind in PushToken.Kind.allCases {
      let device = try await bench.devices(kind)[0]
      await bench.faults {
        $0.apns.status = 429
        $0.apns.retryAfter = "2"
        $0.fcm = $0.apns
      }
      let asked = Date()
      #expect(try await bench.deliver("\(kind)", to: device) == .queued)
      await bench.faults { _ in }
      try await bench.drained()
      let arrival = try #require(bench.simulator.deliveries().last)
      #expect(DeliveryBench.name(arrival.payload) == "\(kind)")
      #expect(arrival.receivedAt >= asked + 2)
      #expect(try await bench.lives(device))
    }
    #expect(bench.accepted().mapValues(\.count) == ["apns": 1, "fcm": 1])
  }

  @Test(.bench()) func `A device's own limit does not hold up the others`() async throws {
    let devices = try await bench.devices(.apns, 2)
    bench.simulator.setToken(devices[0].token, TokenRule(status: 429, times: 3))
    let results = try await bench.deliverer.deliver(devices.map { bench.push($0.token, to: $0) })
    #expect(results == [.queued, .delivered])
    #expect(bench.state(bench.apnsRoute) == .ok)
    try await bench.drained()
    #expect(bench.accepted().mapValues(\.count) == [devices[0].token: 1, devices[1].token: 1])
  }

  @Test(.bench()) func `An answer that is a web page is an outage, tried again at once and then later`()
    async throws
  {
    for kind in PushToken.Kind.allCases {
      let device = try await bench.devices(kind)[0]
      await bench.faults {
        $0.apns.html = true
        $0.fcm.html = true
      }
      #expect(try await bench.deliver("\(kind)", to: device) == .queued)
      #expect(
        bench.simulator.deliveries(includingRefused: true).filter { $0.token == device.token }.count >= 2)
      await bench.faults { _ in }
      bench.advance(20)
      try await bench.drained()
      #expect(bench.accepted()["\(kind)"]?.count == 1)
      #expect(try await bench.lives(device))
    }
  }

  @Test(.bench()) func `One failure is made good within the request`() async throws {
    let device = try await bench.devices(.apns)[0]
    bench.simulator.setToken(device.token, TokenRule(status: 500, times: 1))
    #expect(try await bench.deliver("n", to: device) == .delivered)
    let arrivals = bench.simulator.deliveries(includingRefused: true)
    #expect(arrivals.map(\.status) == [500, 200])
    #expect(Set(arrivals.map(\.id)).count == 1)
    #expect(bench.simulator.counts.connections == 2)
  }

  @Test(.bench(isSending: false), arguments: PushToken.Kind.allCases)
  func `A request tries no more once a provider has named a time`(_ kind: PushToken.Kind) async throws {
    let device = try await bench.devices(kind)[0]
    bench.simulator.setToken(device.token, TokenRule(status: 503, retryAfter: "60", times: 1))
    #expect(try await bench.deliver("n", to: device) == .queued)
    #expect(bench.simulator.deliveries(includingRefused: true).map(\.status) == [503])
  }

  @Test(.bench(isSending: false))
  func `While APNs is out of order a notification waits a quarter of a minute`() async throws {
    let device = try await bench.devices(.apns)[0]
    await bench.faults { $0.apns.status = 503 }
    #expect(try await bench.deliver("n", to: device) == .queued)
    #expect(bench.simulator.deliveries(includingRefused: true).map(\.status) == [503, 503])
    #expect(try await (15_000...18_000).contains(bench.number("SELECT due_at - created_at FROM outbox")))
    await bench.faults { _ in }
    bench.advance(20)
    try await bench.sending { try await bench.drained() }
    #expect(bench.accepted()["n"]?.count == 1)
  }

  @Test(.bench(), arguments: ["key", "topic", "project"])
  func `A wrong key, topic or project ends no registration, and what waited goes once it is right`(
    mistake: String
  ) async throws {
    let (right, wrong, route, reason): (Credentials, Credentials, Route, Reason)
    var topic = DeliveryBench.topic
    var kind = PushToken.Kind.apns
    switch mistake {
    case "key":
      (wrong, right) = (try bench.credentials(keyID: "ZZZZZZZZZZ"), try bench.credentials())
      (route, reason) = (bench.apnsRoute, .invalidProviderToken)
    case "topic":
      // The simulator's key may push to example.app, and to no other topic that begins so.
      topic = "example.app.beta"
      wrong = try bench.credentials(topics: [topic])
      right = wrong
      (route, reason) = (Route(provider: .apns, credential: "main", target: topic), .topicDisallowed)
    default:
      (wrong, right) = (try bench.credentials(project: "foreign"), try bench.credentials())
      (route, reason) = (Route(provider: .fcm, credential: "default", target: "foreign"), .fcmNotFound)
      kind = .fcm
    }
    bench.providers.use(wrong)
    let devices = try await bench.devices(kind, 10)
    for round in 0..<3 {
      let pushes = devices.enumerated().map { bench.push("\(round).\($0)", to: $1, topic: topic) }
      #expect(try await Set(bench.deliverer.deliver(pushes)) == [.queued])
    }
    guard case .open(reason, since: _) = bench.state(route) else {
      Issue.record("the route is \(String(describing: bench.state(route)))")
      return
    }
    #expect(try await bench.recorder.living(devices.map(\.registration.id)).count == 10)
    guard mistake != "topic" else { return }
    bench.providers.use(right)
    try await bench.drained()
    #expect(bench.accepted().count == 30)
    #expect(bench.accepted().values.allSatisfy { $0.count == 1 })
    #expect(try await bench.recorder.living(devices.map(\.registration.id)).count == 10)
  }

  @Test(.bench()) func `What waits for a registration that has ended, or for too long, is not sent`()
    async throws
  {
    let devices = try await bench.devices(.apns, 3)
    await bench.faults { $0.apns.outage = true }
    let pushes = [
      bench.push("ended", to: devices[0]), bench.push("living", to: devices[1]),
      bench.push("expired", to: devices[2], expiration: bench.clock.now + 60),
    ]
    #expect(try await bench.deliverer.deliver(pushes) == [.queued, .queued, .queued])
    _ = try await bench.recorder.end([.init(devices[0].registration, reason: "Unregistered")])
    bench.advance(61)
    await bench.faults { _ in }
    try await bench.drained()
    #expect(bench.accepted().mapValues(\.count) == ["living": 1])
    #expect(bench.simulator.deliveries(includingRefused: true).count == 1)
  }

  @Test(.bench()) func `A token that turns out dead while its notification waits ends its registration`()
    async throws
  {
    let device = try await bench.devices(.apns)[0]
    await bench.faults { $0.apns.outage = true }
    for name in ["one", "two"] { #expect(try await bench.deliver(name, to: device) == .queued) }
    bench.simulator.setToken(device.token, TokenRule(status: 410))
    await bench.faults { _ in }
    try await bench.drained()
    #expect(try await !bench.lives(device))
    #expect(bench.accepted().isEmpty)
  }

  @Test(.bench()) func `What waits outlasts a time without its key`() async throws {
    let device = try await bench.devices(.fcm)[0]
    await bench.faults { $0.fcm.outage = true }
    #expect(try await bench.deliver("n", to: device) == .queued)
    bench.providers.use(Credentials())
    await bench.faults { _ in }
    let attempts = try await bench.number("SELECT MAX(attempts) FROM outbox")
    try await eventually { try await bench.number("SELECT MAX(attempts) FROM outbox") > attempts + 1 }
    bench.providers.use(try bench.credentials())
    try await bench.drained()
    #expect(bench.accepted().mapValues(\.count) == ["n": 1])
  }

  @Test(.bench(isSending: false)) func `A sender that is told to stop ends what it has begun`() async throws {
    let devices = try await bench.devices(.apns, 2)
    await bench.faults { $0.apns.outage = true }
    for device in devices { #expect(try await bench.deliver(device.token, to: device) == .queued) }
    await bench.faults { $0.apns.latencyMilliseconds = 1000 }
    bench.advance(60)
    try await bench.sending {
      // It has reached the provider, which takes its time to answer.
      await eventually { !bench.simulator.deliveries().isEmpty }
    }
    await bench.deliverer.settled()
    let arrived = bench.simulator.deliveries().count
    #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == Int64(2 - arrived))
  }

  @Test(.bench(isSending: false))
  func `What was leased too long ago is given back unsent, as another node could send it as well`()
    async throws
  {
    let device = try #require(try await bench.devices(.fcm).first)
    await bench.faults { $0.fcm.outage = true }
    #expect(try await bench.deliverer.deliver([bench.push("one", to: device)]) == [.queued])
    await bench.faults { _ in }
    // The database takes 20 s between the lease and the sending.
    let stall = Mutex(20.0)
    let clock = bench.clock
    let sender = OutboxSender(
      outbox: bench.outbox, deliverer: bench.deliverer, now: { clock.now + stall.withLock { $0 } },
      logger: bench.log.logger)
    let sending = Task { await sender.run() }
    try await eventually("it is taken and given back") {
      bench.advance(30)
      let rows = try await bench.database.query("SELECT attempts FROM outbox")
      return try (rows.first?.int64("attempts") ?? 0) >= 4
    }
    #expect(bench.simulator.deliveries().isEmpty)
    stall.withLock { $0 = 0 }
    await eventually("it is sent") {
      bench.advance(30)
      return bench.simulator.deliveries().count == 1
    }
    sending.cancel()
    await sending.value
    #expect(bench.simulator.deliveries().count == 1)
  }
}
