import Foundation
import ProviderSimulator
import Registrations
import SQL
import Sealing
import TestSupport
import Testing

@testable import Delivery
@testable import Providers

/// Tests what happens to reports of dead tokens that are too many to be accepted.
@Suite struct HeldDeletionTests {
  private static let reason = Reason.fcmUnregistered

  /// A bench with 100 devices which FCM has called dead: 20 have ended, 80 are held. The clock goes with the test.
  private static func test(
    _ test: @escaping @Sendable (DeliveryBench, [DeliveryBench.Device]) async throws -> Void
  )
    async throws
  {
    try await DeliveryBench.test(deadline: .seconds(60), isSending: false) { bench in
      let devices = try await bench.devices(.fcm, 100)
      bench.advance(5)
      setDead(true, devices, bench)
      let results = try await say(devices, bench)
      #expect(results.count { $0 == .ended(reason) } == 20)
      let living = try await bench.recorder.living(devices.map(\.registration.id))
      let held = devices.filter { living.contains($0.registration.id) }
      #expect(held.count == 80)
      #expect(try await heldCount(bench) == 80)
      expectFailing(bench.deliverer, bench)
      try await test(bench, held)
    }
  }

  private static func expectFailing(_ deliverer: Deliverer, _ bench: DeliveryBench) {
    guard case .failing(.deletionsHeld, since: _)? = deliverer.routeStates()[bench.fcmRoute] else {
      Issue.record("the route is \(String(describing: deliverer.routeStates()[bench.fcmRoute]))")
      return
    }
  }

  private static func setDead(
    _ isDead: Bool, _ devices: some Sequence<DeliveryBench.Device>, _ bench: DeliveryBench
  ) {
    for device in devices { bench.simulator.setToken(device.token, isDead ? TokenRule(status: 404) : nil) }
  }

  /// The outcome of a notification for each.
  private static func say(_ devices: some Sequence<DeliveryBench.Device>, _ bench: DeliveryBench) async throws
    -> [DeliveryResult]
  {
    try await bench.deliverer.deliver(devices.map { bench.push("n", to: $0) })
  }

  private static func outcomes(
    _ devices: some Sequence<DeliveryBench.Device>, _ bench: DeliveryBench
  ) async throws -> Set<DeliveryResult> {
    Set(try await say(devices, bench))
  }

  private static func heldCount(_ bench: DeliveryBench) async throws -> Int64 {
    try await bench.number("SELECT COUNT(*) FROM registrations WHERE dead_since IS NOT NULL")
  }

  @Test func `One that the provider calls dead again an hour later ends, and not before`() async throws {
    try await Self.test { bench, devices async throws in
      bench.advance(3500)
      #expect(try await Self.outcomes(devices.prefix(40), bench) == [.refused(Self.reason)])
      #expect(try await Self.heldCount(bench) == 80)
      bench.advance(200)
      #expect(try await Self.outcomes(devices, bench) == [.ended(Self.reason)])
      #expect(try await bench.recorder.living(devices.map(\.registration.id)).isEmpty)
      #expect(try await Self.heldCount(bench) == 0)
    }
  }

  /// Successes are written seconds after they happened.
  @Test func `A success from before, written late, does not speak for one that is held`() async throws {
    try await Self.test { bench, devices async throws in
      for device in devices { bench.tried(.delivered, device) }
      try await bench.history.flush()
      #expect(
        try await bench.number("SELECT COUNT(*) FROM registrations WHERE delivered_at IS NOT NULL") == 80)
      #expect(try await Self.heldCount(bench) == 80)
      bench.advance(3700)
      #expect(try await Self.outcomes(devices, bench) == [.ended(Self.reason)])
    }
  }

  @Test func `A clock that is doubted makes no hour`() async throws {
    try await Self.test { bench, devices async throws in
      bench.clock.isTrusted = false
      bench.advance(3700)
      #expect(try await Self.outcomes(devices, bench) == [.refused(Self.reason)])
      #expect(try await Self.heldCount(bench) == 80)
      #expect(try await bench.recorder.living(devices.map(\.registration.id)).count == 80)
      bench.clock.isTrusted = true
      #expect(try await Self.outcomes(devices, bench) == [.ended(Self.reason)])
    }
  }

  @Test func `Single dead tokens among held ones are no more believed than many, before the hour is over`()
    async throws
  {
    try await Self.test { bench, devices async throws in
      // The burst is over.
      bench.advance(1200)
      #expect(try await Self.say([devices[0]], bench) == [.refused(Self.reason)])
      #expect(try await bench.lives(devices[0]))
      let other = try await bench.devices(.fcm)[0]
      Self.setDead(true, [other], bench)
      #expect(try await Self.say([other], bench) == [.ended(Self.reason)])
      bench.advance(2500)
      #expect(try await Self.say([devices[0]], bench) == [.ended(Self.reason)])
      #expect(try await Self.heldCount(bench) == 79)
    }
  }

  @Test func `One that is registered again meanwhile stays, and what was held against it is forgotten`()
    async throws
  {
    try await Self.test { bench, devices async throws in
      bench.advance(3700)
      try await bench.register(PushToken(devices[0].token, kind: .fcm))
      // A notification that was made before: it says nothing about the registration that there is now.
      #expect(try await Self.say(devices, bench).first == .refused(Self.reason))
      #expect(try await bench.recorder.living(devices.map(\.registration.id)) == [devices[0].registration.id])
      #expect(try await Self.heldCount(bench) == 0)
      #expect(try await bench.lives(devices[0]))
    }
  }

  @Test
  func
    `The operator's word ends all of a route, but for what was registered again or has shown that it lives`()
    async throws
  {
    try await Self.test { bench, devices async throws in
      try await bench.register(PushToken(devices[0].token, kind: .fcm))
      Self.setDead(false, devices[1...2], bench)
      #expect(try await Self.outcomes(devices[1...2], bench) == [.delivered])
      #expect(try await Self.heldCount(bench) == 77)
      let route = try #require(try await bench.recorder.held().first)
      #expect(route.credential == "default")
      #expect(route.count == 77)
      #expect(try await bench.recorder.endHeld(on: route.routeID) == 77)
      #expect(
        try await bench.recorder.living(devices.map(\.registration.id))
          == Set(devices[...2].map(\.registration.id))
      )
      #expect(try await Self.heldCount(bench) == 0)
      #expect(try await bench.recorder.endHeld(on: route.routeID) == 0)
    }
  }

  @Test func `All that share the database know what is held, also after a restart`() async throws {
    try await Self.test { bench, devices async throws in
      let other = bench.anotherDeliverer()
      #expect(other.routeStates()[bench.fcmRoute] == .unknown || other.routeStates()[bench.fcmRoute] == .ok)
      let following = Task { await other.followHeldDeletions() }
      await eventually { other.doubts().first?.held == 80 }
      following.cancel()
      #expect(other.doubts().map(\.wire) == [.e2ee])
      Self.expectFailing(other, bench)
      // What the other one hears an hour later ends them as well.
      bench.advance(3700)
      let results = try await other.deliver(devices.map { bench.push("n", to: $0) })
      #expect(Set(results) == [.ended(Self.reason)])
      #expect(try await Self.heldCount(bench) == 0)
      try await eventually {
        try await bench.deliverer.heldDeletions.recount()
        return bench.deliverer.doubts().isEmpty
      }
      #expect(bench.state(bench.fcmRoute) == .ok)
      // Nothing is looked up for what is known to hold nothing.
      #expect(!bench.deliverer.heldDeletions.mayHold)
    }
  }

  @Test func `What is held against registrations that are gone, and what was said long ago, is forgotten`()
    async throws
  {
    try await Self.test { bench, devices async throws in
      // A bad answer about a row that is not there is not kept at all.
      let gone = RegistrationStore.Failure(
        .init(.nextcloud, id: 77, registeredAt: bench.clock.now), reason: "UNREGISTERED")
      let route = try #require(try await bench.recorder.held().first).routeID
      #expect(try await bench.recorder.hold([(gone, route)]).held.isEmpty)
      #expect(try await bench.recorder.forgetHeld() == 0)
      _ = try await bench.database.execute(
        .init("DELETE FROM registrations WHERE id = $1", .integer(devices[0].registration.id)))
      try await bench.register(PushToken(devices[1].token, kind: .fcm))
      #expect(try await Self.heldCount(bench) == 78)
      bench.advance(7.1 * 86_400)
      // So many at a time.
      #expect(try await bench.recorder.forgetHeld(limit: 30) == 30)
      #expect(try await bench.recorder.forgetHeld() == 48)
      #expect(try await Self.heldCount(bench) == 0)
      #expect(try await bench.recorder.living(devices.map(\.registration.id)).count == 79)
    }
  }
}
