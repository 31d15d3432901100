import Foundation
import ProviderSimulator
import Providers
import Registrations
import Sealing
import TestSupport
import Testing

@testable import Delivery

/// Tests the outcome of each answer for a notification and its registration.
@Suite struct OutcomeTests {
  private var bench: DeliveryBench { Fixture.current }

  @Test(.bench()) func `What a provider accepts is delivered, once and in the order asked for`() async throws
  {
    let devices = try await bench.devices(.apns, 3) + bench.devices(.fcm, 3)
    let results = try await bench.deliverer.deliver(
      devices.enumerated().map { bench.push("\($0)", to: $1) })
    #expect(results == [DeliveryResult](repeating: .delivered, count: 6))
    #expect(bench.accepted().mapValues(\.count) == ["0": 1, "1": 1, "2": 1, "3": 1, "4": 1, "5": 1])
    #expect(bench.outbox.count == 0)
    #expect(bench.state(bench.apnsRoute) == .ok)
    #expect(bench.state(bench.fcmRoute) == .ok)
  }

  @Test(.bench()) func `A dead token ends its registration, and no other`() async throws {
    for kind in PushToken.Kind.allCases {
      let devices = try await bench.devices(kind, 2)
      bench.simulator.setToken(devices[0].token, TokenRule(status: kind == .apns ? 410 : 404))
      let reason: Reason = kind == .apns ? .unregistered : .fcmUnregistered
      let results = try await bench.deliverer.deliver(devices.map { bench.push("n", to: $0) })
      #expect(results == [.ended(reason), .delivered])
      #expect(try await !bench.lives(devices[0]))
      #expect(try await bench.lives(devices[1]))
    }
  }

  @Test(.bench())
  func `A token that is still called dead an hour after it was registered ends, by a trusted clock`()
    async throws
  {
    let device = try await bench.devices(.apns)[0]
    let registered = Int((device.registration.registeredAt.timeIntervalSince1970 * 1000).rounded())
    // It died while it was brought here.
    bench.simulator.setToken(device.token, TokenRule(status: 410, timestamp: .at(registered - 5000)))
    bench.advance(3599)
    #expect(try await bench.deliver("n", to: device) == .refused(.unregistered))
    bench.advance(2)
    bench.clock.isTrusted = false
    #expect(try await bench.deliver("n", to: device) == .refused(.unregistered))
    #expect(try await bench.lives(device))
    bench.clock.isTrusted = true
    #expect(try await bench.deliver("n", to: device) == .ended(.unregistered))
    #expect(try await !bench.lives(device))
  }

  @Test(.bench()) func `A token that was registered again while its notification was under way stays`()
    async throws
  {
    let device = try await bench.devices(.apns)[0]
    bench.advance(1)
    try await bench.register(PushToken(device.token, kind: .apns))
    bench.simulator.setToken(device.token, TokenRule(status: 410, timestamp: .none))
    #expect(try await bench.deliver("n", to: device) == .refused(.unregistered))
    #expect(try await bench.lives(device))
  }

  @Test(.bench()) func `An access or provider token that has run out is replaced, and the notification goes`()
    async throws
  {
    let devices = try await bench.devices(.apns) + bench.devices(.fcm)
    for device in devices { #expect(try await bench.deliver("before", to: device) == .delivered) }
    // For the provider they are too old by now, for us half as old as we let them get.
    bench.simulatorClock.advance(61 * 60)
    bench.clock.advance(30 * 60)
    for device in devices { #expect(try await bench.deliver("after", to: device) == .delivered) }
    #expect(bench.accepted()["after"]?.count == 2)
    #expect(bench.simulator.counts.jwts == 2)
    #expect(bench.simulator.counts.oauthTokens == 2)
  }

  @Test(.bench()) func `What no credential serves is told so`() async throws {
    let device = try await bench.devices(.apns)[0]
    let push = bench.push("n", to: device, topic: "org.example.unknown")
    #expect(try await bench.deliverer.deliver([push]) == [.refused(.unconfigured)])
    #expect(try await bench.lives(device))
  }

  // MARK: Bugs of other push gateways

  enum Trouble: String, CaseIterable {
    case outage, unavailable, webPage, tooMany, emptyNotFound, forbidden, oauthDown
  }

  /// hedwig, chatmail, gematik, ntfy and autopush each delete tokens in one of these.
  @Test(.bench(), arguments: Trouble.allCases) func `Trouble with the provider deletes no token`(
    trouble: Trouble
  )
    async throws
  {
    let devices = try await bench.devices(.apns, 30) + bench.devices(.fcm, 30)
    await bench.faults {
      switch trouble {
      case .outage: $0.apns.outage = true
      case .unavailable: $0.apns.status = 503
      case .webPage: $0.apns.html = true
      case .tooMany: $0.apns.status = 429
      case .emptyNotFound: (($0.apns.status, $0.apns.reason), $0.apns.html) = ((404, "BadPath"), true)
      case .forbidden: $0.apns.status = 403
      case .oauthDown: $0.oauthStatus = 500
      }
      $0.fcm = $0.apns
    }
    for round in 0..<3 {
      let pushes = devices.enumerated().map { bench.push("\(round).\($0)", to: $1) }
      for result in try await bench.deliverer.deliver(pushes) {
        if case .ended = result { Issue.record("a registration ended") }
      }
    }
    #expect(try await bench.recorder.living(devices.map(\.registration.id)).count == devices.count)
  }

  /// aioapns makes a provider token for each connection, until APNs refuses them as too many.
  @Test(.bench(deadline: .seconds(20))) func `New connections do not mean new tokens`() async throws {
    let devices = try await bench.devices(.apns) + bench.devices(.fcm)
    await bench.faults {
      $0.apns.goAwayEvery = 3
      $0.fcm.goAwayEvery = 3
    }
    for index in 0..<60 {
      #expect(try await bench.deliver("\(index)", to: devices[index % 2]) == .delivered)
    }
    let counts = bench.simulator.counts
    #expect(counts.connections >= 20)
    #expect((counts.jwts, counts.oauthTokens) == (1, 1))
  }

  /// One expired certificate stopped Sygnal for all apps.
  @Test(.bench()) func `A key that is no good stops only its own topics`() async throws {
    let good = try bench.credentials()
    var bad = try bench.credentials(keyID: "ZZZZZZZZZZ", topics: ["org.example.other"])
    bad.apns[0].name = "other"
    bench.providers.use(Credentials(apns: bad.apns + good.apns, fcm: good.fcm))
    let device = try await bench.devices(.apns)[0]
    for index in 0..<10 {
      let pushes = [
        bench.push("bad", to: device, topic: "org.example.other"), bench.push("\(index)", to: device),
      ]
      #expect(try await bench.deliverer.deliver(pushes) == [.queued, .delivered])
    }
    #expect(bench.state(bench.apnsRoute) == .ok)
  }

  /// mattermost and ntfy cut payloads in the middle of a character.
  @Test(.bench()) func `A payload arrives byte for byte or not at all`() async throws {
    let device = try await bench.devices(.apns)[0]
    func push(bytes: Int) -> Outgoing {
      let frame = #"{"aps":{"alert":"a"},"name":""}"#.utf8.count
      let name =
        String(repeating: "é", count: (bytes - frame) / 2) + ((bytes - frame).isMultiple(of: 2) ? "" : "x")
      return bench.push(name, to: device)
    }
    #expect(try await bench.deliverer.deliver([push(bytes: 4096)]) == [.delivered])
    #expect(bench.simulator.deliveries().map(\.payload.count) == [4096])
    #expect(try await bench.deliverer.deliver([push(bytes: 4097)]) == [.refused(.payloadTooLarge)])
    #expect(bench.simulator.deliveries().count == 1)
    #expect(try await bench.lives(device))
  }
}
