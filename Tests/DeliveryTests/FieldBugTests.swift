import Foundation
import NIOCore
import ProviderSimulator
import Providers
import Registrations
import Sealing
import TestSupport
import Testing

@testable import Delivery

/// Bugs of other push gateways, each brought about here. What has no place in this room is tested in its
/// own: a metric that is never shown (ServeTests), a caller's address that the caller names
/// (EndpointTests), a configuration that lies about (ConfigurationTests).
@Suite struct FieldBugTests {
  enum Trouble: String, CaseIterable {
    case outage, unavailable, webPage, tooMany, emptyNotFound, forbidden, oauthDown
  }

  /// hedwig, chatmail, gematik, ntfy and autopush each delete tokens in one of these.
  @Test(arguments: Trouble.allCases) func `Trouble with the provider deletes no token`(trouble: Trouble)
    async throws
  {
    try await DeliveryBench.test { bench in
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
      #expect(try await bench.recorder.living(devices.map(\.registration)).count == devices.count)
    }
  }

  /// Sygnal answers 200 with nothing rejected once its retries are used up; Zulip's FCM batch counts
  /// nothing and drops the message.
  @Test func `An outage is not told as success, and what was promised arrives`() async throws {
    try await DeliveryBench.test { bench in
      let devices = try await bench.devices(.apns) + bench.devices(.fcm)
      await bench.faults {
        $0.apns.status = 500
        $0.fcm.status = 500
      }
      let pushes = devices.map { bench.push($0.token, to: $0) }
      #expect(try await bench.deliverer.deliver(pushes) == [.queued, .queued])
      #expect(bench.accepted().isEmpty)
      await bench.faults { _ in }
      bench.advance(20)
      try await bench.drained()
      #expect(bench.accepted().mapValues(\.count) == [devices[0].token: 1, devices[1].token: 1])
    }
  }

  /// aioapns and APNSwift wait for ever.
  @Test(arguments: PushToken.Kind.allCases)
  func `A provider that never answers is waited for until the deadline`(
    kind: PushToken.Kind
  ) async throws {
    try await DeliveryBench.test(deadline: .seconds(1)) { bench in
      let device = try await bench.devices(kind)[0]
      await bench.faults {
        $0.apns.neverAnswerEvery = 1
        $0.fcm.neverAnswerEvery = 1
      }
      let began = ContinuousClock.now
      #expect(try await bench.deliver("n", to: device) == .queued)
      #expect(.now - began < .seconds(20))
      await bench.faults { _ in }
      try await bench.drained()
      #expect(bench.accepted()["n"] != nil)
    }
  }

  /// APNSwift throws a decoding error and loses the status; aioapns fails on a body in two frames.
  @Test(arguments: [400, 403, 404, 410, 413, 500]) func `An error whose body is a web page is an outage`(
    status: Int
  ) async throws {
    try await DeliveryBench.test(deadline: .seconds(1)) { bench in
      let devices = try await bench.devices(.apns) + bench.devices(.fcm)
      await bench.faults {
        $0.apns.status = status
        $0.apns.html = true
        $0.fcm = $0.apns
      }
      let pushes = devices.map { bench.push($0.token, to: $0) }
      #expect(try await bench.deliverer.deliver(pushes) == [.queued, .queued])
      await bench.faults { _ in }
      bench.advance(20)
      try await bench.drained()
      #expect(bench.accepted().count == 2)
      for device in devices { #expect(try await bench.lives(device)) }
    }
  }

  /// aioapns makes a provider token for each connection, until APNs has had too many.
  @Test func `New connections do not mean new tokens`() async throws {
    try await DeliveryBench.test(deadline: .seconds(20)) { bench in
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
  }

  /// aioapns and pushy fail what is under way when a connection says goodbye.
  @Test func `A GOAWAY fails nothing that is under way`() async throws {
    try await DeliveryBench.test(deadline: .seconds(20)) { bench in
      let device = try await bench.devices(.apns)[0]
      await bench.faults { $0.apns.goAwayEvery = 50 }
      let pushes = (0..<400).map { bench.push("\($0)", to: device) }
      #expect(try await Set(bench.deliverer.deliver(pushes)) == [.delivered])
      #expect(bench.accepted().count == 400)
      #expect(bench.accepted().values.allSatisfy { $0.count == 1 })
    }
  }

  /// One expired certificate stopped Sygnal for all apps.
  @Test func `A key that is no good stops only its own topics`() async throws {
    try await DeliveryBench.test { bench in
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
  }

  /// mattermost and ntfy cut payloads in the middle of a character.
  @Test func `A payload arrives byte for byte or not at all`() async throws {
    try await DeliveryBench.test { bench in
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

  /// Sygnal fails on a Retry-After that is a date.
  @Test(arguments: ["Wed, 21 Oct 2099 07:28:00 GMT", "Wednesday, 21-Oct-99 07:28:00 GMT", "soon", "-1"])
  func `Whatever Retry-After says, the notification is kept`(header: String) async throws {
    try await DeliveryBench.test(deadline: .seconds(1)) { bench in
      let devices = try await bench.devices(.apns) + bench.devices(.fcm)
      await bench.faults {
        $0.apns.status = 429
        $0.apns.retryAfter = header
        $0.fcm = $0.apns
      }
      let pushes = devices.map { bench.push($0.token, to: $0) }
      #expect(try await bench.deliverer.deliver(pushes) == [.queued, .queued])
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 2)
      // A time far ahead is not believed: it would outlast the notification.
      let latest = try await bench.number("SELECT MAX(due_at) FROM outbox")
      #expect(Double(latest) / 1000 <= bench.clock.now.timeIntervalSince1970 + 2 * 3600)
    }
  }
}
