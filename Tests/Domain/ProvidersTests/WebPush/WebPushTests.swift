import Basics
import Crypto
import Foundation
import Logging
import NIOCore
import NIOHPACK
import NIOHTTP1
import NIOPosix
import Synchronization
import TestServers
import TestSupport
import Testing

@testable import HTTPClient
@testable import Providers

@Suite("Sending Web Push")
struct WebPushTests {
  /// What names mean, which a test may change.
  final class Names: Sendable {
    let names: Mutex<[String: [String]]>

    init(_ names: [String: [String]]) { self.names = Mutex(names) }

    func resolve(_ name: String) -> [String] { names.withLock { $0[name] ?? [] } }
  }

  static let home: Set<String> = ["localhost", "127.0.0.1"]

  static func providers(
    private hosts: Set<String> = home,
    names: Names = Names(["localhost": ["127.0.0.1"], "127.0.0.1": ["127.0.0.1"]]),
    caFile: String? = nil, proxy: URL? = nil, most: Int = 100, connections: Int = 1000,
    clock: TestClock = TestClock(Date())
  ) throws -> PushProviders {
    let configuration = PushProviders.Configuration(
      caFile: try caFile ?? TestCertificate.shared.get().caFile, proxy: proxy,
      webPush: .init(
        key: VAPIDKey(), contact: "mailto:operator@example.org", privateHosts: hosts, connections: connections
      ))
    return try PushProviders(
      configuration: configuration, hostCapacity: most, resolve: { names.resolve($0) }, now: { clock.now })
  }

  static func push(
    _ phone: WebPushPhone = WebPushPhone(), to endpoint: String, body: String = "hello",
    urgency: WebPushMessage.Urgency = .high, timeToLive: Int? = nil, collapseID: String? = nil
  ) throws -> Push {
    .webPush(
      WebPushMessage(
        subscription: try phone.subscription(endpoint), body: ByteBuffer(string: body), urgency: urgency,
        timeToLive: timeToLive, collapseID: collapseID))
  }

  static func send(
    _ push: Push, _ providers: PushProviders, within seconds: Double = longestWait / .seconds(1)
  ) async
    -> Outcome
  {
    await providers.sendOnce(push, within: .seconds(seconds))
  }

  @Test func `A message arrives at a push service that speaks HTTP/1.1, and opens`() async throws {
    let service = try await TestWebServer.start()
    let providers = try Self.providers()
    let phone = WebPushPhone()
    let endpoint = "https://127.0.0.1:\(service.port)/push/abc?d=e"
    #expect(try await Self.send(Self.push(phone, to: endpoint), providers) == .delivered)
    let second = try Self.push(
      phone, to: endpoint, body: "again", urgency: .normal, timeToLive: 60, collapseID: "nid 7")
    #expect(await Self.send(second, providers) == .delivered)
    let requests = service.requests
    #expect(requests.map(\.path) == ["/push/abc?d=e", "/push/abc?d=e"])
    #expect(try requests.map { try phone.open($0.body) } == ["hello", "again"])
    let first = try #require(requests.first?.headers)
    #expect(first["host"] == ["127.0.0.1:\(service.port)"])
    #expect(first["content-encoding"] == ["aes128gcm"])
    #expect(first["ttl"] == ["2419200"])
    #expect(first["urgency"] == ["high"])
    #expect(first["topic"].isEmpty)
    #expect(first["content-length"] == ["\(5 + 103)"])
    let last = try #require(requests.last?.headers)
    #expect(last["ttl"] == ["60"])
    #expect(last["urgency"] == ["normal"])
    #expect(last["topic"].first?.wholeMatch(of: /[A-Za-z0-9_-]{32}/) != nil)
    // The same for the same subscription, another for others.
    #expect(await Self.send(second, providers) == .delivered)
    let other = try Self.push(to: endpoint, collapseID: "nid 7")
    #expect(await Self.send(other, providers) == .delivered)
    let topics = service.requests.suffix(3).map { $0.headers["topic"] }
    #expect(topics[0] == topics[1])
    #expect(topics[1] != topics[2])
    // One connection and one token for both.
    #expect(service.connections == 1)
    #expect(first["authorization"] == last["authorization"])
    #expect(first["authorization"].first?.hasSuffix("k=\(providers.vapidPublicKey ?? "")") == true)
    #expect(providers.webPushSenders.map(\.state) == [.ok])
    await providers.shutdown()
    await eventually { service.openConnections == 0 }
  }

  @Test func `HTTP/2 is spoken where it is offered, many messages at a time`() async throws {
    let server = try await TestServer.start { _ in [.after(.milliseconds(50), [.answer(201)])] }
    let providers = try Self.providers()
    let endpoint = "https://127.0.0.1:\(server.port)/1"
    #expect(try await Self.send(Self.push(to: endpoint), providers) == .delivered)
    let outcomes = try await withThrowingTaskGroup(of: Outcome.self) { group in
      for _ in 0..<50 { group.addTask { await Self.send(try Self.push(to: endpoint), providers) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(outcomes == [Outcome](repeating: .delivered, count: 50))
    #expect(server.connections == 1)
    #expect(server.mostStreams > 1)
    #expect(server.requests.first?["ttl"] == "2419200")
    #expect(server.requests.first?[":scheme"] == "https")
  }

  @Test func `Over HTTP/1.1 many messages share a few connections`() async throws {
    let service = try await TestWebServer.start()
    let providers = try Self.providers()
    let endpoint = "https://127.0.0.1:\(service.port)/1"
    let outcomes = try await withThrowingTaskGroup(of: Outcome.self) { group in
      for _ in 0..<200 { group.addTask { await Self.send(try Self.push(to: endpoint), providers) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(outcomes == [Outcome](repeating: .delivered, count: 200))
    #expect(service.connections <= 6)
  }

  @Test func `A connection that the push service ends is replaced`() async throws {
    let service = try await TestWebServer.start { $0.connection < 3 ? .last(201) : .status(201) }
    let providers = try Self.providers()
    let endpoint = "https://127.0.0.1:\(service.port)/1"
    for _ in 0..<5 { #expect(try await Self.send(Self.push(to: endpoint), providers) == .delivered) }
    #expect(service.connections == 3)
  }

  @Test func `A redirect is not followed`() async throws {
    let inside = try await TestWebServer.start()
    let service = try await TestWebServer.start { _ in
      .status(307, ["location": "https://127.0.0.1:\(inside.port)/inside"])
    }
    let providers = try Self.providers()
    let outcome = try await Self.send(Self.push(to: service.endpoint), providers)
    #expect(outcome == .retry(.unreadableAnswer, notBefore: nil, scope: .route))
    #expect(inside.connections == 0)
  }

  @Test func `A host that hangs is waited for no longer than asked, and holds up no other`() async throws {
    let hanging = try await TestWebServer.start { _ in .nothing }
    let service = try await TestWebServer.start()
    let providers = try Self.providers()
    async let lost = Self.send(
      try Self.push(to: "https://127.0.0.1:\(hanging.port)/1"), providers, within: 1)
    for _ in 0..<20 {
      #expect(try await Self.send(Self.push(to: service.endpoint), providers) == .delivered)
    }
    #expect(try await lost == .retry(.timeout, notBefore: nil, scope: .route))
    // Even the late answer is not waited for for long.
    await eventually("the connection's end") { hanging.openConnections == 0 }
  }

  @Test func `A name that means another address now is looked at again before it is called`() async throws {
    let certificate = try TestCertificate(host: "push.example.net")
    defer { try? FileManager.default.removeItem(atPath: certificate.caFile) }
    let service = try await TestWebServer.start(certificate: certificate) { _ in .last(201) }
    // A public address here, as nobody may listen on one.
    let names = Names(["push.example.net": ["127.0.0.1"]])
    let open = try Self.providers(private: ["push.example.net"], names: names, caFile: certificate.caFile)
    let guarded = try Self.providers(private: [], names: names, caFile: certificate.caFile)
    let push = try Self.push(to: "https://push.example.net:\(service.port)/1")
    #expect(await Self.send(push, open) == .delivered)
    #expect(
      await Self.send(push, guarded) == .retry(.forbiddenAddress, notBefore: nil, scope: .route))
    #expect(service.connections == 1)
    // Registered while it was a public one, private when the message comes.
    names.names.withLock { $0["push.example.net"] = ["192.0.1.1"] }
    guard case .webPush(let message) = push else { return }
    #expect(await guarded.accepts(message.subscription))
    names.names.withLock { $0["push.example.net"] = ["127.0.0.1"] }
    #expect(
      await Self.send(push, guarded) == .retry(.forbiddenAddress, notBefore: nil, scope: .route))
    #expect(await !guarded.accepts(message.subscription))
    #expect(service.connections == 1)
  }

  @Test func `A proxy is asked for the address that was looked at`() async throws {
    let certificate = try TestCertificate(host: "push.example.net")
    defer { try? FileManager.default.removeItem(atPath: certificate.caFile) }
    let service = try await TestWebServer.start(certificate: certificate)
    let proxy = try await TestProxy.start(address: "127.0.0.2")
    let providers = try Self.providers(
      private: ["push.example.net"], names: Names(["push.example.net": ["127.0.0.1"]]),
      caFile: certificate.caFile, proxy: URL(string: "http://127.0.0.2:\(proxy.port)"))
    let push = try Self.push(to: "https://push.example.net:\(service.port)/1")
    #expect(await Self.send(push, providers) == .delivered)
    #expect(proxy.heads.first?.hasPrefix("CONNECT 127.0.0.1:\(service.port) ") == true)
  }

  @Test func `The ports of one machine leave connections to others, whether they answer or not`() async throws
  {
    let certificate = try TestCertificate(host: "*.example.net")
    defer { try? FileManager.default.removeItem(atPath: certificate.caFile) }
    let (living, silent) = ("living.example.net", "silent.example.net")
    let names = [living: ["127.0.0.1"], silent: ["127.0.0.2"], "other.example.net": ["127.0.0.3"]]
    let providers = try Self.providers(
      private: Set(names.keys), names: Names(names), caFile: certificate.caFile, connections: 16)
    func services(_ count: Int, at name: String) async throws -> [TestWebServer] {
      var services: [TestWebServer] = []
      for _ in 0..<count {
        services.append(
          try await TestWebServer.start(certificate: certificate, address: names[name]?.first ?? "") { _ in
            name == silent ? .nothing : .status(201)
          })
      }
      return services
    }
    let dead = try await services(8, at: silent)
    let lost = try dead.map { service in
      let push = try Self.push(to: "https://\(silent):\(service.port)/1")
      return Task { await Self.send(push, providers, within: 5) }
    }
    await eventually("the silent one's connection") { dead.contains { !$0.requests.isEmpty } }
    // They keep their connections for when more comes.
    let crowd = try await services(20, at: living)
    var delivered = 0
    for service in crowd {
      let outcome = try await Self.send(Self.push(to: "https://\(living):\(service.port)/1"), providers)
      if outcome == .delivered { delivered += 1 }
    }
    #expect(delivered == 4)
    let other = try await services(1, at: "other.example.net")
    #expect(
      try await Self.send(Self.push(to: "https://other.example.net:\(other[0].port)/1"), providers)
        == .delivered)
    for task in lost { #expect(await task.value != .delivered) }
    #expect(dead.count { !$0.requests.isEmpty } == 1)
  }

  @Test func `A message that is too long is not sent`() async throws {
    let service = try await TestWebServer.start()
    let providers = try Self.providers()
    let endpoint = "https://127.0.0.1:\(service.port)/1"
    let longest = String(repeating: "a", count: WebPushMessage.maximumBody)
    #expect(try await Self.send(Self.push(to: endpoint, body: longest), providers) == .delivered)
    #expect(
      try await Self.send(Self.push(to: endpoint, body: longest + "a"), providers)
        == .rejected(.payloadTooLarge))
    #expect(service.requests.count == 1)
  }

  @Test func `A subscription that gets too many is left alone, others of its host are not`() async throws {
    let clock = TestClock(Date())
    let busy = try await TestWebServer.start {
      $0.path == "/busy" ? .status(429, ["retry-after": "30"]) : .status(201)
    }
    let service = try await TestWebServer.start()
    let providers = try Self.providers(clock: clock)
    clock.stop()
    let now = clock.now
    #expect(
      try await Self.send(Self.push(to: "https://127.0.0.1:\(busy.port)/busy"), providers)
        == .retry(.tooManyRequests, notBefore: now + 30, scope: .tokenOrRoute))
    // It is not asked again before.
    #expect(
      try await Self.send(Self.push(to: "https://127.0.0.1:\(busy.port)/busy"), providers)
        == .retry(.tooManyRequests, notBefore: now + 30, scope: .token))
    #expect(busy.requests.count == 1)
    let other = try Self.push(to: "https://127.0.0.1:\(busy.port)/other")
    #expect(await Self.send(other, providers) == .delivered)
    #expect(try await Self.send(Self.push(to: service.endpoint), providers) == .delivered)
    clock.advance(31)
    _ = try await Self.send(Self.push(to: "https://127.0.0.1:\(busy.port)/busy"), providers)
    #expect(busy.requests.count == 3)
  }

  @Test func `One subscription that our key does not open holds up nobody on its host`() async throws {
    let service = try await TestWebServer.start { $0.path == "/other-key" ? .status(403) : .status(201) }
    let clock = TestClock(Date())
    let providers = try Self.providers(clock: clock)
    for _ in 0..<5 {
      let refused = try await Self.send(
        Self.push(to: "https://127.0.0.1:\(service.port)/other-key"), providers)
      #expect(refused.reason == .vapidRefused && refused.label == "retry")
      clock.advance(0.3)
      #expect(try await Self.send(Self.push(to: service.endpoint), providers) == .delivered)
    }
    #expect(providers.webPushSenders.map(\.state) == [.ok])
    clock.advance(4)
    let push = try Self.push(to: "https://127.0.0.1:\(service.port)/other-key")
    let sender = try #require(providers.routeSender(for: push))
    guard case .ended(let answer) = await sender.attempt(push, of: .nobody, deadline: .now() + .seconds(30))
    else {
      Issue.record("it is under way")
      return
    }
    #expect(answer.outcome.reason == .vapidRefused && answer.pause?.isRefusedAlone == true)
  }

  @Test func `Hosts that were not used for longest are forgotten, and their connections closed`() async throws
  {
    let services = try await withThrowingTaskGroup(of: TestWebServer.self) { group in
      for _ in 0..<6 { group.addTask { try await TestWebServer.start() } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    let providers = try Self.providers(most: 5)
    for service in services.prefix(5) + services.prefix(1) + services.suffix(1) {
      #expect(try await Self.send(Self.push(to: service.endpoint), providers) == .delivered)
    }
    #expect(providers.webPushSenders.count == 5)
    await eventually("the connection's end") { services[1].openConnections == 0 }
    #expect(services[0].openConnections == 1)
  }

  @Test func `Hosts that work are kept before those that do not`() async throws {
    let service = try await TestWebServer.start()
    let providers = try Self.providers(most: 3)
    let living = try Self.push(to: "https://127.0.0.1:\(service.port)/1")
    #expect(await Self.send(living, providers) == .delivered)
    for port in 1...6 {
      #expect(
        try await Self.send(Self.push(to: "https://127.0.0.1:\(port)/1"), providers)
          == .retry(.connectionRefused, notBefore: nil, scope: .route))
    }
    #expect(await Self.send(living, providers) == .delivered)
    #expect(service.connections == 1)
  }

  @Test func `After the end nothing is connected to`() async throws {
    let service = try await TestWebServer.start()
    let providers = try Self.providers()
    await providers.shutdown()
    #expect(
      try await Self.send(Self.push(to: service.endpoint), providers)
        == .retry(.shuttingDown, notBefore: nil, scope: .caller))
    #expect(service.connections == 0)
  }

  @Test func `A push service that is new after the end is refused at once`() async throws {
    let service = try await TestWebServer.start()
    let providers = try Self.providers()
    let push = try Self.push(to: service.endpoint)
    let hosts = try #require(providers.hosts)
    _ = hosts.close()
    // Nobody has closed its transport yet.
    let (sender, left) = try #require(hosts.routeSender(for: push))
    #expect(left.count == 1)
    guard case .ended(let answer) = await sender.attempt(push, of: .nobody, deadline: .now() + .seconds(30))
    else {
      Issue.record("it is under way")
      return
    }
    #expect(answer.outcome == .retry(.shuttingDown, notBefore: nil, scope: .caller))
    #expect(service.connections == 0)
  }

  @Test func `Where it is switched off nothing is sent and nothing accepted`() async throws {
    let providers = try PushProviders(configuration: .init())
    let push = try Self.push(to: "https://push.example.net/1")
    #expect(await Self.send(push, providers) == .misconfigured(.unconfigured))
    guard case .webPush(let message) = push else { return }
    #expect(await !providers.accepts(message.subscription))
    #expect(providers.vapidPublicKey == nil)
  }

  @Test func `Connections that nobody uses are closed`() async throws {
    let shares = WebPushShares(limits: .init(connections: 10, unproven: 10, idle: .milliseconds(100)))
    let service = try await TestWebServer.start()
    // Slower than a connection may be idle.
    let http2 = try await TestServer.start { _ in [.after(.milliseconds(300), [.answer(201)])] }
    for port in [service.port, http2.port] {
      let tls = try Connector.tls(
        caFile: TestCertificate.shared.get().caFile, protocols: ["h2", "http/1.1"])
      let host = WebPushHost(shares: shares, addresses: .init(privateHosts: Self.home) { [$0] })
      let connector = Connector(
        host: "127.0.0.1", port: port, tls: tls, allowsHTTP1: true, limits: .init(idle: { shares.idle }),
        gate: host)
      let pool = HTTP2Pool(
        connector: connector, group: NIOSingletons.posixEventLoopGroup, logger: .init(label: "test"))
      let request = ProviderRequest(
        headers: [":method": "POST", ":scheme": "https", ":authority": "127.0.0.1", ":path": "/1"],
        body: ByteBuffer())
      for _ in 0..<2 {
        let attempt = await pool.send(request, deadline: .longest)
        guard case .ended(.success(let answer)) = attempt else {
          Issue.record("no answer")
          continue
        }
        #expect(answer.status == 201)
        await eventually("the connection's end") { shares.connections == 0 }
      }
      await pool.shutdown(deadline: nil)
    }
    #expect(service.connections == 2)
    #expect(http2.connections == 2)
  }
}

extension TestListening {
  /// Of a subscription there.
  var endpoint: String { "https://127.0.0.1:\(port)/1" }
}
