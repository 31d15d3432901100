import AsyncHTTPClient
import Crypto
import Foundation
import NIOHTTP1
import ProviderSimulator
import TestSupport
import Testing

@Suite(.client) struct WebPushTests {
  private let client = Fixture<Client>.current

  private let server = ApplicationServer()

  @Test(arguments: [HTTPClient.Configuration.HTTPVersion.automatic, .http1Only], ["127.0.0.1", "localhost"])
  func `takes a message for a subscription and shows it to the phone and to the control calls`(
    version: HTTPClient.Configuration.HTTPVersion, host: String
  ) async throws {
    try await Client.with(speaking: version) { client in
      let origin = "https://\(host):\(client.simulator.webPushPort)"
      let endpoint = try await client.subscribe(server, at: origin)
      #expect(endpoint.hasPrefix("\(origin)/push/"))
      let body = ApplicationServer.body()
      let answer = try await client.send(
        to: endpoint, from: server, headers: ["ttl": "9999999999", "topic": "a-topic_1"], body: body)
      #expect(answer.status == 201 && answer.body == "")
      #expect(answer.headers["ttl"] == ["2419200"])
      #expect(answer.headers.first(name: "location")?.hasPrefix("\(origin)/message/") == true)
      let (next, messages) = try await client.messages(at: endpoint)
      #expect(messages.count == 1 && next == 1)
      let shown = try await client.control(.GET, "/deliveries").json["deliveries"] as? [[String: Any]]
      for message in messages + (shown ?? []) {
        #expect(message["provider"] as? String == "webpush")
        #expect(message["token"] as? String == endpoint.subscriptionID)
        #expect(message["origin"] as? String == origin)
        #expect((message["payload"] as? String).flatMap { Data(base64Encoded: $0) } == Data(body))
        let headers = message["headers"] as? [String: String]
        #expect(
          headers?["urgency"] == "high" && headers?["topic"] == "a-topic_1"
            && headers?["authorization"] == nil)
      }
      #expect(shown?.count == 1)
      #expect(client.simulator.counts.webPush == 1)
      #expect(client.simulator.counts.connections == 1)
    }
  }

  @Test func `refuses what is no push message`() async throws {
    let endpoint = try await client.subscribe(server)
    typealias Wrong = (headers: [String: String?], body: [UInt8]?, status: Int, reason: String)
    let good = ApplicationServer.body()
    var offCurve = [UInt8](P256.KeyAgreement.PrivateKey().publicKey.x963Representation)
    offCurve[64] ^= 1
    let compressed = [UInt8](P256.KeyAgreement.PrivateKey().publicKey.compressedRepresentation)
    let wrong: [Wrong] = [
      (["ttl": nil], nil, 400, "MissingTTL"), (["ttl": "-1"], nil, 400, "InvalidTTL"),
      (["ttl": ""], nil, 400, "InvalidTTL"), (["ttl": "1.5"], nil, 400, "InvalidTTL"),
      (["urgency": "urgent"], nil, 400, "InvalidUrgency"), (["urgency": ""], nil, 400, "InvalidUrgency"),
      (["topic": String(repeating: "a", count: 33)], nil, 400, "InvalidTopic"),
      (["topic": "a b"], nil, 400, "InvalidTopic"), (["topic": ""], nil, 400, "InvalidTopic"),
      (["content-encoding": nil], nil, 400, "InvalidContentEncoding"),
      (["content-encoding": "aesgcm"], nil, 400, "InvalidContentEncoding"),
      ([:], ApplicationServer.body(record: 4011), 413, "PayloadTooLarge"),
      ([:], [], 400, "InvalidEncryption"), ([:], Array(good.prefix(85)), 400, "InvalidEncryption"),
      ([:], ApplicationServer.body(size: 17), 400, "InvalidEncryption"),
      ([:], ApplicationServer.body(record: 16), 400, "InvalidEncryption"),
      ([:], ApplicationServer.body(record: 100, size: 100), 400, "InvalidEncryption"),
      ([:], ApplicationServer.body(keyID: []), 400, "InvalidEncryption"),
      ([:], ApplicationServer.body(keyID: compressed), 400, "InvalidEncryption"),
      ([:], ApplicationServer.body(keyID: offCurve), 400, "InvalidEncryption"),
    ]
    for wrong in wrong {
      let answer = try await client.send(
        to: endpoint, from: server, headers: wrong.headers, body: wrong.body ?? good)
      #expect(answer.status == wrong.status && answer.reason == wrong.reason, "\(wrong): \(answer.body)")
      #expect(answer.json["error"] is String)
    }
    for name in ["ttl", "urgency", "topic", "content-encoding"] {
      let answer = try await client.send(
        to: endpoint, from: server, headers: [name: nil], also: [name: "low", name.uppercased(): "low"])
      #expect(answer.reason == "DuplicateHeader", "\(answer.body)")
    }
    #expect(try await client.send(to: endpoint, from: server, method: .PUT).status == 405)
    #expect(try await client.messages(at: endpoint).messages.isEmpty)
    #expect(client.simulator.counts.webPush == 0)
    // The least and the most that are one.
    for body in [ApplicationServer.body(record: 17, size: 18), ApplicationServer.body(record: 4010)] {
      #expect(try await client.send(to: endpoint, from: server, body: body).status == 201)
    }
    let plain = try await client.send(to: endpoint, from: server, headers: ["ttl": "0", "urgency": nil])
    #expect(plain.status == 201 && plain.headers["ttl"] == ["0"])
  }

  @Test func `refuses tokens that are not for it, not of now or not the subscription's`() async throws {
    let endpoint = try await client.subscribe(server)
    let origin = client.simulator.webPushEndpoint
    let other = ApplicationServer()
    let now = Int(Date().timeIntervalSince1970)
    let good = try server.authorization(for: origin)
    let parts = good.split(separator: ", ")
    let wrong: [(field: String?, status: Int, reason: String)] = [
      (nil, 401, "MissingVAPID"), ("Bearer x", 401, "MissingVAPID"), ("vapid", 401, "MissingVAPID"),
      (String(parts[0]), 401, "MissingVAPID"), ("vapid \(parts[1])", 401, "MissingVAPID"),
      ("\(good), k=\(server.publicKey)", 401, "MissingVAPID"),
      ("vapid t=x, \(parts[1])", 401, "InvalidSignature"),
      (try server.authorization(for: origin, signer: other.key), 401, "InvalidSignature"),
      (try server.authorization(for: origin, alg: "none"), 401, "InvalidSignature"),
      (try server.authorization(for: origin, k: "AAAA"), 401, "InvalidKey"),
      (try server.authorization(for: origin, k: server.publicKey + "="), 401, "MissingVAPID"),
      (try server.authorization(for: origin + "/"), 401, "InvalidAudience"),
      (try server.authorization(for: "https://push.example.org"), 401, "InvalidAudience"),
      (
        try server.authorization(for: "https://localhost:\(client.simulator.webPushPort)"), 401,
        "InvalidAudience"
      ),
      (try server.authorization(for: "https://localhost"), 401, "InvalidAudience"),
      (try server.authorization(for: "https://127.0.0.1:443"), 401, "InvalidAudience"),
      (try server.authorization(for: origin, lifetime: -1), 401, "ExpiredToken"),
      (try server.authorization(for: origin, lifetime: 86460), 401, "InvalidExpiry"),
      (try server.authorization(for: origin, exp: "\(now + 3600).5"), 401, "InvalidClaims"),
      (try server.authorization(for: origin, exp: #""\#(now + 3600)""#), 401, "InvalidClaims"),
      (try server.authorization(for: origin, sub: nil), 401, "InvalidClaims"),
      (try server.authorization(for: origin, sub: #""admin@example.org""#), 401, "InvalidSubject"),
      (try server.authorization(for: origin, sub: #""http://example.org""#), 401, "InvalidSubject"),
      (try other.authorization(for: origin), 403, "KeyMismatch"),
    ]
    for wrong in wrong {
      let answer = try await client.send(
        to: endpoint, from: server, headers: ["authorization": wrong.field])
      #expect(answer.status == wrong.status && answer.reason == wrong.reason, "\(wrong): \(answer.body)")
    }
    let twice = try await client.send(to: endpoint, from: server, also: ["authorization": good])
    #expect(twice.reason == "MissingVAPID")
    #expect(client.simulator.counts.webPush == 0)
    let token = try server.authorization(
      for: origin, lifetime: 86000, sub: #""https://example.org/contact""#)
    let before = client.simulator.counts.vapidTokens
    let swapped = "VAPID k=\"\(server.publicKey)\",t=\(token.dropFirst(8).prefix { $0 != "," })"
    for field in [token, token, swapped] {
      #expect(
        try await client.send(to: endpoint, from: server, headers: ["authorization": field]).status == 201)
    }
    #expect(client.simulator.counts.vapidTokens == before + 2)
  }

  /// PHP's minishlink/web-push, with which Nextcloud's servers send, makes `aud` of scheme and host.
  @Test(arguments: ["127.0.0.1", "localhost"])
  func `takes a token that names it without its port`(host: String) async throws {
    let endpoint = try await client.subscribe(
      server, at: "https://\(host):\(client.simulator.webPushPort)")
    let token = try server.authorization(for: "https://\(host)")
    let answer = try await client.send(to: endpoint, from: server, headers: ["authorization": token])
    #expect(answer.status == 201, "\(answer.body)")
    #expect(try await client.messages(at: endpoint).messages.count == 1)
  }

  @Test func `a token that was good ends with its time`() async throws {
    let clock = TestClock(Date())
    try await Client.with(clock.configuration) { client in
      let endpoint = try await client.subscribe(server)
      let token = try server.authorization(for: client.simulator.webPushEndpoint, now: clock.now)
      func send() async throws -> String? {
        try await client.send(to: endpoint, from: server, headers: ["authorization": token]).reason
      }
      #expect(try await send() == nil)
      clock.advance(3601)
      #expect(try await send() == "ExpiredToken")
    }
  }

  @Test func `a subscription that was ended is gone, and one that never was is unknown`() async throws {
    let endpoint = try await client.subscribe(server)
    let phone = endpoint.replacing("/push/", with: "/subscriptions/")
    #expect(try await client.send(to: endpoint, from: server).status == 201)
    #expect(try await client.send(.DELETE, phone).status == 200)
    #expect(try await client.send(to: endpoint, from: server).status == 410)
    #expect(try await client.send(.GET, phone + "/messages").status == 410)
    #expect(try await client.send(.DELETE, phone).status == 200)
    #expect(try await client.send(to: endpoint + "x", from: server).status == 404)
    #expect(try await client.send(.DELETE, phone + "x").status == 404)
    #expect(try await client.send(.GET, phone + "x/messages").status == 404)
    #expect(try await client.send(.GET, client.simulator.webPushEndpoint + "/").status == 404)
  }

  @Test(arguments: ["/fcm/send", "/wp"]) func `an endpoint may be one like Google's`(path: String)
    async throws
  {
    let subscriptions = client.simulator.webPushEndpoint + "/subscriptions"
    let body = #"{"vapid":"\#(server.publicKey)","path":"\#(path)"}"#
    let answer = try await client.send(.POST, subscriptions, [:], body)
    let endpoint = try #require(answer.json["endpoint"] as? String)
    #expect(endpoint.hasPrefix("\(client.simulator.webPushEndpoint)\(path)/") && endpoint.contains(":APA91b"))
    #expect(try await client.send(to: endpoint, from: server).status == 201)
    #expect(try await client.send(to: endpoint, from: ApplicationServer()).status == 403)
    let id = try #require(endpoint.split(separator: "/").last)
    #expect(try await client.send(.DELETE, "\(subscriptions)/\(id)").status == 200)
    #expect(try await client.send(to: endpoint, from: server).status == 410)
  }

  @Test(arguments: [#""path":"/else""#, #""path":5"#, #""path":"""#])
  func `an endpoint of another form is refused`(path: String) async throws {
    let answer = try await client.send(
      .POST, client.simulator.webPushEndpoint + "/subscriptions", [:],
      #"{"vapid":"\#(server.publicKey)",\#(path)}"#)
    #expect(answer.status == 400)
  }

  @Test(arguments: ["", "{}", #"{"vapid":5}"#, #"{"vapid":"AAAA"}"#, "[]"])
  func `nobody subscribes without an application server's key`(body: String) async throws {
    let answer = try await client.send(
      .POST, client.simulator.webPushEndpoint + "/subscriptions", [:], body)
    #expect(answer.status == 400 && answer.json["error"] is String)
  }

  @Test func `another origin is not served, nor clear text`() async throws {
    let endpoint = try await client.subscribe(server)
    let other = try await client.send(
      to: endpoint, from: server,
      headers: [
        "host": "push.example.org", "authorization": server.authorization(for: "https://push.example.org"),
      ])
    #expect(other.status == 421)
    await #expect(throws: (any Error).self) {
      _ = try await client.subscribe(server, at: "http://127.0.0.1:\(client.simulator.webPushPort)")
    }
  }

  @Test
  func `a topic replaces what was not fetched yet, and what was fetched is forgotten with the next call`()
    async throws
  {
    let endpoint = try await client.subscribe(server)
    func send(_ topic: String?) async throws {
      #expect(try await client.send(to: endpoint, from: server, headers: ["topic": topic]).status == 201)
    }
    func numbers(since: Int = 0) async throws -> [Int?] {
      try await client.messages(at: endpoint, since: since).messages.map { $0["sequence"] as? Int }
    }
    for topic in ["a", "b", nil, "a"] { try await send(topic) }
    #expect(try await numbers() == [2, 3, 4])
    try await send("a")
    #expect(try await numbers() == [2, 3, 4, 5])
    #expect(try await numbers(since: 3) == [4, 5])
    #expect(try await numbers() == [4, 5])
    #expect(try await client.messages(at: endpoint, since: 5).next == 5)
    for _ in 0..<102 { try await send(nil) }
    let many = try await numbers()
    #expect(many.count == 100 && many.last == 107)
  }

  @Test func `a message that was not fetched in time is gone`() async throws {
    let clock = TestClock(Date())
    try await Client.with(clock.configuration) { client in
      let endpoint = try await client.subscribe(server)
      let token = try server.authorization(for: client.simulator.webPushEndpoint, now: clock.now)
      for life in ["0", "60", "3600"] {
        let answer = try await client.send(
          to: endpoint, from: server, headers: ["ttl": life, "authorization": token])
        #expect(answer.status == 201)
      }
      #expect(try await client.messages(at: endpoint).messages.count == 3)
      clock.advance(59)
      #expect(try await client.messages(at: endpoint).messages.count == 2)
      clock.advance(2)
      #expect(try await client.messages(at: endpoint).messages.count == 1)
    }
  }

  @Test func `a phone that waits hears at once of a message, and of the subscription's end`() async throws {
    let endpoint = try await client.subscribe(server)
    let other = try await client.subscribe(server)
    async let waiting = client.messages(at: endpoint, wait: 300).next
    _ = try await client.send(to: other, from: server)
    _ = try await client.send(to: endpoint, from: server)
    #expect(try await waiting == 2)
    // Repeated, so that some requests are waiting when the client gives up, long before the five minutes
    // are over.
    for _ in 0..<20 {
      let short = try await client.subscribe(server)
      async let ending = client.messages(at: short, wait: 300).next
      _ = try await client.send(.DELETE, short.replacing("/push/", with: "/subscriptions/"))
      #expect(try await ending == -410)
    }
    for query in ["since=x", "wait=-1", "from=1"] {
      let url = other.replacing("/push/", with: "/subscriptions/") + "/messages?" + query
      #expect(try await client.send(.GET, url).status == 400)
    }
  }
}

extension TestClock {
  /// A configuration with this clock.
  fileprivate var configuration: SimulatedProviders.Configuration {
    var configuration = SimulatedProviders.Configuration()
    configuration.now = { self.now }
    return configuration
  }
}
