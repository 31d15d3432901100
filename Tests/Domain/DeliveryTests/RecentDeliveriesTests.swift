import Foundation
import ProviderSimulator
import Providers
import Registrations
import Sealing
import TestSupport
import Testing

@testable import Delivery
@testable import SQL

/// Tests when an accepted notification was taken, and how long each leg of its way is said to be.
@Suite struct RecentDeliveriesTests {
  private var bench: DeliveryBench { Fixture.current }

  private func recent(_ device: DeliveryBench.Device) -> [AcceptedDelivery] {
    bench.deliverer.recent.deliveries(to: [device.registration.id])
  }

  @Test(.bench()) func `The legs of one that is accepted at once add up`() async throws {
    await bench.faults { $0.apns.latencyMilliseconds = 200 }
    let devices = try await bench.devices(.apns, 2)
    let before = bench.clock.now
    _ = try await bench.deliverer.deliver([bench.push("n", to: devices[0])], after: .milliseconds(700))
    let delivery = try #require(recent(devices[0]).first)
    #expect(recent(devices[0]).count == 1 && recent(devices[1]).isEmpty)
    #expect(delivery.provider == .apns && delivery.registration == devices[0].registration)
    #expect(delivery.takenAt.timeIntervalSince(before) >= -0.701)
    #expect((delivery.request ?? 0) >= 0.699)
    #expect(delivery.queue >= 0 && delivery.answer >= 0.2)
    let legs = (delivery.request ?? 0) + delivery.queue + delivery.answer
    #expect(delivery.takenAt + legs <= bench.clock.now + 0.001)
  }

  @Test(.bench(deadline: .milliseconds(300))) func `One that waited in the outbox has waited in the queue`()
    async throws
  {
    await bench.faults { $0.apns.outage = true }
    let device = try await bench.devices(.apns, 1)[0]
    #expect(try await bench.deliverer.deliver([bench.push("n", to: device)]) == [.queued])
    #expect(recent(device).isEmpty)
    bench.advance(30)
    await bench.faults { $0.apns.outage = false }
    await eventually("the delivery") { !recent(device).isEmpty }
    let delivery = try #require(recent(device).first)
    #expect(delivery.request == nil)
    #expect(delivery.queue >= 30 && delivery.answer < 30)
  }

  @Test(.bench(deadline: .milliseconds(300))) func `An answer that comes late is counted from the sending`()
    async throws
  {
    await bench.faults { $0.apns.latencyMilliseconds = 1000 }
    let device = try await bench.devices(.apns, 1)[0]
    #expect(try await bench.deliverer.deliver([bench.push("n", to: device)]) == [.queued])
    await bench.deliverer.settled()
    let delivery = try #require(recent(device).first)
    #expect(recent(device).count == 1)
    #expect(delivery.request != nil && delivery.queue < 0.9 && delivery.answer >= 1)
  }

  @Test(.bench()) func `One that is refused was not accepted`() async throws {
    let device = try await bench.devices(.apns, 1)[0]
    bench.simulator.setToken(device.token, TokenRule(status: 413, reason: "PayloadTooLarge"))
    _ = try await bench.deliverer.deliver([bench.push("n", to: device)])
    #expect(recent(device).isEmpty)
  }

  @Test func `The oldest give way to newer ones`() {
    let recent = RecentDeliveries()
    let start = Date(timeIntervalSince1970: 1_790_000_000)
    for number in 0..<RecentDeliveries.limit + 5 {
      recent.add(
        AcceptedDelivery(
          registration: .init(.e2ee, id: 7, registeredAt: start), provider: .fcm,
          takenAt: start + Double(number),
          request: 0, queue: 0, answer: 0))
    }
    let kept = recent.deliveries(to: [7])
    #expect(kept.map(\.takenAt) == (5..<RecentDeliveries.limit + 5).map { start + Double($0) })
    #expect(recent.deliveries(to: [8]).isEmpty)
  }
}
