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

/// Tests apps of which some phones have tokens of Apple's production, from the store, and some of the sandbox, from
/// Xcode: a credential for each lists the app.
@Suite(.serialized) struct EnvironmentTests {
  private var bench: DeliveryBench { Fixture.current }

  /// Makes tokens of the sandbox: production does not know them.
  private func phones(
    _ count: Int = 1, reason: String = "BadDeviceToken",
    environments: [APNsCredential.Environment] = [.sandbox, .production]
  ) async throws -> [DeliveryBench.Device] {
    bench.providers.use(try bench.credentials(environments: environments))
    let phones = try await bench.devices(.apns, count)
    for phone in phones {
      let status = reason == "BadDeviceToken" ? 400 : 403
      bench.simulator.setToken(
        phone.token, TokenRule(status: status, reason: reason, environment: .production))
    }
    return phones
  }

  /// The environments that were asked, in order.
  private func asked() -> [APNsCredential.Environment?] {
    bench.simulator.deliveries(includingRefused: true).map(\.environment)
  }

  /// The device with what is known of it now.
  private func found(_ device: DeliveryBench.Device) async throws -> Registration? {
    try await bench.registrations.lookup(
      realm: bench.realm, tokenIDs: [PushToken(device.token, kind: .apns).id]
    ).found.values.first
  }

  /// A notification as a wire makes it, for the environment that is known.
  private func push(_ name: String, to device: DeliveryBench.Device) async throws -> RegisteredPush {
    var push = bench.push(name, to: device)
    push.push.environment = try await found(device)?.environment
    return push
  }

  @Test(.bench(), arguments: ["BadDeviceToken", "BadEnvironmentKeyIdInToken"])
  func `A token of the sandbox is found out once, and goes there at once from then on`(reason: String)
    async throws
  {
    let phone = try await phones(reason: reason)[0]
    let store = try await bench.devices(.apns)[0]
    #expect(try await bench.deliver("first", to: store) == .delivered)
    #expect(asked() == [.production])
    #expect(try await bench.deliverer.deliver([push("first", to: phone)]) == [.delivered])
    #expect(asked() == [.production, .production, .sandbox])
    #expect(try await found(phone)?.environment == .sandbox)
    #expect(try await found(store)?.environment == nil)
    #expect(try await bench.deliverer.deliver([push("second", to: phone)]) == [.delivered])
    #expect(asked() == [.production, .production, .sandbox, .sandbox])
    // Nobody is to blame.
    #expect(bench.state(bench.apnsRoute) == .ok && bench.state(bench.sandboxRoute) == .ok)
    #expect(bench.deliverer.doubts().isEmpty)
    let shown = try await DeviceSearch(
      database: bench.database, storageKey: bench.registrations.storageKey
    ).find(.registration(wire: 1, id: phone.registration.id)).devices
    #expect(shown.map(\.environment) == [.sandbox] && shown.map(\.failure) == [nil])
  }

  @Test(.bench()) func `Many phones of the sandbox put production in no doubt`() async throws {
    let phones = try await phones(60)
    let results = try await bench.deliverer.deliver(phones.map { bench.push("n", to: $0) })
    #expect(Set(results) == [.delivered])
    #expect(bench.deliverer.doubts().isEmpty)
    #expect(bench.state(bench.apnsRoute) == .ok)
  }

  @Test(.bench()) func `Only what both do not know ends`() async throws {
    let phone = try await phones()[0]
    let store = try await bench.devices(.apns)[0]
    #expect(try await bench.deliver("n", to: store) == .delivered)
    bench.simulator.setToken(
      phone.token, TokenRule(status: 503, reason: "ServiceUnavailable", environment: .sandbox))
    #expect(try await bench.deliver("waits", to: phone) == .queued)
    #expect(try await bench.lives(phone))
    // It waits where it is asked for first.
    #expect(bench.outbox.count(for: bench.apnsRoute) == 1)
    bench.simulator.setToken(
      phone.token, TokenRule(status: 400, reason: "BadDeviceToken", environment: .sandbox))
    #expect(try await bench.deliver("n", to: phone) == .ended(.badDeviceToken))
    #expect(try await !bench.lives(phone))
    // That the sandbox has not worked yet says nothing.
    #expect(bench.deliverer.doubts().isEmpty)
  }

  @Test(.bench(), arguments: APNsCredential.Environment.allCases)
  func `A token that a key could not ask about is not judged, and the key is to blame`(
    environment: APNsCredential.Environment
  ) async throws {
    let isProduction = environment == .production
    let phone = try await phones(reason: isProduction ? "BadEnvironmentKeyIdInToken" : "BadDeviceToken")[0]
    bench.simulator.setToken(
      phone.token,
      TokenRule(
        status: isProduction ? 400 : 403,
        reason: isProduction ? "BadDeviceToken" : "BadEnvironmentKeyIdInToken", environment: .sandbox))
    let store = try await bench.devices(.apns)[0]
    #expect(try await bench.deliver("n", to: store) == .delivered)
    for _ in 0..<2 {
      #expect(try await bench.deliver("n", to: phone) == .queued)
      bench.advance(60)
    }
    #expect(try await bench.lives(phone))
    let route = isProduction ? bench.apnsRoute : bench.sandboxRoute
    switch bench.state(route) {
    case .failing(let reason, _), .open(let reason, _): #expect(reason == .badEnvironmentKeyIDInToken)
    case let state: Issue.record("\(route) is \(String(describing: state))")
    }
    #expect(try await Set(bench.outbox.reasons()) == ["BadEnvironmentKeyIdInToken"])
  }

  @Test(.bench(deadline: .milliseconds(300), answerTimeout: .seconds(20)))
  func `An answer that comes late is followed up, too`() async throws {
    let phone = try await phones()[0]
    #expect(try await bench.deliverPatiently("connects", to: phone) == .delivered)
    bench.simulator.setToken(
      phone.token,
      TokenRule(status: 400, reason: "BadDeviceToken", delayMilliseconds: 1500, environment: .production))
    #expect(try await bench.deliver("n", to: phone) == .queued)
    try await bench.drained()
    #expect(bench.accepted()["n"]?.count == 1)
  }

  @Test(.bench(deadline: .milliseconds(300), answerTimeout: .seconds(20)))
  func `Each is asked once, also if the second answer comes late`() async throws {
    let phone = try await phones()[0]
    let store = try await bench.devices(.apns)[0]
    #expect(try await bench.deliverPatiently("connects", to: store) == .delivered)
    bench.simulator.setToken(
      phone.token,
      TokenRule(status: 400, reason: "BadDeviceToken", delayMilliseconds: 1500, environment: .sandbox))
    #expect(try await bench.deliver("n", to: phone) == .queued)
    await bench.deliverer.settled()
    #expect(asked() == [.production, .production, .sandbox])
    #expect(try await !bench.lives(phone))
  }

  @Test(.bench(deadline: .milliseconds(300), answerTimeout: .seconds(5), isSending: false))
  func `No other node takes it over while the second answer may still come`() async throws {
    let phone = try await phones()[0]
    #expect(try await bench.deliverPatiently("connects", to: phone) == .delivered)
    bench.simulator.setToken(
      phone.token,
      TokenRule(status: 400, reason: "BadDeviceToken", delayMilliseconds: 1500, environment: .production))
    bench.simulator.setToken(
      phone.token, TokenRule(status: 200, delayMilliseconds: 600_000, times: 1, environment: .sandbox))
    #expect(try await bench.deliver("n", to: phone) == .queued)
    let end = try await bench.number("SELECT due_at FROM outbox")
    bench.advance(10)
    try await eventually { try await bench.number("SELECT due_at FROM outbox") >= end + 10_000 }
  }

  @Test(.bench(deadline: .milliseconds(300), answerTimeout: .seconds(5), isSending: false))
  func `What a crash interrupts between the two is sent again, with the same id`() async throws {
    let phone = try await phones()[0]
    #expect(try await bench.deliverPatiently("connects", to: phone) == .delivered)
    // Its answer never comes.
    bench.simulator.setToken(
      phone.token, TokenRule(status: 200, delayMilliseconds: 600_000, times: 1, environment: .sandbox))
    #expect(try await bench.deliver("n", to: phone) == .queued)
    #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 1)
    bench.advance(90)
    try await bench.sending { try await bench.drained() }
    let ids = bench.accepted()["n"] ?? []
    #expect(ids.count == 2 && Set(ids).count == 1)
  }

  @Test(.bench(isSending: false)) func `What waits learns where its token is`() async throws {
    let phone = try await phones()[0]
    await bench.faults { $0.apns.status = 503 }
    #expect(try await bench.deliver("waits", to: phone) == .queued)
    await bench.faults { _ in }
    try await bench.registrations.recordEnvironments([phone.registration: .sandbox])
    let before = asked().count
    bench.advance(1000)
    try await bench.sending { try await bench.drained() }
    #expect(asked().dropFirst(before) == [.sandbox])
  }

  @Test(.bench()) func `A token of an environment whose key is gone waits, and the other one is not asked`()
    async throws
  {
    let phone = try await phones()[0]
    #expect(try await bench.deliver("n", to: phone) == .delivered)
    try await bench.history.flush()
    bench.providers.use(try bench.credentials())
    let before = asked().count
    #expect(try await bench.deliverer.deliver([push("waits", to: phone)]) == [.queued])
    #expect(try await bench.outbox.reasons() == ["unconfigured"])
    #expect(asked().count == before)
    try await bench.outbox.recount()
    let report = try #require(bench.deliverer.unserved().first)
    #expect(
      report.sentence
        == "1 notification for org.example.chat in Apple's sandbox came in the last hour, and 1 waits; no key of that environment in Keys/apns lists it, only one of the other"
    )
    #expect(report.advice.contains("whose environment is sandbox") && report.isFault)
    let warnings = bench.log.lines.filter { $0.metadata["target"] == "apns org.example.chat (sandbox)" }
    #expect(warnings.map(\.level) == [.warning])
    // After a restart it is said again, of what still waits.
    let restarted = bench.anotherDeliverer()
    #expect(restarted.unserved().isEmpty)
    restarted.reportUnserved(try await push("waits", to: phone), count: 0)
    #expect(restarted.unserved().map(\.waiting) == [1])
    bench.providers.use(try bench.credentials(environments: [.production, .sandbox]))
    bench.advance(60)
    try await bench.drained()
    #expect(bench.accepted()["waits"]?.count == 1)
    #expect(bench.deliverer.unserved().isEmpty)
  }

  @Test(.bench()) func `Old apps' tokens are found out alike`() async throws {
    bench.providers.use(try bench.credentials(environments: [.production, .sandbox]))
    let token = try PushToken(String(repeating: "c3", count: 32), kind: .apns)
    bench.simulator.setToken(
      token.text, TokenRule(status: 400, reason: "BadDeviceToken", environment: .production))
    let user = try #require(LegacyUser(id: 7, uuid: nil))
    let server = try await bench.number("SELECT id FROM remote_servers")
    try await bench.registrations.register(
      token, iosAppID: DeliveryBench.topic, for: user, server: server, realm: nil)
    func registration() async throws -> Registration {
      try #require(
        try await bench.registrations.recipients(of: user, server: server, realm: nil).registrations.first)
    }
    let reference = try await registration().reference
    let device = DeliveryBench.Device(kind: .apns, token: token.text, registration: reference)
    #expect(try await bench.deliver("n", to: device) == .delivered)
    #expect(try await registration().environment == .sandbox)
    #expect(try await bench.registrations.find(token, of: user, server: server)?.environment == .sandbox)
  }
}

extension Outbox {
  /// Why entries wait.
  fileprivate func reasons() async throws -> [String?] {
    try await database.query("SELECT reason FROM outbox").map { try $0.optionalText("reason") }
  }
}
