import Foundation
import ProviderSimulator
import Providers
import Registrations
import Sealing
import TestSupport
import Testing

@testable import Delivery
@testable import SQL

/// Tests that a Firebase installation id that an app was given too early loses nothing.
@Suite struct InstallationIDTests {
  private var bench: DeliveryBench { Fixture.current }

  /// Phones with installation ids that FCM does not know.
  private static func unknown(
    on bench: DeliveryBench, _ count: Int = 1, times: Int? = nil
  ) async throws -> [DeliveryBench.Device] {
    let tokens = try (0..<count).map {
      try PushToken("cR7dQw4w9WgXcQ-_AbC" + String(format: "%03d", $0), kind: .fcm)
    }
    for token in tokens {
      try await bench.register(token)
      bench.simulator.setToken(token.text, TokenRule(status: 404, times: times))
    }
    let found = try await bench.registrations.lookup(realm: bench.realm, tokenIDs: tokens.map(\.id))
      .found.values.sorted { $0.reference.id < $1.reference.id }
    return found.map { .init(kind: .fcm, token: $0.token.text, registration: $0.reference) }
  }

  private func found(_ device: DeliveryBench.Device) async throws -> FoundDevice {
    let search = DeviceSearch(
      database: bench.database, storageKey: StorageKey(bytes: [UInt8](repeating: 7, count: 32)))
    return try #require(
      try await search.find(.registration(wire: 1, id: device.registration.id)).devices.first)
  }

  @Test(.bench(isSending: false))
  func `One that never got anything ends when it is called dead again an hour later, by a trusted clock`()
    async throws
  {
    let device = try await Self.unknown(on: bench)[0]
    #expect(try await bench.deliver("first", to: device) == .queued)
    let waiting = try await found(device)
    #expect(waiting.waitReason == "installationIDUnknown" && waiting.state == .failing)
    #expect(waiting.held?.reason == "installationIDUnknown" && waiting.isInstallationID == true)
    #expect(waiting.advice.contains(Reason.installationIDUnknown.explanation.meaning))
    bench.advance(3599)
    #expect(try await bench.deliver("second", to: device) == .queued)
    bench.advance(2)
    bench.clock.isTrusted = false
    #expect(try await bench.deliver("third", to: device) == .queued)
    #expect(try await bench.lives(device))
    bench.clock.isTrusted = true
    #expect(try await bench.deliver("fourth", to: device) == .ended(.fcmUnregistered))
    #expect(try await !bench.lives(device))
    #expect(bench.state(bench.fcmRoute) == .ok)
  }

  @Test(.bench()) func `What came before FCM knew it arrives once`() async throws {
    let device = try await Self.unknown(on: bench, times: 2)[0]
    // As nothing is held back, a success is not looked up for each delivery.
    try await bench.deliverer.heldDeletions.recount()
    #expect(try await bench.deliver("n", to: device) == .queued)
    bench.clock.stop()
    for _ in 0..<2 {
      bench.advance(400)
      // While it is being sent, it is due sooner.
      let next = Int((bench.clock.now.timeIntervalSince1970 + 60) * 1000)
      try await eventually {
        try await bench.number("SELECT COUNT(*) FROM outbox WHERE due_at < \(next)") == 0
      }
    }
    try await bench.drained()
    #expect(bench.accepted().mapValues(\.count) == ["n": 1])
    #expect(try await bench.lives(device))
    // What has taken something is believed to be dead as any other token is.
    try await bench.history.flush()
    let living = try await found(device)
    #expect(living.state == .working && living.held == nil)
    bench.simulator.setToken(device.token, TokenRule(status: 404))
    #expect(try await bench.deliver("later", to: device) == .ended(.fcmUnregistered))
  }

  @Test(.bench(isSending: false)) func `What FCM said a week ago counts for nothing`() async throws {
    let device = try await Self.unknown(on: bench)[0]
    #expect(try await bench.deliver("first", to: device) == .queued)
    bench.advance(8 * 86_400)
    #expect(try await bench.deliver("second", to: device) == .queued)
    bench.advance(3601)
    #expect(try await bench.deliver("third", to: device) == .ended(.fcmUnregistered))
  }

  @Test(.bench(isSending: false)) func `Many of them cast no doubt on tokens that are dead`() async throws {
    let (ids, known) = (try await Self.unknown(on: bench, 60), try await bench.devices(.fcm, 1))
    let results = try await bench.deliverer.deliver(ids.map { bench.push("n", to: $0) })
    #expect(Set(results) == [.queued])
    #expect(bench.state(bench.fcmRoute) != nil && bench.deliverer.doubts().isEmpty)
    bench.simulator.setToken(known[0].token, TokenRule(status: 404))
    #expect(try await bench.deliver("n", to: known[0]) == .ended(.fcmUnregistered))
  }

  @Test(.bench(answerTimeout: .seconds(60), isSending: false))
  func `One whose answer comes late waits, too`() async throws {
    let device = try await Self.unknown(on: bench)[0]
    bench.simulator.setToken(device.token, TokenRule(status: 404, delayMilliseconds: 3000))
    // Time enough to open the connection: what no connection has taken by then has no late answer.
    let results = try await bench.deliverer.deliver([bench.push("n", to: device)], within: .seconds(1))
    #expect(results == [.queued])
    await bench.deliverer.settled()
    #expect(try await bench.lives(device))
    #expect(
      try await bench.number("SELECT COUNT(*) FROM outbox WHERE reason = 'installationIDUnknown'") == 1)
  }

  @Test(.bench(isSending: false)) func `One registered again while it waits goes on waiting`() async throws {
    let device = try await Self.unknown(on: bench)[0]
    bench.advance(1)
    try await bench.register(PushToken(device.token, kind: .fcm))
    #expect(try await bench.deliver("n", to: device) == .queued)
  }
}
