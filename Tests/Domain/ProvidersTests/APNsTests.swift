import Crypto
import Foundation
import NIOCore
import TestServers
import TestSupport
import Testing

@testable import HTTPClient
@testable import Providers

@Suite("Sending to APNs")
struct APNsTests {
  static func providers(
    _ server: TestServer, pool: PoolLimits = .init(), clock: TestClock = TestClock(Date()),
    credentials: Credentials = Credentials(apns: [TestKeys.apnsCredential()])
  ) throws -> PushProviders {
    let configuration = PushProviders.Configuration(
      endpoints: [.apns: URL(string: "https://127.0.0.1:\(server.port)")],
      caFile: try TestCertificate.shared.get().caFile)
    let providers = try PushProviders(configuration: configuration, pool: pool, now: { clock.now })
    providers.use(credentials)
    return providers
  }

  static func push(
    _ token: String = "c0ffee", topic: String = "org.example.chat", collapseID: String? = nil
  ) -> Push {
    .apns(
      APNsNotification(
        token: token, topic: topic, payload: ByteBuffer(string: #"{"aps":{}}"#), pushType: .alert,
        collapseID: collapseID))
  }

  static func send(
    _ push: Push, _ providers: PushProviders, within seconds: Double = longestWait / .seconds(1)
  ) async -> Outcome {
    await providers.sendOnce(push, within: .seconds(seconds))
  }

  @Test func `An ID is a UUID of version 4, and otherwise random`() {
    let ids = (0..<1000).map { _ in
      withUnsafeBytes(of: UUID.random().uuid) { $0.loadUnaligned(as: UInt128.self).bigEndian }
    }
    let always: UInt128 = 0b0100 << 76 | 0b10 << 62
    let never: UInt128 = 0b1011 << 76 | 0b01 << 62
    #expect(ids.reduce(.max, &) == always)
    #expect(ids.reduce(0, |) == ~never)
  }

  @Test func `A notification arrives with its headers and its body`() async throws {
    let server = try await TestServer.start { [.answer(200, [("apns-id", $0["apns-id"] ?? "")])] }
    let providers = try Self.providers(server)
    let id = UUID()
    let notification = APNsNotification(
      token: "C0FFEE01", topic: "org.example.chat", payload: ByteBuffer(string: #"{"aps":{"badge":1}}"#),
      pushType: .background, priority: 5, expiration: Date(timeIntervalSince1970: 1_800_000_000.7),
      collapseID: "a b", id: id)
    #expect(await Self.send(.apns(notification), providers) == .delivered)
    let request = try #require(server.requests.first)
    #expect(request[":method"] == "POST")
    #expect(request[":scheme"] == "https")
    #expect(request.path == "/3/device/C0FFEE01")
    #expect(request["apns-topic"] == "org.example.chat")
    #expect(request["apns-push-type"] == "background")
    #expect(request["apns-priority"] == "5")
    #expect(request["apns-expiration"] == "1800000000")
    #expect(request["apns-collapse-id"] == "a b")
    #expect(request["apns-id"] == id.uuidString.lowercased())
    #expect(request.body == #"{"aps":{"badge":1}}"#)
    // What is not set is left out.
    _ = await Self.send(Self.push(), providers)
    for name in ["apns-priority", "apns-expiration", "apns-collapse-id"] {
      #expect(server.requests.last?[name] == nil)
    }
  }

  @Test func `What Apple refuses for its length is not sent, and a background push has no priority above 5`()
    async throws
  {
    let server = try await TestServer.start { _ in [.answer(200)] }
    let providers = try Self.providers(server)
    func outcome(_ type: APNsNotification.PushType, bytes: Int) async -> Outcome {
      let payload = ByteBuffer(repeating: UInt8(ascii: " "), count: bytes)
      return await Self.send(
        .apns(
          APNsNotification(
            token: "c0ffee", topic: "org.example.chat", payload: payload, pushType: type, priority: 10)),
        providers)
    }
    #expect(await outcome(.alert, bytes: 4096) == .delivered)
    #expect(await outcome(.alert, bytes: 4097) == .rejected(.payloadTooLarge))
    #expect(await outcome(.voip, bytes: 5120) == .delivered)
    #expect(await outcome(.voip, bytes: 5121) == .rejected(.payloadTooLarge))
    #expect(await outcome(.background, bytes: 2) == .delivered)
    #expect(server.requests.map { $0["apns-priority"] } == ["10", "10", "5"])
  }

  @Test func `The provider token is signed with the key and counts in whole seconds`() async throws {
    let server = try await TestServer.start { _ in [.answer(200)] }
    let clock = TestClock(Date(timeIntervalSince1970: 1_800_000_000.75))
    let providers = try Self.providers(server, clock: clock)
    _ = await Self.send(Self.push(), providers)
    let authorization = try #require(server.requests.first?["authorization"])
    let parts = try #require(authorization.split(separator: " ").last).split(separator: ".").map(String.init)
    #expect(authorization.hasPrefix("bearer "))
    let header = try #require(
      try JSONSerialization.jsonObject(with: Data(Base64URL.decode(parts[0]) ?? [])) as? [String: String])
    #expect(header["alg"] == "ES256")
    #expect(header["kid"] == "ABCDE12345")
    let claims = try #require(String(data: Data(Base64URL.decode(parts[1]) ?? []), encoding: .utf8))
    #expect(claims.contains(#""iss":"TEAM123456""#))
    #expect(claims.contains(#""iat":1800000000"#))
    #expect(!claims.contains("1800000000."))
    let signature = try P256.Signing.ECDSASignature(rawRepresentation: Data(Base64URL.decode(parts[2]) ?? []))
    #expect(TestKeys.apns.publicKey.isValidSignature(signature, for: Data("\(parts[0]).\(parts[1])".utf8)))
  }

  @Test
  func `One token serves all connections, environments and senders of a key until it is 45 minutes old`()
    async throws
  {
    let server = try await TestServer.start(.init(streams: 5)) { _ in
      [.after(.milliseconds(5), [.answer(200)])]
    }
    let clock = TestClock(Date())
    let credentials = Credentials(apns: [
      TestKeys.apnsCredential("a"),
      TestKeys.apnsCredential("b", topics: ["org.example.beta"], environment: .sandbox),
    ])
    let providers = try Self.providers(server, clock: clock, credentials: credentials)
    func sendMany() async {
      await withTaskGroup { group in
        for number in 0..<100 {
          group.addTask {
            let topic = number.isMultiple(of: 2) ? "org.example.chat" : "org.example.beta"
            guard case .delivered = await Self.send(Self.push(topic: topic), providers) else {
              Issue.record("not delivered")
              return
            }
          }
        }
      }
    }
    func tokens() -> Int { Set(server.requests.compactMap { $0["authorization"] }).count }
    await sendMany()
    #expect(server.connections > 2)
    #expect(tokens() == 1)
    clock.advance(44 * 60)
    await sendMany()
    #expect(tokens() == 1)
    clock.advance(2 * 60)
    // The old one serves while the new one is made.
    await eventually {
      _ = await Self.send(Self.push(), providers)
      return tokens() == 2
    }
    await sendMany()
    #expect(tokens() == 2)
    clock.advance(60 * 60)
    await sendMany()
    #expect(tokens() == 3)
  }

  @Test func `An expired token is replaced once and the notification goes out again on a new connection`()
    async throws
  {
    let server = try await TestServer.start { request in
      request.connection == 1 && request.number > 1
        ? [.answer(403, [], #"{"reason":"ExpiredProviderToken"}"#)] : [.answer(200, [("apns-id", "x")])]
    }
    let clock = TestClock(Date())
    let providers = try Self.providers(server, clock: clock)
    #expect(await Self.send(Self.push(), providers) == .delivered)
    clock.advance(30 * 60)
    #expect(await Self.send(Self.push(), providers) == .delivered)
    let requests = server.requests
    #expect(requests.map(\.connection) == [1, 1, 2])
    #expect(requests[1]["apns-id"] == requests[2]["apns-id"])
    #expect(requests[1]["authorization"] != requests[2]["authorization"])
  }

  @Test func `A young token is not replaced, whatever APNs says of it`() async throws {
    let server = try await TestServer.start { _ in [.answer(403, [], #"{"reason":"ExpiredProviderToken"}"#)] }
    let clock = TestClock(Date())
    let providers = try Self.providers(server, clock: clock)
    for _ in 0..<5 {
      #expect(
        await Self.send(Self.push(), providers)
          == .retry(.expiredProviderToken, notBefore: nil, scope: .route))
      clock.advance(60)
    }
    #expect(server.requests.count == 5)
    #expect(Set(server.requests.map { $0["authorization"] }).count == 1)
    #expect(
      providers.routeStates().values.allSatisfy {
        if case .failing(.expiredProviderToken, _) = $0 { true } else { false }
      })
  }

  /// A server whose first connection refuses like that from its second request on.
  static func refusingServer(_ status: Int, _ reason: String) async throws -> TestServer {
    try await TestServer.start { request in
      request.connection == 1 && request.number > 1
        ? [.answer(status, [], #"{"reason":"\#(reason)"}"#)] : [.answer(200, [("apns-id", "x")])]
    }
  }

  @Test(arguments: [
    (403, "UnrelatedKeyIdInToken"), (429, "TooManyProviderTokenUpdates"), (400, "IdleTimeout"),
  ])
  func `What concerns a connection is tried again at once over another, with the same token`(
    status: Int, reason: String
  ) async throws {
    let server = try await Self.refusingServer(status, reason)
    let providers = try Self.providers(server)
    for _ in 0..<3 { #expect(await Self.send(Self.push(), providers) == .delivered) }
    let requests = server.requests
    #expect(requests.map(\.connection) == [1, 1, 2, 2])
    #expect(requests[1]["apns-id"] == requests[2]["apns-id"])
    #expect(Set(requests.map { $0["authorization"] }).count == 1)
    await eventually { server.openConnections == 1 }
  }

  @Test func `A key that no fresh connection takes either is misconfigured`() async throws {
    let server = try await TestServer.start { _ in [.answer(403, [], #"{"reason":"UnrelatedKeyIdInToken"}"#)]
    }
    let providers = try Self.providers(server)
    #expect(await Self.send(Self.push(), providers) == .misconfigured(.unrelatedKeyIDInToken))
    #expect(server.requests.map(\.connection) == [1, 2])
  }

  @Test func `A key that is revoked closes all of its connections`() async throws {
    let server = try await TestServer.start(.init(streams: 2)) { request in
      request.path == "/3/device/dead"
        ? [.answer(403, [], #"{"reason":"InvalidProviderToken"}"#)]
        : [.after(.milliseconds(200), [.answer(200)])]
    }
    let providers = try Self.providers(server)
    await withTaskGroup { group in
      for _ in 0..<12 { group.addTask { _ = await Self.send(Self.push(), providers) } }
    }
    #expect(server.openConnections >= 3)
    #expect(await Self.send(Self.push("dead"), providers) == .misconfigured(.invalidProviderToken))
    await eventually { server.openConnections == 0 }
  }

  @Test func `An outage moves the next notification to another connection`() async throws {
    let server = try await TestServer.start { request in
      request.connection == 1
        ? [.answer(503, [], #"{"reason":"Shutdown"}"#)] : [.answer(200, [("apns-id", "x")])]
    }
    let providers = try Self.providers(server)
    #expect(await Self.send(Self.push(), providers) == .retry(.shutdown, notBefore: nil, scope: .provider))
    #expect(await Self.send(Self.push(), providers) == .delivered)
    #expect(server.requests.map(\.connection) == [1, 2])
  }

  @Test(
    arguments: [
      ("", nil, Outcome.suspect(.badDeviceToken)), ("c0 ffee", nil, .suspect(.badDeviceToken)),
      ("c0/../ffee", nil, .suspect(.badDeviceToken)), ("c0ffee\r\n", nil, .suspect(.badDeviceToken)),
      ("c0ffee?x", nil, .suspect(.badDeviceToken)), ("çøffee", nil, .suspect(.badDeviceToken)),
      ("c0ffee", "a\nb", .rejected(.badCollapseID)), ("c0ffee", "ü", .rejected(.badCollapseID)),
      ("c0ffee", String(repeating: "x", count: 65), .rejected(.badCollapseID)),
    ] as [(String, String?, Outcome)])
  func `What is no token, or would break the request, never leaves`(
    token: String, collapseID: String?, outcome: Outcome
  ) async throws {
    let server = try await TestServer.start { _ in [.answer(200)] }
    let providers = try Self.providers(server)
    #expect(await Self.send(Self.push(token, collapseID: collapseID), providers) == outcome)
    #expect(server.requests.isEmpty)
    // The provider was not asked.
    #expect(providers.routeStates().values.allSatisfy { $0 == .unknown })
  }

  @Test func `A topic that no key serves is unconfigured, a VoIP one comes with its bundle`() async throws {
    let server = try await TestServer.start { [.answer(200, [("apns-id", $0["apns-topic"] ?? "")])] }
    let providers = try Self.providers(server)
    #expect(await Self.send(Self.push(topic: "org.other"), providers) == .misconfigured(.unconfigured))
    #expect(providers.routeSender(for: Self.push(topic: "org.other"))?.route == nil)
    let voip = Self.push(topic: "org.example.chat.voip")
    #expect(await Self.send(voip, providers) == .delivered)
    #expect(server.requests.last?["apns-topic"] == "org.example.chat.voip")
    #expect(
      providers.routeSender(for: voip)?.route
        == Route(provider: .apns, credential: "main", target: "org.example.chat.voip"))
  }

  @Test func `A deadline that has passed sends nothing`() async throws {
    let server = try await TestServer.start { _ in [.answer(200)] }
    let providers = try Self.providers(server)
    #expect(
      await Self.send(Self.push(), providers, within: -1) == .retry(.timeout, notBefore: nil, scope: .route))
    #expect(server.connections == 0)
    #expect(providers.routeStates().values.allSatisfy { $0 == .unknown })
    await providers.shutdown()
    #expect(await Self.send(Self.push(), providers) == .retry(.shuttingDown, notBefore: nil, scope: .caller))
  }
}
