import Foundation
import HTTP
import HTTPTypes
import Providers
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("Web Push: a subscription is a token of kind FCM")
struct WebPushTests {
  private static let endpoint = "https://push.example.org/send/abc"

  /// Tokens that begin like a subscription and are none that anything can be sent to.
  static let malformed: [String] = {
    let phone = WebPushPhone()
    func token(
      _ endpoint: String = endpoint, p256dh: String = phone.publicKey, auth: String = phone.auth
    ) -> String {
      WebPushPhone.token(#"{"endpoint":"\#(endpoint)","p256dh":"\#(p256dh)","auth":"\#(auth)"}"#)
    }
    let long = "https://push.example.org/" + String(repeating: "a", count: 766 - 25)
    // A point with a coordinate changed lies on the curve no more.
    var point = Array(phone.publicKey)
    point[60] = point[60] == "A" ? "B" : "A"
    return [
      "webpush:", "webpush:%", "webpush:e30", WebPushPhone.token("[]"), WebPushPhone.token("{"),
      token("http://push.example.org/x"), token("push.example.org/x"), token("https:///x"), token(""),
      token("ftp://push.example.org/x"), token("https://me:secret@push.example.org/x"),
      token("https://me@push.example.org/x"), token("https://push.example.org/x#y"), token(long),
      token("https://push.example.org:0/x"), token("https://push.example.org:65536/x"),
      token("https://b\u{fc}cher.example/x"), token(p256dh: String(point)), token(p256dh: ""),
      token(p256dh: String(phone.publicKey.dropLast(4))), token(auth: String(phone.auth.dropLast(3))),
      token(auth: phone.auth + "AAAA"), token(auth: ""),
    ]
  }()

  /// Hosts that messages are not sent to.
  static let refusedHosts = [
    "127.0.0.1", "10.1.2.3:8443", "169.254.169.254", "192.0.2.1", "8.8.8.8", "[::1]", "[fd00::1]:8443",
    "[2001:4860:4860::8888]", "[::ffff:127.0.0.1]", "localhost", "LOCALHOST.", "ntfy", "0x7f.1", "127.1",
  ]

  @Test
  func `is told the key by which push services know us, without a login`() async throws {
    try await Bouncer.test { bouncer in
      let answer = try await bouncer.test.call(.get, "/api/v1/zulip-services/webpush/vapid")
      #expect(answer.isSuccess)
      let key = try #require(answer.json["vapid"]?.string)
      #expect(key.utf8.count == 87 && key.hasPrefix("B"))
      #expect(key == bouncer.providers.vapidPublicKey)
      let again = try await bouncer.test.call(.get, "//api/v1/zulip-services/webpush/vapid")
      #expect(again.json["vapid"]?.string == key)
      let other = try await bouncer.test.call(.post, "/api/v1/zulip-services/webpush/vapid")
      #expect(other.status == 405)
    }
  }

  @Test
  func `is told so often per address`() async throws {
    try await Bouncer.test(["http.rate_limit.per_address": "2/60s"]) { bouncer in
      var statuses: [Int] = []
      for _ in 0..<3 {
        statuses.append(
          try await bouncer.test.call(
            .get, "/api/v1/zulip-services/webpush/vapid", headers: [.xForwardedFor: "192.0.2.1"]
          ).status)
      }
      #expect(statuses == [200, 200, 429])
    }
  }

  @Test
  func `switched off, tells no key and takes no subscription`() async throws {
    try await Bouncer.test(["webpush.enabled": "false"]) { bouncer in
      let answer = try await bouncer.test.call(.get, "/api/v1/zulip-services/webpush/vapid")
      #expect(answer.status == 404 && answer.code == "BAD_REQUEST")
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let token = WebPushPhone().token(at: Self.endpoint)
      let form = try bouncer.registerForm(realm: realm, bouncer.fcm(token))
      let refusal = try await bouncer.post("push/e2ee/register", form, as: server)
      #expect(refusal.message == "Invalid encrypted_push_registration")
      #expect(try await bouncer.rows("SELECT 1 FROM vapid_keys").isEmpty)
    }
  }

  @Test
  func `is registered like any token, and kept sealed`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let phone = WebPushPhone()
      let endpoints = [
        Self.endpoint, "https://push.example.org:8443/x", "https://PUSH.example.org",
        "https://push.example.org/" + String(repeating: "a", count: 765 - 25),
      ]
      for endpoint in endpoints {
        let token = phone.token(at: endpoint)
        let form = try bouncer.registerForm(realm: realm, bouncer.fcm(token))
        #expect(try await bouncer.post("push/e2ee/register", form, as: server).isSuccess, "\(endpoint)")
        let legacy = OldUser(id: 5).register(token, .fcm, realm: realm)
        #expect(try await bouncer.post("push/register", legacy, as: server).isSuccess, "\(endpoint)")
      }
      // What its JSON has besides is the app's business, and padding is allowed.
      let spelled = WebPushPhone.token(
        #"{"auth":"\#(phone.auth)==","v":1,"p256dh":"\#(phone.publicKey)=","endpoint":"\#(Self.endpoint)"}"#)
      let form = try bouncer.registerForm(realm: realm, bouncer.fcm(spelled))
      #expect(try await bouncer.post("push/e2ee/register", form, as: server).isSuccess)
      let counts = try await bouncer.rows(
        "SELECT (SELECT COUNT(*) FROM registrations WHERE wire = 1), (SELECT COUNT(*) FROM registrations WHERE wire = 2)"
      )
      #expect(counts == [[5, 4]])
      let contents = try await bouncer.test.contents()
      for secret in ["push.example.org", phone.auth, "webpush:"] {
        #expect(contents.range(of: Data(secret.utf8)) == nil, "\(secret)")
      }
    }
  }

  @Test
  func `is refused where nothing can be sent to it, in the words of the wire, and nothing is kept`()
    async throws
  {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let phone = WebPushPhone()
      for token in Self.malformed + Self.refusedHosts.map({ phone.token(at: "https://\($0)/x") }) {
        let form = try bouncer.registerForm(realm: realm, bouncer.fcm(token))
        let refusal = try await bouncer.post("push/e2ee/register", form, as: server)
        #expect(refusal.status == 400, "\(token)")
        #expect(refusal.message == "Invalid encrypted_push_registration")
        let legacy = try await bouncer.post(
          "push/register", OldUser(id: 5).register(token, .fcm, realm: realm), as: server)
        #expect(legacy.status == 400, "\(token)")
        #expect(legacy.message == "Empty or invalid length token")
      }
      let kept = try await bouncer.rows(
        "SELECT id FROM registrations")
      #expect(kept.isEmpty)
    }
  }

  @Test
  func `may be at a private host that the operator has named`() async throws {
    try await Bouncer.test(["webpush.allow_private_hosts": "127.0.0.1, NTFY"]) { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      for (host, isTaken) in [("127.0.0.1:2199", true), ("ntfy", true), ("127.0.0.2", false)] {
        let token = WebPushPhone().token(at: "https://\(host)/x")
        let form = try bouncer.registerForm(realm: realm, bouncer.fcm(token))
        let answer = try await bouncer.post("push/e2ee/register", form, as: server)
        #expect(answer.isSuccess == isTaken, "\(host)")
      }
    }
  }

  @Test
  func `is no subscription where it is no token of kind FCM or begins otherwise`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let apple = bouncer.apns(WebPushPhone().token(at: Self.endpoint))
      let refusal = try await bouncer.post(
        "push/e2ee/register", bouncer.registerForm(realm: realm, apple), as: server)
      #expect(refusal.message == "Invalid encrypted_push_registration")
      for token in ["WebPush:x", "webpush", "x webpush:"] {
        let answer = try await bouncer.post(
          "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.fcm(token)), as: server)
        #expect(answer.isSuccess, "\(token)")
      }
    }
  }
}
