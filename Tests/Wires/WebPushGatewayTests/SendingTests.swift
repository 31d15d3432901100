import Foundation
import HTTP
import HTTPTypes
import NIOCore
import ProviderSimulator
import SQL
import Sealing
import Server
import TestService
import TestSupport
import Testing

@testable import Providers
@testable import WebPushGateway

@Suite("Messages to the Web Push gateway")
struct SendingTests {
  @Test(arguments: PushToken.Kind.allCases)
  func `reach the app, which alone can read them`(_ kind: PushToken.Kind) async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe(Gateway.registration(kind))
      let target = try WebPushSubscription(
        endpoint: app.endpoint, p256dh: app.keys.publicKey, auth: app.keys.auth)
      let body = try WebPushEncryption.encrypt(ByteBuffer(string: "Hello"), for: target)
      let answer = try await gateway.post(app, [.urgency: "high"], body: body.readableBytesView)
      #expect(answer.status == 201 && answer.text.isEmpty)
      #expect(answer.headers[.timeToLive] == "60")
      #expect(answer.headers[.location]?.hasPrefix("\(app.endpoint)/") == true)

      let arrived = try #require(gateway.arrived().first)
      #expect(arrived["subscription"]?.string == app.id)
      #expect(arrived["encoding"]?.string == "aes128gcm")
      let got = try #require(arrived["body"]?.string.flatMap { Base64URL.decode($0) })
      #expect(got == Array(body.readableBytesView))
      #expect(try app.keys.open(got) == Array("Hello".utf8))
      let delivery = try #require(gateway.simulator.deliveries().first)
      let json = try JSON.parse(Array(delivery.payload))
      switch kind {
      case .apns:
        #expect(json["aps"]?["alert"]?["title-loc-key"]?.string == "New notification")
        #expect(json["aps"]?["mutable-content"] == 1 && json["aps"]?["sound"] == "default")
        #expect(delivery.header("apns-priority") == "10" && delivery.header("apns-push-type") == "alert")
        let end = Int(gateway.clock.now.timeIntervalSince1970) + 60
        #expect(delivery.header("apns-expiration").flatMap { Int($0) }.map { abs($0 - end) <= 1 } == true)
      case .fcm:
        #expect(json["message"]?["android"]?["priority"]?.string?.lowercased() == "high")
        #expect(json["message"]?["android"]?["ttl"]?.string == "60s")
      }
    }
  }

  /// RFC 8291 appendix A: what the RFC's sender posts arrives byte for byte, and opens with its receiver's key.
  @Test func `of the RFC's example arrive byte for byte`() async throws {
    let message = """
      DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95b\
      Q5pdSRlaoQX8DrBcQ9dv6pHJMeZRFEbMmsCRaYUApZ9rtoiH0lKeHMu_DS4eRfMyRZ_gqGHLLiFqbtuBrCbzkQ
      """
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      #expect(try await gateway.post(app, body: try #require(Base64URL.decode(message))).status == 201)
      #expect(gateway.arrived().first?["body"]?.string == message)
    }
  }

  @Test func `of the draft's encryption carry its sender's key and its salt`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe(Gateway.registration(.apns))
      let body = Gateway.ciphertext(40)
      let headers: HTTPFields = [
        .cryptoKey: #"dh="BEl62iUYgUivxIkv69yViEuiBIa-Ib9";p256ecdsa=BDd3"#,
        .encryption: "keyid=p256dh;salt=lngarbyKf+oi9Z/5xYXmkg==",
      ]
      #expect(try await gateway.post(app, headers, body: body, encoding: "aesgcm").status == 201)
      let arrived = try #require(gateway.arrived().first)
      #expect(arrived["encoding"]?.string == "aesgcm")
      #expect(arrived["crypto_key"]?.string == "BEl62iUYgUivxIkv69yViEuiBIa-Ib9")
      #expect(arrived["encryption"]?.string == "lngarbyKf-oi9Z_5xYXmkg")
      #expect(arrived["body"]?.string == Base64URL.encode(body))
      for missing in [HTTPField.Name.cryptoKey, .encryption] {
        var headers = headers
        headers[missing] = nil
        #expect(try await gateway.post(app, headers, body: body, encoding: "aesgcm").status == 400)
      }
      #expect(gateway.simulator.deliveries().count == 1)
    }
  }

  @Test func `without a body say only whom they are for`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      #expect(try await gateway.post(app, body: [UInt8](), encoding: nil).status == 201)
      #expect(gateway.arrived() == [["subscription": .string(app.id)]])
    }
  }

  @Test(arguments: [("very-low", "5", "normal"), ("Low", "5", "normal"), ("NORMAL", "10", "high")])
  func `wake a phone as their urgency says`(_ urgency: String, _ apple: String, _ google: String) async throws
  {
    try await Gateway.test { gateway in
      for kind in PushToken.Kind.allCases {
        let app = try await gateway.subscribe(Gateway.registration(kind))
        #expect(try await gateway.post(app, [.urgency: urgency]).status == 201)
      }
      for delivery in gateway.simulator.deliveries() {
        let json = try JSON.parse(Array(delivery.payload))
        if delivery.provider == .apns {
          #expect(delivery.header("apns-priority") == apple)
          #expect((json["aps"]?["sound"] != nil) == (apple == "10"))
        } else {
          #expect(json["message"]?["android"]?["priority"]?.string?.lowercased() == google)
        }
      }
      #expect(gateway.simulator.deliveries().count == 2)
    }
  }

  /// Bodies around the longest that fits, of both providers.
  @Test(arguments: PushToken.Kind.allCases)
  func `of any length arrive`(_ kind: PushToken.Kind) async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe(Gateway.registration(kind))
      let lengths =
        Array(stride(from: 103, through: 4096, by: 499)) + Array(2800...3060).filter { $0 % 13 == 0 }
      for length in lengths {
        #expect(try await gateway.post(app, body: Gateway.ciphertext(length)).status == 201)
      }
      let arrived = gateway.arrived()
      #expect(arrived.count == lengths.count)
      let fitting = arrived.count { $0["body"] != nil }
      #expect(fitting > 8 && fitting < lengths.count)
      #expect(try await gateway.count("gateway_messages") == Int64(lengths.count - fitting))
    }
  }

  @Test(
    arguments: [
      (nil, "aes128gcm", 200, [:], 400, "TTL is missing"), ("-1", "aes128gcm", 200, [:], 400, "TTL must be"),
      ("soon", "aes128gcm", 200, [:], 400, "TTL must be"), ("60", nil, 200, [:], 415, "Content-Encoding"),
      ("60", "gzip", 200, [:], 415, "Content-Encoding"), ("60", "aes128gcm", 102, [:], 400, "too short"),
      ("60", "aes128gcm", 4097, [:], 413, "too large"),
      ("60", "aes128gcm", 200, [.urgency: "now"], 400, "Urgency"),
      ("60", "aes128gcm", 200, [.urgency: "high, low"], 400, "Urgency"),
      ("60", "aes128gcm", 200, [.topic: "a b"], 400, "Topic"),
      ("60", "aes128gcm", 200, [.topic: String(repeating: "t", count: 33)], 400, "Topic"),
      ("60", "aes128gcm", 200, [.topic: ""], 400, "Topic"),
      (
        "60", "aesgcm", 40, [.cryptoKey: "dh=\(String(repeating: "A", count: 600))", .encryption: "salt=x"],
        400, "512"
      ),
    ] as [(String?, String?, Int, HTTPFields, Int, String)])
  func `that break the RFCs get their status and a sentence`(
    _ ttl: String?, _ encoding: String?, _ length: Int, _ headers: HTTPFields, _ status: Int,
    _ message: String
  ) async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      let answer = try await gateway.post(
        app, headers, body: Gateway.ciphertext(length), ttl: ttl, encoding: encoding)
      #expect(answer.status == status, "\(answer.text)")
      #expect(answer.json["message"]?.string?.contains(message) == true, "\(answer.text)")
      #expect(gateway.simulator.deliveries().isEmpty)
      #expect(try await gateway.count("outbox") == 0)
    }
  }

  @Test func `for years are kept for four weeks, and their sender is told`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      for life in ["2419200", "99999999999999999999"] {
        let answer = try await gateway.post(app, ttl: life)
        #expect(answer.status == 201 && answer.headers[.timeToLive] == "2419200")
      }
    }
  }

  @Test func `to endpoints that are none touch nothing`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      let bytes = try #require(app.push.split(separator: "/").last.flatMap { Base64URL.decode($0) })
      var forged = bytes
      forged[0] ^= 1
      for path in [
        Base64URL.encode(forged), Base64URL.encode(bytes.dropLast()), app.id, "x",
        String(repeating: "A", count: 64),
        String(repeating: "A", count: 8000),
      ] {
        let answer = try await gateway.test.call(
          .post, "/webpush/v1/push/\(path)", headers: [.timeToLive: "60", .contentEncoding: "aes128gcm"],
          body: Gateway.ciphertext())
        #expect(answer.status == 404, "\(answer.text)")
      }
      #expect(gateway.simulator.deliveries().isEmpty)
    }
  }

  @Test(arguments: PushToken.Kind.allCases)
  func `with a topic, padded or not, tell the app which are of one topic`(_ kind: PushToken.Kind) async throws
  {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe(Gateway.registration(kind))
      let topics = ["cm9vbTE", "cm9vbTE=", "cm9vbTE==", "b", nil] as [String?]
      for topic in topics {
        var headers: HTTPFields = [:]
        headers[.topic] = topic
        #expect(try await gateway.post(app, headers).status == 201, "\(topic ?? "")")
      }
      let arrived = gateway.arrived().map { $0["topic"]?.string }
      #expect(arrived.count == topics.count && arrived[4] == nil)
      #expect(Set(arrived[0...2]).count == 1 && arrived[0]?.utf8.count == 32)
      #expect(arrived[3] != nil && arrived[3] != arrived[0])
      for topic in ["a===", "=", "a=b"] {
        #expect(try await gateway.post(app, [.topic: topic]).status == 400, "\(topic)")
      }
    }
  }

  @Test func `of one topic replace each other while they wait`() async throws {
    try await Gateway.test { gateway in
      let apps = [try await gateway.subscribe(), try await gateway.subscribe(Gateway.registration(.apns))]
      var faults = gateway.simulator.faults
      faults.fcm.outage = true
      faults.apns.outage = true
      await gateway.simulator.setFaults(faults)
      for app in apps {
        for topic in ["a", "a", "b", nil, nil] as [String?] {
          var headers: HTTPFields = [:]
          headers[.topic] = topic
          #expect(try await gateway.post(app, headers).status == 201)
        }
      }
      // Each app's a, b and two without a topic: no app's topic is another's.
      #expect(try await gateway.count("outbox") == 8)
    }
  }

  @Test(arguments: PushToken.Kind.allCases)
  func `that wait go to the app's present token, for the rest of their time`(_ kind: PushToken.Kind)
    async throws
  {
    try await Gateway.test(isWorking: true) { gateway in
      let app = try await gateway.subscribe(Gateway.registration(kind))
      // The service signs in to Google before its clock is ahead of Google's.
      #expect(try await gateway.post(app).status == 201)
      let working = gateway.simulator.faults
      var faults = working
      faults.fcm.outage = true
      faults.apns.outage = true
      await gateway.simulator.setFaults(faults)
      #expect(try await gateway.post(app, ttl: "3600").status == 201)
      let token = kind == .apns ? String(Gateway.apnsToken.reversed()) : Gateway.fcmToken + "b"
      let renewal = Gateway.registration(kind, token: token)
      #expect(try await gateway.call(.put, app.path, renewal, secret: app.secret).status == 200)
      await gateway.simulator.setFaults(working)
      gateway.clock.advance(150)
      await eventually { gateway.simulator.deliveries().count == 2 }
      let delivery = try #require(gateway.simulator.deliveries().last)
      #expect(delivery.token == token)
      guard kind == .fcm else { return }
      let json = try JSON.parse(Array(delivery.payload))
      let left = json["message"]?["android"]?["ttl"]?.string.flatMap { Int($0.dropLast()) }
      #expect(left.map { (3300...3450).contains($0) } == true, "\(String(describing: left))")
    }
  }

  /// The provider takes the newer one at once, while the older one waits for its turn.
  @Test func `of one topic do not arrive after a newer one`() async throws {
    try await Gateway.test(isWorking: true) { gateway in
      let app = try await gateway.subscribe(Gateway.registration(.apns))
      gateway.simulator.setToken(
        Gateway.apnsToken, TokenRule(status: 503, reason: "ServiceUnavailable", times: 3))
      for (topic, length) in [("a", 4096), ("b", 200)] {
        let body = Gateway.ciphertext(length)
        #expect(try await gateway.post(app, [.topic: topic], body: body, ttl: "3600").status == 201)
      }
      #expect(try await gateway.count("outbox") == 1)
      #expect(try await gateway.post(app, [.topic: "a"], ttl: "3600").status == 201)
      #expect(try await gateway.count("outbox") == 0)
      gateway.clock.advance(300)
      let former = gateway.simulator.deliveries().count
      #expect(former == 2)
    }
  }

  /// Two senders to one app use the same topic.
  @Test func `of one topic of two subscriptions stand apart on an iPhone`() async throws {
    try await Gateway.test { gateway in
      for _ in 1...2 {
        let app = try await gateway.subscribe(Gateway.registration(.apns))
        for _ in 1...2 { #expect(try await gateway.post(app, [.topic: "a"]).status == 201) }
      }
      let ids = gateway.simulator.deliveries().compactMap { $0.header("apns-collapse-id") }
      #expect(ids.count == 4 && ids[0] == ids[1] && ids[2] == ids[3] && ids[1] != ids[2])
    }
  }

  @Test(arguments: PushToken.Kind.allCases)
  func `that are under way to a token while the app renews it go to the new one`(_ kind: PushToken.Kind)
    async throws
  {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe(Gateway.registration(kind))
      let (former, token) =
        kind == .apns
        ? (Gateway.apnsToken, String(Gateway.apnsToken.reversed()))
        : (Gateway.fcmToken, Gateway.fcmToken + "2")
      let dead = kind == .apns ? (410, "Unregistered") : (404, "UNREGISTERED")
      gateway.simulator.setToken(
        former, TokenRule(status: dead.0, reason: dead.1, timestamp: .none, delayMilliseconds: 500))
      async let answer = gateway.post(app)
      await eventually("the message is under way") {
        !gateway.simulator.deliveries(includingRefused: true).isEmpty
      }
      gateway.clock.advance(1)
      let renewal = Gateway.registration(kind, token: token)
      #expect(try await gateway.call(.put, app.path, renewal, secret: app.secret).status == 200)
      let got = try await answer
      #expect(got.status == 201, "\(got.text)")
      #expect(gateway.simulator.deliveries().map(\.token) == [token])
    }
  }

  @Test(arguments: [
    (nil, ["alert": 4]), ("low", ["alert": 2, "background": 2]), ("normal", ["alert": 1, "background": 3]),
  ])
  func `show nothing on an iPhone where the subscription wants that for their urgency`(
    _ silent: String?, _ types: [String: Int]
  ) async throws {
    try await Gateway.test { gateway in
      guard case .object(var registration) = Gateway.registration(.apns) else { return }
      registration["silent_urgency"] = silent.map { .string($0) }
      let app = try await gateway.subscribe(.object(registration))
      let shown = try await gateway.call(.get, app.path, secret: app.secret)
      #expect(shown.json["silent_urgency"]?.string == silent)
      for urgency in ["very-low", "low", "normal", "high"] {
        #expect(try await gateway.post(app, [.urgency: urgency]).status == 201)
      }
      var got: [String: Int] = [:]
      for delivery in gateway.simulator.deliveries() {
        let type = try #require(delivery.header("apns-push-type"))
        got[type, default: 0] += 1
        guard type == "background" else { continue }
        let aps = try JSON.parse(Array(delivery.payload))["aps"]
        #expect(aps == ["content-available": 1] && delivery.header("apns-priority") == "5")
      }
      #expect(got == types)
      registration["silent_urgency"] = nil
      #expect(try await gateway.call(.put, app.path, .object(registration), secret: app.secret).status == 200)
      #expect(try await gateway.post(app, [.urgency: "very-low"]).status == 201)
      #expect(gateway.simulator.deliveries().last?.header("apns-push-type") == "alert")
      registration["silent_urgency"] = "high"
      let refused = try await gateway.call(.put, app.path, .object(registration), secret: app.secret)
      #expect(refused.status == 400 && refused.json["code"]?.string == "bad_request")
    }
  }

  @Test func `for a dead token end the subscription`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe(Gateway.registration(.apns))
      #expect(try await gateway.post(app).status == 201)
      gateway.simulator.setToken(
        Gateway.apnsToken, TokenRule(status: 410, reason: "Unregistered", timestamp: .none))
      #expect(try await gateway.post(app).status == 410)
      #expect(try await gateway.post(app).status == 410)
      #expect(try await gateway.call(.get, app.path, secret: app.secret).status == 404)
      #expect(try await gateway.count("registrations") == 0)
    }
  }

  @Test func `for a subscription that the database may have lost are not answered as for one that has ended`()
    async throws
  {
    try await Gateway.test(isWorking: true) { gateway in
      let apps = [try await gateway.subscribe(), try await gateway.subscribe()]
      let database = gateway.test.service.store.database
      _ = try await database.execute("DELETE FROM registrations")
      for app in apps { #expect(try await gateway.post(app).status == 410) }
      // As if it were another one, from a backup for example.
      _ = try await database.execute("DELETE FROM metadata WHERE name = 'store'")
      for app in apps {
        let answer = try await gateway.post(app)
        #expect(answer.status == 503 && answer.headers[.retryAfter] != nil)
        #expect(try await gateway.call(.get, app.path, secret: app.secret).status == 503)
      }
    }
  }

  @Test func `that no provider takes are promised up to a limit, and the sender is told when to come back`()
    async throws
  {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      var faults = gateway.simulator.faults
      faults.fcm.outage = true
      await gateway.simulator.setFaults(faults)
      var statuses: [Int: Int] = [:]
      for index in 0..<150 {
        let answer = try await gateway.post(app, [.topic: "t\(index)"])
        statuses[answer.status, default: 0] += 1
        if answer.status == 429 { #expect(answer.headers[.retryAfter] != nil) }
      }
      #expect(statuses == [201: 100, 429: 50])
      #expect(try await gateway.count("outbox") == 100)
      for _ in 0..<105 { _ = try await gateway.post(app, body: Gateway.ciphertext(4096)) }
      // Nothing is kept of what was not promised.
      #expect(try await gateway.count("gateway_messages") == 0)
    }
  }

  @Test func `that are under way take no more memory than there is, and addresses leave each other room`()
    async throws
  {
    // Enough for eight at a time, of one address six.
    try await Gateway.test(["http.max_bytes_in_flight": "400 KiB"]) { gateway in
      let slow = try await gateway.subscribe(Gateway.registration(.apns))
      let quick = try await gateway.subscribe()
      let rule = TokenRule(status: 200, delayMilliseconds: 4000)
      gateway.simulator.setToken(Gateway.apnsToken, rule)
      try await withThrowingTaskGroup(of: Answer.self) { group in
        for _ in 0..<20 {
          group.addTask { try await gateway.post(slow, [.xForwardedFor: "192.0.2.1"]) }
        }
        var answers = [try #require(try await group.next())]
        // The first to be answered is refused, while others wait for the provider.
        #expect(answers[0].status == 503 && answers[0].headers[.retryAfter] == "5")
        #expect(answers[0].json["message"]?.string == "Service temporarily unavailable")
        #expect(try await gateway.post(quick, [.xForwardedFor: "192.0.2.2"]).status == 201)
        for try await answer in group { answers.append(answer) }
        #expect(answers.count { $0.status == 201 } == 6 && answers.count { $0.status == 503 } == 14)
      }
      #expect(try await gateway.post(quick, [.xForwardedFor: "192.0.2.1"]).status == 201)
    }
  }
}
