import Foundation
import NIOCore
import ProviderSimulator
import Registrations
import SQL
import Sealing
import TestSupport
import Testing

@testable import Delivery
@testable import Providers

/// Tests that a fault of one push service does not affect others, because strangers can name push services.
@Suite struct WebPushDeliveryTests {
  private var bench: DeliveryBench { Fixture.current }

  private static func route(_ authority: String) -> Route {
    Route(provider: .webPush, credential: authority, target: "")
  }

  /// Registers subscriptions, and makes a notification for each.
  private func pushes(to endpoints: [String], _ bench: DeliveryBench) async throws -> [RegisteredPush] {
    let phone = WebPushPhone()
    let tokens = try endpoints.map { try PushToken(phone.token(at: $0), kind: .fcm) }
    for token in tokens { try await bench.register(token) }
    let found = try await bench.registrations.lookup(realm: bench.realm, tokenIDs: tokens.map(\.id)).found
      .values
    return try tokens.map { token in
      let registration = try #require(found.first { $0.token == token })
      let message = WebPushMessage(
        subscription: try WebPushSubscription(token: token.text), body: ByteBuffer(string: "{}"),
        urgency: .high)
      return RegisteredPush(
        push: .webPush(message), registration: registration.reference, owner: .chatServer(1))
    }
  }

  private func endpoint(_ bench: DeliveryBench, vapid: String? = nil) throws -> String {
    let id = try #require(bench.simulator.subscribe(vapid: vapid ?? bench.providers.vapidPublicKey ?? ""))
    return "\(bench.simulator.webPushEndpoint)/push/\(id)"
  }

  @Test(.bench(isSending: false))
  func `A subscription at a name that no name server ever knows ends with its next notification`()
    async throws
  {
    let names = ["push.invalid", "push.test", "push.example", "push.onion:8443"]
    let batch = try await pushes(to: names.map { "https://\($0)/1" } + [endpoint(bench)], bench)
    let results = try await bench.deliverer.deliver(batch)
    #expect(results == [DeliveryResult](repeating: .ended(.nameReserved), count: 4) + [.delivered])
    #expect(try await bench.recorder.living(batch.map(\.registration.id)) == [batch[4].registration.id])
    #expect(bench.outbox.count == 0)
  }

  @Test(.bench(isSending: false)) func `A push service with as many as may wait fails no request for others`()
    async throws
  {
    var limits = Outbox.Limits()
    limits.perHost = 2
    let outbox = Outbox(
      database: bench.database, storageKey: StorageKey(bytes: [UInt8](repeating: 7, count: 32)),
      maxAge: 3600, limits: limits, now: { bench.clock.now })
    let deliverer = Deliverer(
      providers: bench.providers, registrations: bench.recorder, outbox: outbox, deadline: .seconds(5),
      now: { bench.clock.now }, metrics: bench.metrics, logger: bench.log.logger)
    let endpoints = try (0..<4).map { _ in try endpoint(bench) }
    let apple = try #require(try await bench.devices(.apns).first)
    let batch = try await pushes(to: endpoints, bench) + [bench.push("apple", to: apple)]
    await bench.faults { $0.webPush.status = 503 }
    let results = try await deliverer.deliver(batch)
    #expect(results.last == .delivered)
    #expect(results.prefix(4).count { $0 == .queued } == 2, "\(results)")
    #expect(results.prefix(4).count { $0 == .refused(.noRoom) } == 2)
    // It works again, and gets what has waited.
    await bench.faults { _ in }
    let sender = OutboxSender(
      outbox: outbox, deliverer: deliverer, now: { bench.clock.now }, logger: bench.log.logger)
    let sending = Task { await sender.run() }
    await eventually { bench.simulator.deliveries().count { $0.provider == .webPush } == 2 }
    await eventually { outbox.count == 0 }
    sending.cancel()
    await sending.value
    let removed = try await outbox.removeUnusedRoutes(limit: 10)
    #expect(removed == 1)
  }

  @Test(.bench()) func `What Windows throttles with 406 goes when Retry-After is over`() async throws {
    let batch = try await pushes(to: [try endpoint(bench)], bench)
    await bench.faults { ($0.webPush.status, $0.webPush.retryAfter) = (406, "30") }
    #expect(try await bench.deliverer.deliver(batch) == [.queued])
    await bench.faults { _ in }
    let due = try await bench.number("SELECT due_at FROM outbox")
    #expect(Double(due) / 1000 > bench.clock.now.timeIntervalSince1970 + 20)
    bench.advance(60)
    try await bench.drained()
    #expect(bench.simulator.deliveries().count { $0.provider == .webPush } == 1)
    // Without a pause it is a refusal.
    await bench.faults { $0.webPush.status = 406 }
    #expect(try await bench.deliverer.deliver(batch) == [.refused(.requestRefused)])
  }

  @Test(.bench(), arguments: [403, 400])
  func `A subscription of another key ends once its push service has taken what is for others`(status: Int)
    async throws
  {
    // Apple says it with 400, and names it.
    let isApple = status == 400
    let other = try endpoint(bench, vapid: isApple ? nil : VAPIDKey().publicKey)
    if isApple, let id = other.split(separator: "/").last {
      bench.simulator.setToken(String(id), TokenRule(status: 400, reason: "VapidPkHashMismatch"))
    }
    let batch = try await pushes(to: [other, try endpoint(bench)], bench)
    func lives(_ index: Int) async throws -> Bool {
      let row = batch[index].registration.id
      return try await bench.recorder.living([batch[index].registration.id]).contains(row)
    }
    // The host has delivered, but not since it refused this one.
    #expect(try await bench.deliverer.deliver([batch[1]]) == [.delivered])
    #expect(try await bench.deliverer.deliver([batch[0]]) == [.queued])
    func refusals() -> Int {
      bench.simulator.deliveries(includingRefused: true).count { $0.status == status }
    }
    bench.advance(4)
    await eventually { refusals() == 2 }
    #expect(try await lives(0))
    try await eventually {
      #expect(try await bench.deliverer.deliver([batch[1]]) == [.delivered])
      bench.advance(4)
      return try await !lives(0)
    }
    #expect(try await lives(1))
    try await bench.drained()
  }

  @Test(.bench(isSending: false)) func `Hundreds of dead push services hold up none that lives`() async throws
  {
    let dead = (1...300).map { "127.0.0.1:\($0)" }
    let living = "127.0.0.1:\(bench.simulator.webPushPort)"
    let batch = try await pushes(
      to: dead.map { "https://\($0)/x" } + [try endpoint(bench), try endpoint(bench)], bench)
    // The living one is known to be so by a notification that was sent at once.
    let last = batch[301]
    let first = try await bench.deliverer.deliver([last])
    #expect(first == [.delivered])
    let now = bench.clock.now
    let entries = zip(batch, dead + [living]).map {
      (delivery: $0, route: Self.route($1), dueAt: now)
    }
    try await bench.outbox.keep(entries)
    try await bench.sending {
      await eventually { bench.simulator.deliveries().count == 2 }
      await eventually { bench.outbox.count == 300 }
    }
    let routes = try await bench.number("SELECT COUNT(*) FROM outbox_routes")
    #expect(routes == 301)
  }
}
