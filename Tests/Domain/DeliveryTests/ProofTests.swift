import Foundation
import ProviderSimulator
import Registrations
import Sealing
import TestSupport
import Testing

@testable import Delivery
@testable import Providers

/// Tests what an answer affects: the kind of registration that it was for, and the credential that was used.
@Suite struct ProofTests {
  private var bench: DeliveryBench { Fixture.current }

  /// A push to a device that anybody may have registered.
  private static func stranger(_ number: Int64, _ token: String) -> Outgoing {
    Outgoing(
      push: .fcm(FCMMessage(token: token, data: ["name": "stranger"])),
      registration: .init(.nextcloud, id: number, registeredAt: Date(timeIntervalSince1970: 1_789_000_000)),
      owner: .address(1))
  }

  @Test(.bench()) func `Bad tokens of strangers keep no dead registration of others alive`() async throws {
    let (good, dead) = (try await bench.devices(.fcm)[0], try await bench.devices(.fcm)[0])
    for token in [dead.token, "stranger"] { bench.simulator.setToken(token, TokenRule(status: 403)) }
    #expect(try await bench.deliver("n", to: good) == .delivered)
    for number in 0..<60 {
      let results = try await bench.deliverer.deliver([Self.stranger(Int64(number), "stranger")])
      #expect(results == [.refused(.fcmSenderIDMismatch)])
    }
    #expect(bench.state(bench.fcmRoute) == .ok)
    #expect(bench.deliverer.doubts().map(\.wire) == [.nextcloud])
    #expect(try await bench.deliver("n", to: dead) == .ended(.fcmSenderIDMismatch))
  }

  @Test(.bench()) func `Good tokens of strangers do not make the bad ones of others believed`() async throws {
    let dead = try await bench.devices(.fcm)[0]
    bench.simulator.setToken(dead.token, TokenRule(status: 403))
    for number in 0..<60 {
      let results = try await bench.deliverer.deliver([Self.stranger(Int64(number), "stranger")])
      #expect(results == [.delivered])
    }
    #expect(try await bench.deliver("n", to: dead) == .refused(.fcmSenderIDMismatch))
    #expect(try await bench.lives(dead))
    guard case .failing(.fcmSenderIDMismatch, since: _) = bench.state(bench.fcmRoute) else {
      Issue.record("the route is \(String(describing: bench.state(bench.fcmRoute)))")
      return
    }
  }

  @Test func `An answer that an old credential asked for proves nothing for the new one`() async throws {
    try await DeliveryBench.test(deadline: .seconds(30), answerTimeout: .seconds(60), isSending: false) {
      bench in
      let (good, bad) = (try await bench.devices(.apns)[0], try await bench.devices(.apns)[0])
      bench.simulator.setToken(bad.token, TokenRule(status: 400))
      #expect(try await bench.deliver("before", to: good) == .delivered)
      await bench.faults { $0.apns.latencyMilliseconds = 5000 }
      let late = try await bench.deliverer.deliver([bench.push("late", to: good)], within: .seconds(2))
      #expect(late == [.queued])
      #expect(bench.deliverer.lateAnswerCount == 1)
      // The same key for Apple's other environment is another credential, and here as good.
      var credentials = try bench.credentials()
      credentials.apns[0].environment = .sandbox
      bench.providers.use(credentials)
      await bench.faults { _ in }
      await bench.deliverer.settled()
      #expect(bench.accepted()["late"]?.count == 1)
      #expect(try await bench.deliver("n", to: bad) == .refused(.badDeviceToken))
      #expect(try await bench.lives(bad))
      // What the new one delivers itself is proof.
      for _ in 0..<2 { #expect(try await bench.deliver("n", to: good) == .delivered) }
      #expect(try await bench.deliver("n", to: bad) == .ended(.badDeviceToken))
    }
  }
}
