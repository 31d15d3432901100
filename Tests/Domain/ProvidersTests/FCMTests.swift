import Basics
import CryptoExtras
import Foundation
import HTTPClient
import NIOCore
import NIOHTTP1
import TestServers
import TestSupport
import Testing

@testable import Providers

@Suite("Sending to FCM")
struct FCMTests {
  /// OAuth and FCM in clear, as the simulator has them; `fcm` answers the messages.
  static func start(
    oauth: @escaping @Sendable (Int) -> TestWebServer.Answer = { .granted("token-\($0)") },
    fcm: @escaping @Sendable (TestWebServer.Request) -> TestWebServer.Answer = { _ in .accepted }
  ) async throws -> TestWebServer {
    let grants = Counter()
    return try await TestWebServer.startInClear { $0.path == "/token" ? oauth(grants.increment()) : fcm($0) }
  }

  static func providers(_ server: TestWebServer, clock: TestClock = TestClock(Date())) throws -> PushProviders
  {
    let configuration = PushProviders.Configuration(
      endpoints: [.fcm: URL(string: "http://127.0.0.1:\(server.port)")])
    let providers = try PushProviders(configuration: configuration, now: { clock.now })
    providers.use(Credentials(fcm: [try TestKeys.fcmCredential(tokenPort: server.port)]))
    return providers
  }

  static let message = FCMMessage(
    token: "tok:en", data: ["push_key_id": "20", "q\"\n": "ü/"], priority: .high, timeToLive: 60,
    collapseKey: "c")

  static func send(_ providers: PushProviders, within seconds: Double = longestWait / .seconds(1)) async
    -> Outcome
  {
    await providers.sendOnce(.fcm(message), within: .seconds(seconds))
  }

  static func assertions(_ server: TestWebServer) -> Int { server.requests.count { $0.path == "/token" } }

  @Test func `A notification does not follow its device to another provider`() {
    var push = Push.fcm(Self.message)
    let followed = ["webpush:another", "another"].map { push.follow($0, of: nil) }
    #expect(followed == [false, true])
  }

  @Test(
    arguments: [
      (["from": "x"], .rejected(.reservedDataName)), (["message_type": "x"], .rejected(.reservedDataName)),
      (["google.x": ""], .rejected(.reservedDataName)),
      (["gcm.notification.e": "1"], .rejected(.reservedDataName)),
      (["From": "x", "google": "x", "gcm": "x", "fromage": "x"], .delivered),
      (["k": String(repeating: "x", count: 4095)], .delivered),
      (["k": String(repeating: "x", count: 4096)], .rejected(.payloadTooLarge)),
    ] as [([String: String], Outcome)])
  func `Data that Google refuses is not sent, and the reason says why`(
    data: [String: String], outcome: Outcome
  ) async throws {
    let server = try await Self.start()
    let providers = try Self.providers(server)
    let push = Push.fcm(FCMMessage(token: "t", data: data))
    #expect(await providers.sendOnce(push, within: .seconds(20)) == outcome)
    let sent = server.requests.filter { $0.path.hasSuffix("messages:send") }
    #expect(sent.count == (outcome == .delivered ? 1 : 0))
  }

  @Test func `A message arrives as FCM wants it, in clear`() async throws {
    let server = try await Self.start()
    let providers = try Self.providers(server)
    #expect(await Self.send(providers) == .delivered)
    let request = try #require(server.requests.last)
    #expect(request.path == "/v1/projects/demo/messages:send")
    #expect(request.headers.first(name: "authorization") == "Bearer token-1")
    let body = try #require(
      try JSONSerialization.jsonObject(with: Data(request.body.readableBytesView)) as? [String: [String: Any]]
    )
    #expect(body["message"]?["token"] as? String == "tok:en")
    #expect(body["message"]?["data"] as? [String: String] == ["push_key_id": "20", "q\"\n": "ü/"])
    #expect(
      body["message"]?["android"] as? [String: String] == [
        "priority": "high", "ttl": "60s", "collapse_key": "c",
      ])
  }

  /// Strings with all characters that JSON escapes, and many others.
  static let strings: [String] = {
    var random = SplitMix(seed: 7)
    let scalars =
      (0..<0x30).compactMap(Unicode.Scalar.init)
      + [
        "\"", "\\", "/", "\u{7f}", "\u{85}", "ü", "\u{2028}", "\u{2029}", "\u{d7ff}", "\u{feff}", "\u{ffff}",
        "😀", "\u{10ffff}",
      ]
    return (0..<300).map { _ in
      var string = ""
      for _ in 0..<Int.random(in: 0...40, using: &random) {
        string.unicodeScalars.append(scalars.randomElement(using: &random) ?? "x")
      }
      return string
    }
  }()

  @Test func `A message says in JSON what it is made of, whatever its strings contain`() throws {
    struct Body: Decodable, Equatable {
      struct Message: Decodable, Equatable {
        var token: String
        var data: [String: String]
        var android: [String: String]?
      }
      var message: Message
      var validate_only: Bool?
    }
    for (index, string) in Self.strings.enumerated() {
      let next = Self.strings[(index + 1) % Self.strings.count]
      var message = FCMMessage(token: string, data: [next: string, "k": next])
      var body = Body(message: .init(token: string, data: message.data))
      if index % 2 == 0 {
        (message.priority, message.timeToLive, message.collapseKey) = (.normal, -5, next)
        body.message.android = ["priority": "normal", "ttl": "0s", "collapse_key": next]
      }
      if index % 3 == 0 { (message.isOnlyValidated, body.validate_only) = (true, true) }
      if index % 5 == 0 { (message.data, body.message.data) = ([:], [:]) }
      let written = message.json
      #expect(try JSONDecoder().decode(Body.self, from: Data(written.readableBytesView)) == body)
    }
  }

  @Test(arguments: [
    ("cabcdefghijklmnopqrst9", true), ("f-_ABCDEFGHIJKLMNOPQR0", true), ("dddddddddddddddddddddd", true),
    ("gabcdefghijklmnopqrst9", false), ("babcdefghijklmnopqrst9", false), ("Cabcdefghijklmnopqrst9", false),
    ("cabcdefghijklmnopqrst", false), ("cabcdefghijklmnopqrst90", false), ("cabcdefghij:lmnopqrst9", false),
    ("cabcdefghij+lmnopqrst9", false), ("cabcdefghijklmnopqrs\u{fc}", false), ("", false),
  ])
  func `An installation id is named as one, and nothing else is`(token: String, isInstallationID: Bool) throws
  {
    struct Recipient: Decodable {
      var fid: String?
      var token: String?
    }
    let written = FCMMessage(token: token, data: [:]).json
    let body = try JSONDecoder().decode([String: Recipient].self, from: Data(written.readableBytesView))
    #expect(body["message"]?.fid == (isInstallationID ? token : nil))
    #expect(body["message"]?.token == (isInstallationID ? nil : token))
  }

  @Test func `Over TLS it goes through HTTP/2`() async throws {
    let web = try await Self.start()
    let server = try await TestServer.start { _ in [.answer(200, [], #"{"name":"projects/demo/messages/2"}"#)]
    }
    let providers = try PushProviders(
      configuration: .init(
        endpoints: [.fcm: URL(string: "https://localhost:\(server.port)")],
        caFile: try TestCertificate.shared.get().caFile))
    providers.use(Credentials(fcm: [try TestKeys.fcmCredential(tokenPort: web.port)]))
    #expect(await Self.send(providers) == .delivered)
    #expect(server.requests.first?.path == "/v1/projects/demo/messages:send")
    #expect(server.requests.first?["authorization"] == "Bearer token-1")
  }

  @Test func `The assertion is signed, with whole seconds and the right audience`() async throws {
    let server = try await Self.start()
    let providers = try Self.providers(
      server, clock: TestClock(Date(timeIntervalSince1970: 1_800_000_000.75)))
    _ = await Self.send(providers)
    let form = String(buffer: try #require(server.requests.first).body)
    #expect(form.hasPrefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="))
    let parts = try #require(form.split(separator: "=").last).split(separator: ".").map(String.init)
    let header =
      try JSONSerialization.jsonObject(with: Data(Base64URL.decode(parts[0]) ?? [])) as? [String: String]
    #expect(header?["alg"] == "RS256")
    #expect(header?["kid"] == "k1")
    let claims = try #require(
      try JSONSerialization.jsonObject(with: Data(Base64URL.decode(parts[1]) ?? [])) as? [String: Any])
    #expect(claims["iss"] as? String == "sender@demo.iam.gserviceaccount.com")
    #expect(claims["scope"] as? String == "https://www.googleapis.com/auth/firebase.messaging")
    #expect(claims["aud"] as? String == "http://127.0.0.1:\(server.port)/token")
    #expect(claims["iat"] as? Int == 1_800_000_000)
    #expect(claims["exp"] as? Int == 1_800_003_600)
    let key = try _RSA.Signing.PrivateKey(pemRepresentation: TestKeys.google.get()).publicKey
    #expect(
      key.isValidSignature(
        .init(rawRepresentation: Data(Base64URL.decode(parts[2]) ?? [])),
        for: Data("\(parts[0]).\(parts[1])".utf8),
        padding: .insecurePKCS1v1_5))
  }

  @Test func `It is renewed five minutes early, and the old one serves while that fails`() async throws {
    let server = try await Self.start(oauth: { $0 == 1 ? .granted("token-1") : .init(status: 503) })
    let clock = TestClock(Date())
    let providers = try Self.providers(server, clock: clock)
    _ = await Self.send(providers)
    clock.advance(54 * 60)
    _ = await Self.send(providers)
    #expect(Self.assertions(server) == 1)
    clock.advance(90)
    #expect(await Self.send(providers) == .delivered)
    await eventually { Self.assertions(server) == 2 }
    #expect(await Self.send(providers) == .delivered)
    clock.advance(600)
    #expect(await Self.send(providers) == .retry(.tokenUnavailable, notBefore: nil, scope: .route))
  }

  private static let outage = Outcome.retry(.tokenUnavailable, notBefore: nil, scope: .route)

  @Test(arguments: [
    (400, #"{"error":"invalid_grant","error_description":"x"}"#, Outcome.misconfigured(.invalidGrant)),
    (401, #"{"error":"invalid_client"}"#, .misconfigured(Reason("invalid_client"))),
    (400, #"{"error":"new"}"#, .misconfigured(.unknown)), (500, #"{"error":"internal_failure"}"#, outage),
    (429, #"{"error":"rate"}"#, outage), (403, "<html>", outage), (200, "<html>", outage),
  ])
  func `A refused account is misconfigured, an outage of OAuth is not`(
    status: Int, body: String, outcome: Outcome
  ) async throws {
    let server = try await Self.start(oauth: { _ in .init(status: status, body: body) })
    let providers = try Self.providers(server)
    #expect(await Self.send(providers) == outcome)
    // Nobody asks again for a moment: a refusal keeps everybody else from the route, an outage is told again.
    let next = await Self.send(providers)
    if case .misconfigured = outcome {
      #expect(next.reason == .breakerOpen)
    } else {
      #expect(next == outcome)
    }
    #expect(Self.assertions(server) == 1)
  }

  @Test func `An OAuth endpoint that never answers does not hold a sender beyond its deadline`() async throws
  {
    let server = try await Self.start(oauth: { _ in .granted("late", delay: .seconds(30)) })
    let providers = try Self.providers(server)
    #expect(await Self.send(providers, within: 0.2) == .retry(.signInTimeout, notBefore: nil, scope: .route))
  }

  @Test func `A refused access token is replaced once`() async throws {
    let clock = TestClock(Date())
    let server = try await Self.start(fcm: { request in
      request.headers.first(name: "authorization") == "Bearer token-2"
        ? .accepted : .init(status: 401, body: FCMOutcomeTests.error(401, "UNAUTHENTICATED"))
    })
    let providers = try Self.providers(server, clock: clock)
    // A token just made is not replaced: if that is refused, so will the next be.
    #expect(await Self.send(providers) == .misconfigured(.fcmUnauthenticated))
    #expect(Self.assertions(server) == 1)
    clock.advance(60)
    #expect(await Self.send(providers) == .delivered)
    #expect(Self.assertions(server) == 2)
  }

  @Test func `An answer whose body never ends is over at the deadline`() async throws {
    let server = try await Self.start(fcm: { _ in .init(status: 200, body: "{", end: .cut) })
    let providers = try Self.providers(server)
    #expect(await Self.send(providers, within: 0.5) == .retry(.timeout, notBefore: nil, scope: .route))
  }

  @Test func `Nobody listening is an outage`() async throws {
    let oauth = try await Self.start()
    let gone = try await Self.start()
    try await gone.stop()
    let clock = TestClock(Date())
    let providers = try PushProviders(
      configuration: .init(endpoints: [.fcm: URL(string: "http://127.0.0.1:\(gone.port)")]),
      now: { clock.now })
    providers.use(Credentials(fcm: [try TestKeys.fcmCredential(tokenPort: oauth.port)]))
    for _ in 0..<2 {
      #expect(
        await Self.send(providers, within: longestWait / .seconds(1))
          == .retry(.connectionRefused, notBefore: nil, scope: .route))
      clock.advance(3)
    }
    let route = Route(provider: .fcm, credential: "default", target: "demo")
    guard case .failing(.connectionRefused, _) = providers.routeStates()[route] else {
      Issue.record("\(providers.routeStates())")
      return
    }
  }

  @Test func `A cancelled sender is answered at once`() async throws {
    let server = try await Self.start(fcm: { _ in .init(delay: .seconds(30)) })
    let providers = try Self.providers(server)
    let push = Push.fcm(Self.message)
    let routeSender = try #require(providers.routeSender(for: push))
    let task = Task { await routeSender.attempt(push, of: .nobody, deadline: .now() + .seconds(60)) }
    await eventually { server.requests.count == 2 }
    task.cancel()
    guard case .underWay(let answer) = await task.value else {
      Issue.record("taken back from the provider")
      return
    }
    async let ending = answer()
    await providers.shutdown(within: .zero)
    #expect(await ending.outcome == .retry(.abandoned, notBefore: nil, scope: .process))
  }

  @Test func `Without a project the default one is taken`() async throws {
    let server = try await Self.start()
    let providers = try Self.providers(server)
    let first = try TestKeys.fcmCredential("a", project: "one", tokenPort: server.port)
    let second = try TestKeys.fcmCredential("b", project: "two", tokenPort: server.port)
    providers.use(Credentials(fcm: [first, second], defaultProject: "two"))
    #expect(
      providers.routeSender(for: .fcm(Self.message))?.route
        == Route(provider: .fcm, credential: "b", target: "two"))
    var named = Self.message
    named.project = "one"
    #expect(
      providers.routeSender(for: .fcm(named))?.route == Route(provider: .fcm, credential: "a", target: "one"))
    named.project = "three"
    #expect(providers.routeSender(for: .fcm(named))?.route == nil)
  }
}

extension TestWebServer.Answer {
  static let accepted = Self(body: #"{"name":"projects/demo/messages/1"}"#)

  static func granted(_ token: String, delay: TimeAmount = .zero) -> Self {
    Self(body: #"{"access_token":"\#(token)","expires_in":3600,"token_type":"Bearer"}"#, delay: delay)
  }
}
