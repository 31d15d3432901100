import Basics
import Foundation
import HTTPClient
import MetricsTestKit
import NIOCore
import TestServers
import TestSupport
import Testing

@testable import Providers

@Suite("Changing credentials while sending")
struct PushProvidersTests {
  static func answering() async throws -> TestServer {
    try await TestServer.start { [.answer(200, [("apns-id", $0["apns-topic"] ?? "")])] }
  }

  @Test func `Credentials that did not change keep their connection and their token`() async throws {
    let server = try await Self.answering()
    let clock = TestClock(Date())
    let providers = try APNsTests.providers(server, clock: clock)
    _ = await APNsTests.send(APNsTests.push(), providers)
    clock.advance(60)
    providers.use(Credentials(apns: [TestKeys.apnsCredential()]))
    _ = await APNsTests.send(APNsTests.push(), providers)
    #expect(server.connections == 1)
    // No connection serves a topic that was not there when it was opened; the token does.
    providers.use(
      Credentials(apns: [TestKeys.apnsCredential(topics: ["org.example.chat", "org.example.beta"])]))
    #expect(
      await APNsTests.send(APNsTests.push(topic: "org.example.beta"), providers)
        == .delivered)
    #expect(server.requests.last?["apns-topic"] == "org.example.beta")
    #expect(server.connections == 2)
    await eventually { server.openConnections == 1 }
    // A topic less is no reason to begin anew.
    providers.use(Credentials(apns: [TestKeys.apnsCredential()]))
    _ = await APNsTests.send(APNsTests.push(), providers)
    #expect(server.connections == 2)
    #expect(Set(server.requests.map { $0["authorization"] }).count == 1)
    #expect(server.requests.count == 4)
  }

  @Test func `A removed credential finishes what it began and then closes`() async throws {
    let server = try await TestServer.start { _ in
      [.after(.milliseconds(200), [.answer(200, [("apns-id", "x")])])]
    }
    let providers = try APNsTests.providers(server)
    async let last = APNsTests.send(APNsTests.push(), providers)
    await eventually { server.requests.count == 1 }
    providers.use(Credentials())
    #expect(await APNsTests.send(APNsTests.push(), providers) == .misconfigured(.unconfigured))
    #expect(await last == .delivered)
    await eventually { server.openConnections == 0 }
    #expect(providers.routeStates().isEmpty)
  }

  @Test func `A replaced key begins anew`() async throws {
    let server = try await Self.answering()
    let providers = try APNsTests.providers(server)
    _ = await APNsTests.send(APNsTests.push(), providers)
    providers.use(Credentials(apns: [TestKeys.apnsCredential(keyID: "NEWKEY1234")]))
    #expect(providers.routeStates().values.allSatisfy { $0 == .unknown })
    _ = await APNsTests.send(APNsTests.push(), providers)
    #expect(server.connections == 2)
    #expect(Set(server.requests.map { $0["authorization"] }).count == 2)
  }

  @Test func `What is answered to an old key teaches the new one nothing`() async throws {
    let server = try await TestServer.start { _ in
      [.after(.milliseconds(200), [.answer(403, [], #"{"reason":"InvalidProviderToken"}"#)])]
    }
    let providers = try APNsTests.providers(server)
    let push = APNsTests.push()
    let old = try #require(providers.routeSender(for: push))
    async let late = old.attempt(push, of: .nobody, deadline: .now() + .seconds(30))
    await eventually { server.requests.count == 1 }
    let credentials = Credentials(apns: [TestKeys.apnsCredential(keyID: "NEWKEY1234")])
    providers.use(credentials)
    let new = try #require(providers.routeSender(for: push))
    guard case .ended(let answer) = await late else {
      Issue.record("the old key was to be refused")
      return
    }
    #expect(answer.outcome == .misconfigured(.invalidProviderToken))
    guard case .open(.invalidProviderToken, since: _) = old.state else {
      Issue.record("\(old.state)")
      return
    }
    #expect(new.state == .unknown)

    func isBelieved(_ sender: RouteSender, _ group: Int64 = 1) -> Bool {
      sender.weigh(among: TokenGroup(group)) {
        $0.refused(of: .nobody, because: .badDeviceToken, now: Date())
      }
    }
    old.weigh(among: TokenGroup(1)) { $0.accepted(of: .nobody, now: Date()) }
    #expect(isBelieved(old))
    #expect(!isBelieved(old, 2))
    #expect(!isBelieved(new))
    #expect(old.doubt(of: TokenGroup(1)) == nil)
    #expect(new.doubt(of: TokenGroup(1))?.reason == .badDeviceToken)
    #expect(new.doubt(of: TokenGroup(2)) == nil)
    // What has not changed goes on as it was.
    providers.use(credentials)
    #expect(providers.routeSender(for: push)?.doubt(of: TokenGroup(1))?.reason == .badDeviceToken)
  }

  @Test func `A topic belongs to the first that lists it, also where another's VoIP topic has its name`()
    throws
  {
    let providers = try PushProviders(configuration: .init())
    providers.use(
      Credentials(apns: [
        TestKeys.apnsCredential("a", topics: ["org.example.chat"]),
        TestKeys.apnsCredential(
          "b", keyID: "BBBBBBBBBB", topics: ["org.example.chat", "org.example.chat.voip"]),
      ]))
    #expect(providers.routeSender(for: APNsTests.push())?.route.credential == "a")
    #expect(
      providers.routeSender(for: APNsTests.push(topic: "org.example.chat.voip"))?.route.credential == "b")
  }

  @Test func `A route's state follows its answers and its own only`() async throws {
    let server = try await TestServer.start { request in
      switch (request["apns-topic"], request.path) {
      case ("org.example.bad", _): [.answer(403, [], #"{"reason":"InvalidProviderToken"}"#)]
      case (_, "/3/device/dead"): [.answer(410, [], #"{"reason":"Unregistered"}"#)]
      default: [.answer(200)]
      }
    }
    let clock = TestClock(Date(timeIntervalSince1970: 1_800_000_000))
    let good = Route(provider: .apns, credential: "good", target: "org.example.chat")
    let bad = Route(provider: .apns, credential: "bad", target: "org.example.bad")
    let providers = try APNsTests.providers(
      server, clock: clock,
      credentials: Credentials(apns: [
        TestKeys.apnsCredential("good"), TestKeys.apnsCredential("bad", topics: ["org.example.bad"]),
      ]))
    #expect(providers.routeStates() == [good: .unknown, bad: .unknown])
    _ = await APNsTests.send(APNsTests.push("dead"), providers)
    for _ in 0..<2 {
      _ = await APNsTests.send(APNsTests.push(topic: "org.example.bad"), providers)
      clock.advance(10)
    }
    let since = Date(timeIntervalSince1970: 1_800_000_000)
    #expect(providers.routeStates() == [good: .ok, bad: .open(.invalidProviderToken, since: since)])
  }

  @Test func `A route that has lost its only answer is still unknown`() async throws {
    let server = try await TestServer.start { _ in [.drop] }
    let providers = try APNsTests.providers(
      server, clock: TestClock(Date()), credentials: Credentials(apns: [TestKeys.apnsCredential("a")]))
    guard case .retry(.connectionLost, _, _) = await APNsTests.send(APNsTests.push(), providers) else {
      Issue.record("the connection was to be lost")
      return
    }
    #expect(Array(providers.routeStates().values) == [.unknown])
  }

  @Test(arguments: [
    (PushProviders.Configuration(endpoints: [.apns: URL(string: "http://127.0.0.1:1")]), "apns.endpoint"),
    (.init(endpoints: [.fcm: URL(string: "ftp://127.0.0.1")]), "fcm.endpoint"),
    (.init(caFile: "/nonexistent/ca.pem"), "providers.ca_file"),
    (.init(proxy: URL(string: "https://proxy:1")), "providers.proxy"),
  ])
  func `A configuration that cannot work names its key`(
    configuration: PushProviders.Configuration, key: String
  ) throws {
    let error = try #require(throws: PushProviders.ConfigurationError.self) {
      _ = try PushProviders(configuration: configuration)
    }
    #expect(error.key == key)
  }

  @Test(arguments: Reason.allCases)
  func `A problem with signing in to Google is told of the host that one signs in to`(reason: Reason) throws {
    let providers = try PushProviders(
      configuration: .init(
        endpoints: [.apns: URL(string: "https://127.0.0.1:1"), .fcm: URL(string: "http://127.0.0.1:1")]))
    providers.use(
      Credentials(apns: [TestKeys.apnsCredential()], fcm: [try TestKeys.fcmCredential(tokenPort: 2)]))
    let isOfSignIn =
      reason == .tokenUnavailable || reason.rawValue.hasPrefix("signIn")
      || reason.rawValue.hasPrefix("invalid_") || reason == Reason("unauthorized_client")
    let hosts = providers.routeSenders.map { "\($0.route.provider) \($0.host(for: reason))" }
    #expect(Set(hosts) == ["apns 127.0.0.1:1", "fcm 127.0.0.1:\(isOfSignIn ? 2 : 1)"])
  }

  @Test func `What usually happens is counted from 0 on, by the names that answers give it`() throws {
    let test = TestMetrics()
    ProviderMetrics(factory: test).prepare(.apns)
    let counted = Set(test.counters.map { Set($0.dimensions.map { "\($0.0)=\($0.1)" }) })
    for (label, reasons) in Outcome.usual(.apns) {
      for reason in reasons where !reason.isOurs {
        #expect(counted.contains(["provider=apns", "outcome=\(label)", "reason=\(reason)"]))
        let outcomes = APNsOutcomeTests.rows.filter { $0.outcome.reason == reason }.map(\.outcome.label)
        #expect(outcomes.contains(label), "\(reason)")
      }
    }
  }

  @Test func `What is counted has bounded labels`() throws {
    let test = TestMetrics()
    let metrics = ProviderMetrics(factory: test)
    metrics.ended(.apns, .delivered, after: .milliseconds(5))
    metrics.ended(.apns, .suspect(.badDeviceToken), after: .milliseconds(5))
    metrics.ended(.apns, .suspect(.badDeviceToken), after: .milliseconds(5))
    metrics.unconfigured(.apns)
    metrics.minted(.fcm)
    metrics.connectionsChanged(.apns, by: 1)
    metrics.connectionsChanged(.apns, by: 1)
    metrics.connectionsChanged(.apns, by: -1)
    let refused = try test.expectCounter(
      "push_bouncer_delivery_attempts_total",
      [("provider", "apns"), ("outcome", "suspect"), ("reason", "BadDeviceToken")])
    #expect(refused.totalValue == 2)
    let delivered = try test.expectCounter(
      "push_bouncer_delivery_attempts_total",
      [("provider", "apns"), ("outcome", "delivered"), ("reason", "")])
    #expect(delivered.totalValue == 1)
    let unconfigured = try test.expectCounter(
      "push_bouncer_delivery_attempts_total",
      [("provider", "apns"), ("outcome", "unconfigured"), ("reason", "")])
    #expect(unconfigured.totalValue == 1)
    let duration = try test.expectTimer(
      "push_bouncer_provider_request_duration_seconds", [("provider", "apns")])
    #expect(duration.values == [5_000_000, 5_000_000, 5_000_000])
    #expect(
      try test.expectCounter("push_bouncer_provider_tokens_minted_total", [("provider", "fcm")]).totalValue
        == 1)
    #expect(try test.expectGauge("push_bouncer_provider_connections", [("provider", "apns")]).lastValue == 1)
  }

  @Test func `Key exchanges are counted for each leg, from 0 on`() throws {
    let test = TestMetrics()
    let metrics = ProviderMetrics(factory: test)
    for _ in 1...2 { metrics.connected(.webPush, by: .x25519MLKEM768) }
    metrics.connected(.fcm, by: .other)
    func count(_ leg: String, _ group: String) throws -> Int64 {
      try test.expectCounter("push_bouncer_tls_key_exchange_total", [("leg", leg), ("group", group)])
        .totalValue
    }
    #expect(try count("webpush", "X25519MLKEM768") == 2 && count("webpush", "other") == 0)
    #expect(try count("fcm", "other") == 1 && count("apns", "X25519MLKEM768") == 0)
  }

  @Test func `Key exchanges are told by leg`() async throws {
    let server = try await Self.answering()
    let providers = try APNsTests.providers(server)
    #expect(providers.keyExchange(.apns) == nil)
    #expect(await APNsTests.send(APNsTests.push(), providers) == .delivered)
    #expect(providers.keyExchange(.apns) == .x25519MLKEM768)
    #expect(providers.keyExchange(.fcm) == nil)
  }
}
