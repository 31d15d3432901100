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
  private var bouncer: Bouncer { Fixture.current }

  private static let endpoint = "https://push.example.org/send/abc"

  @Test(.bouncer(["http.rate_limit.per_address": "2/60s"]))
  func `is told so often per address`() async throws {
    var statuses: [Int] = []
    for _ in 0..<3 {
      statuses.append(
        try await bouncer.test.call(
          .get, "/api/v1/zulip-services/webpush/vapid", headers: [.xForwardedFor: "192.0.2.1"]
        ).status)
    }
    #expect(statuses == [200, 200, 429])
  }

  @Test(.bouncer())
  func `is registered like any token, and kept sealed`() async throws {
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

  @Test(.bouncer())
  func `is refused where nothing can be sent to it, in the words of the wire, and nothing is kept`()
    async throws
  {
    let server = try await bouncer.server()
    let realm = try await bouncer.realm(of: server)
    let phone = WebPushPhone()
    for token in [
      "webpush:", "webpush:e30", "http://push.example.org/x", "https://10.1.2.3:8443/x", "https://ntfy/x",
    ]
    .map({ $0.contains("://") ? phone.token(at: $0) : $0 }) {
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

  @Test(.bouncer(["webpush.allow_private_hosts": "127.0.0.1, NTFY"]))
  func `may be at a private host that the operator has named`() async throws {
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
