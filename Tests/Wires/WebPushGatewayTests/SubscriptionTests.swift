import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Registrations
import SQL
import Sealing
import Server
import TestService
import TestSupport
import Testing

@testable import Providers
@testable import WebPushGateway
@testable import ZulipBouncer

@Suite("Subscriptions to the Web Push gateway")
struct SubscriptionTests {
  @Test(arguments: PushToken.Kind.allCases)
  func `are made, shown, renewed and ended by the app that has the secret`(_ kind: PushToken.Kind)
    async throws
  {
    try await Gateway.test { gateway in
      let sender = Sender()
      let app = try await gateway.subscribe(Gateway.registration(kind, sender: sender))
      #expect(app.endpoint.hasPrefix("\(Gateway.publicURL)/webpush/v1/push/"))
      #expect(app.endpoint.utf8.count == Gateway.publicURL.utf8.count + 17 + 64)

      let shown = try await gateway.call(.get, app.path, secret: app.secret)
      #expect(shown.status == 200)
      #expect(shown.json["id"]?.string == app.id && shown.json["endpoint"]?.string == app.endpoint)
      #expect(shown.json["token_kind"]?.string == kind.rawValue)
      #expect(shown.json["renewed_at"]?.string?.hasSuffix("Z") == true)
      #expect(shown.json["ios_app_id"]?.string == (kind == .apns ? Gateway.topic : nil))
      #expect(shown.json["application_server_key"]?.string == sender.publicKey)
      #expect(!shown.text.contains(Gateway.apnsToken) && !shown.text.contains(Gateway.fcmToken))

      let token = kind == .apns ? String(Gateway.apnsToken.reversed()) : Gateway.fcmToken + "2"
      let renewed = try await gateway.call(
        .put, app.path, Gateway.registration(kind, token: token), secret: app.secret)
      #expect(renewed.status == 200 && renewed.json["endpoint"]?.string == app.endpoint)
      // Who does not name a sender's key keeps it.
      #expect(try await gateway.post(app).status == 401)
      #expect(try await gateway.post(app, sender.authorization(at: gateway.clock.now)).status == 201)
      #expect(gateway.simulator.deliveries().map(\.token) == [token])

      #expect(try await gateway.call(.delete, app.path, secret: app.secret).status == 204)
      #expect(try await gateway.call(.delete, app.path, secret: app.secret).status == 204)
      #expect(try await gateway.call(.get, app.path, secret: app.secret).status == 404)
      #expect(try await gateway.post(app, sender.authorization(at: gateway.clock.now)).status == 410)
      #expect(try await gateway.count("registrations") == 0)
    }
  }

  @Test func `find room beside those of an address that has most of it`() async throws {
    // Of 40 an address has 30 at most, and a whole /48 is one.
    try await Gateway.test(["webpush_gateway.max_subscriptions": "40"]) { gateway in
      func subscribe(_ number: Int, from address: String, at app: Gateway.App? = nil) async throws -> Answer {
        let token = Gateway.fcmToken + "\(number)"
        return try await gateway.call(
          app == nil ? .post : .put, app?.path ?? "/webpush/v1/subscriptions",
          Gateway.registration(.fcm, token: token), secret: app?.secret, from: address)
      }
      let first = try await gateway.subscribe(Gateway.registration(.fcm))
      for number in 1...30 {
        #expect(try await subscribe(number, from: "2001:db8:1:\(number)::1").status == 201)
      }
      let room = gateway.test.service.bouncer.room
      for isCounted in [false, true] {
        if isCounted { try await room.count() }
        let refusal = try await subscribe(31, from: "2001:db8:1:ffff::1")
        #expect(refusal.status == 429 && refusal.headers[.retryAfter] == "3600", "\(isCounted)")
        #expect(try await subscribe(32, from: "2001:db8:1::1", at: first).status == 200)
        #expect(try await subscribe(33, from: isCounted ? "192.0.2.1" : "192.0.2.2").status == 201)
      }
    }
  }

  @Test func `end after a month in which nothing was ever sent to them, unless they are renewed`()
    async throws
  {
    try await Gateway.test(isWorking: true) { gateway in
      let (used, renewed, unused) = (
        try await gateway.subscribe(Gateway.registration(.fcm, token: Gateway.fcmToken + "1")),
        try await gateway.subscribe(Gateway.registration(.fcm, token: Gateway.fcmToken + "2")),
        try await gateway.subscribe(Gateway.registration(.fcm, token: Gateway.fcmToken + "3"))
      )
      #expect(try await gateway.post(used).status == 201)
      try await eventually("the success is written") {
        try await gateway.test.rows("SELECT id FROM registrations WHERE delivered_at IS NOT NULL").count == 1
      }
      gateway.clock.advance(20 * 86_400)
      let again = Gateway.registration(.fcm, token: Gateway.fcmToken + "2")
      #expect(try await gateway.call(.put, renewed.path, again, secret: renewed.secret).status == 200)
      gateway.clock.advance(20 * 86_400)
      let now = gateway.clock.now
      func remove() async throws -> Int {
        try await subscriptions(gateway).removeUnused(
          since: now - 400 * 86_400, neverUsedSince: now - RegistrationRoom.trial, limit: 10)
      }
      #expect(try await remove() == 1)
      #expect(try await remove() == 0)
      for (app, status) in [(used, 200), (renewed, 200), (unused, 404)] {
        #expect(try await gateway.call(.get, app.path, secret: app.secret).status == status)
      }
    }
  }

  @Test func `are taken sealed to the bouncer's key`() async throws {
    try await Gateway.test { gateway in
      let key = try #require(gateway.test.service.bouncer.keyring().all.first?.pair.publicKey)
      func sealed(_ json: JSON, to publicKey: [UInt8] = key) throws -> JSON {
        [
          "bouncer_public_key": .string(Base64.encode(key)),
          "encrypted_push_registration": .string(
            Base64.encode(try #require(SealedBox.seal(json.bytes, to: publicKey)))),
        ]
      }
      func contents(age: Int64 = 0, for audience: JSON? = "webpush") -> JSON {
        var json: JSON.Object = [
          "token": .string(Gateway.apnsToken), "token_kind": "apns", "ios_app_id": .string(Gateway.topic),
          "timestamp": .integer(Int64(gateway.clock.now.timeIntervalSince1970) - age),
        ]
        json["audience"] = audience
        return .object(json)
      }
      let app = try await gateway.subscribe(try sealed(contents()))
      #expect(try await gateway.post(app).status == 201)
      #expect(gateway.simulator.deliveries().map(\.token) == [Gateway.apnsToken])
      var foreign = try sealed(contents())
      if case .object(var object) = foreign {
        object["bouncer_public_key"] = .string(Base64.encode(BouncerKeyPair().publicKey))
        foreign = .object(object)
      }
      for (json, message) in [
        (try sealed(contents(age: 86_500)), "sealed more than a day ago"),
        (try sealed(contents(), to: BouncerKeyPair().publicKey), "does not open"),
        (foreign, "no key of this service"), (try sealed("x"), "malformed"),
        (try sealed(contents(for: nil)), "not sealed for this"),
        (try sealed(contents(for: "zulip")), "not sealed for this"),
        (try sealed(contents(for: 1)), "malformed"),
        (["encrypted_push_registration": "AAAA"], "bouncer_public_key is missing"),
      ] as [(JSON, String)] {
        let answer = try await gateway.call(.post, "/webpush/v1/subscriptions", json)
        #expect(
          answer.status == 400 && answer.json["message"]?.string?.contains(message) == true, "\(answer.text)")
      }
      #expect(try await gateway.count("registrations") == 1)
    }
  }

  @Test(arguments: [
    ("[]", "no JSON object"), ("{", "no JSON object"), ("{}", "token_kind must be"),
    (#"{"token_kind":"web","token":"x"}"#, "token_kind must be"),
    (#"{"token_kind":"fcm"}"#, "token is missing"), (#"{"token_kind":"fcm","token":7}"#, "must be a string"),
    (#"{"token_kind":"fcm","token":"short"}"#, "token is malformed"),
    (
      #"{"token_kind":"fcm","token":"webpush:eyJlbmRwb2ludCI6Imh0dHBzOi8vMTI3LjAuMC4xIn0=="}"#,
      "token is malformed"
    ),
    (
      #"{"token_kind":"fcm","token":"webpush:eyJlbmRwb2ludCI6Imh0dHBzOi8vMTI3LjAuMC4xIn0"}"#,
      "token is malformed"
    ),
    (#"{"token_kind":"apns","token":"xyz","ios_app_id":"org.example.chat"}"#, "token is malformed"),
    (#"{"token_kind":"apns","token":"0123456789","ios_app_id":"org.example.chat"}"#, "token is malformed"),
    (
      #"{"token_kind":"apns","token":"\#(Gateway.apnsToken) AB","ios_app_id":"org.example.chat"}"#,
      "token is malformed"
    ),
    (#"{"token_kind":"apns","token":"\#(Gateway.apnsToken)"}"#, "ios_app_id"),
    (#"{"token_kind":"apns","token":"\#(Gateway.apnsToken)","ios_app_id":"a/../b"}"#, "ios_app_id"),
    (#"{"token_kind":"fcm","token":"\#(Gateway.fcmToken)","application_server_key":"AAAA"}"#, "VAPID key"),
  ])
  func `that are malformed get a sentence and change nothing`(_ body: String, _ message: String) async throws
  {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      let before = try await gateway.test.rows("SELECT * FROM registrations")
      for (method, path) in [(HTTPRequest.Method.post, "/webpush/v1/subscriptions"), (.put, app.path)] {
        let answer = try await gateway.test.call(
          method, path, headers: [.authorization: "Bearer \(app.secret)"], body: body.utf8)
        #expect(answer.status == 400)
        #expect(answer.json["message"]?.string?.contains(message) == true, "\(answer.text)")
      }
      #expect(try await gateway.test.rows("SELECT * FROM registrations") == before)
    }
  }

  @Test func `of apps that no key serves are refused, but stay where they are`() async throws {
    try await Gateway.test { gateway in
      var json = Gateway.registration(.apns)
      if case .object(var object) = json {
        object["ios_app_id"] = "org.example.other"
        json = .object(object)
      }
      let answer = try await gateway.call(.post, "/webpush/v1/subscriptions", json)
      #expect(answer.status == 403 && answer.json["message"]?.string?.contains("not known") == true)
      #expect(try await gateway.count("registrations") == 0)

      let app = try await gateway.subscribe(Gateway.registration(.apns))
      gateway.test.service.providers.use(Credentials(apns: [], fcm: []))
      let renewed = try await gateway.call(
        .put, app.path, Gateway.registration(.apns, token: String(Gateway.apnsToken.reversed())),
        secret: app.secret)
      #expect(renewed.status == 200)
    }
  }

  @Test func `are nobody's but the secret's, and nothing tells it`() async throws {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      let other = try await gateway.subscribe()
      for secret in [nil, "", other.secret, String(app.secret.reversed()), app.secret + "A"] as [String?] {
        for method in [HTTPRequest.Method.get, .put, .delete] {
          let answer = try await gateway.call(method, app.path, Gateway.registration(), secret: secret)
          #expect(answer.status == 401)
          #expect(answer.headers[.wwwAuthenticate] == "Bearer")
        }
      }
      let contents = try await gateway.test.contents()
      let endpoint = try #require(app.push.split(separator: "/").last)
      for text in [Gateway.fcmToken, app.secret, String(endpoint)] {
        #expect(contents.range(of: Data(text.utf8)) == nil)
      }
      #expect(try await gateway.count("registrations") == 2)
    }
  }

  @Test func `whose row is gone are made again by their app, with the endpoint that their sender has`()
    async throws
  {
    try await Gateway.test { gateway in
      let app = try await gateway.subscribe()
      _ = try await gateway.test.service.store.database.execute("DELETE FROM registrations")
      let answer = try await gateway.call(.put, app.path, Gateway.registration(), secret: app.secret)
      #expect(answer.status == 201 && answer.json["endpoint"]?.string == app.endpoint)
      #expect(try await gateway.post(app).status == 201)
    }
  }

  @Test func `are limited by address`() async throws {
    try await Gateway.test(["webpush_gateway.new_subscriptions_per_address": "2/1h"]) { gateway in
      let app = try await gateway.subscribe(from: "198.51.100.1")
      _ = try await gateway.subscribe(from: "198.51.100.1")
      let refused = try await gateway.call(
        .post, "/webpush/v1/subscriptions", Gateway.registration(), from: "198.51.100.1")
      #expect(refused.status == 429 && refused.headers[.retryAfter] == "3600")
      _ = try await gateway.subscribe(from: "198.51.100.2")
      // Renewals are not new.
      let renewed = try await gateway.call(
        .put, app.path, Gateway.registration(), secret: app.secret, from: "198.51.100.1")
      #expect(renewed.status == 200)
      #expect(try await gateway.count("registrations") == 3)
    }
    try await Gateway.test(["webpush_gateway.rate_limit.per_address": "3/60s"]) { gateway in
      for status in [401, 401, 401, 429] {
        let answer = try await gateway.call(.get, "/webpush/v1/subscriptions/x", from: "198.51.100.1")
        #expect(answer.status == status)
      }
      #expect(try await gateway.call(.get, "/webpush/v1/subscriptions/x", from: "198.51.100.2").status == 401)
    }
  }

  private func subscriptions(_ gateway: Gateway) -> GatewaySubscriptions {
    let store = gateway.test.service.store
    return GatewaySubscriptions(
      database: store.database, storageKey: store.storageKey, now: { gateway.clock.now })
  }

  @Test func `are counted as failing until something is delivered`() async throws {
    try await Gateway.test(isWorking: true) { gateway in
      let app = try await gateway.subscribe()
      gateway.simulator.setToken(Gateway.fcmToken, TokenRule(status: 400, reason: "INVALID_ARGUMENT"))
      #expect(try await gateway.post(app).status == 503)
      #expect(try await subscriptions(gateway).counts().map(\.failing) == [1])
      func shown() async throws -> [String?] {
        let json = try await gateway.call(.get, app.path, secret: app.secret).json
        return [json["last_failure"]?.string, json["last_failure_at"]?.string]
      }
      let failure = try await shown()
      #expect(failure[0] == "invalidRegistrationToken" && failure[1]?.hasSuffix("Z") == true, "\(failure)")
      #expect(
        try await gateway.call(.put, app.path, Gateway.registration(), secret: app.secret).status == 200)
      #expect(try await shown() == [nil, nil])
      gateway.simulator.setToken(Gateway.fcmToken, nil)
      gateway.clock.advance(1)
      #expect(try await gateway.post(app).status == 201)
      try await eventually("the success is written") {
        try await subscriptions(gateway).counts().map(\.failing) == [0]
      }
    }
  }

  @Test func `that nobody renews or sends to are forgotten`() async throws {
    try await Gateway.test(isWorking: true) { gateway in
      let unused = try await gateway.subscribe()
      let used = try await gateway.subscribe()
      let renewed = try await gateway.subscribe()
      /// Waits until this many have had a message lately.
      func wait(for count: Int) async throws {
        let day = (gateway.clock.now - 86_400).milliseconds
        try await eventually("the successes are written") {
          try await gateway.test.rows("SELECT id FROM registrations WHERE delivered_at > \(day)").count
            == count
        }
      }
      for app in [unused, used, renewed] { #expect(try await gateway.post(app).status == 201) }
      try await wait(for: 3)
      gateway.clock.advance(300 * 86_400)
      #expect(try await gateway.post(used).status == 201)
      #expect(
        try await gateway.call(.put, renewed.path, Gateway.registration(), secret: renewed.secret).status
          == 200)
      try await wait(for: 1)
      gateway.clock.advance(200 * 86_400)
      let forgotten = try await subscriptions(gateway).removeUnused(
        since: gateway.clock.now - 400 * 86_400, neverUsedSince: gateway.clock.now - 400 * 86_400, limit: 100)
      #expect(forgotten == 1)
      #expect(try await gateway.call(.get, unused.path, secret: unused.secret).status == 404)
      #expect(try await gateway.call(.get, used.path, secret: used.secret).status == 200)
      #expect(try await gateway.call(.get, renewed.path, secret: renewed.secret).status == 200)
    }
  }
}
