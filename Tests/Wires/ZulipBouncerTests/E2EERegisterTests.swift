import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("push/e2ee/register", .bouncer())
struct E2EERegisterTests {
  private let bouncer = Fixture<Bouncer>.current

  @Test
  func `opens what upstream's phones seal`() async throws {
    let server = try await bouncer.server()
    let realm = try await bouncer.realm(of: server)
    let form = [
      ("realm_uuid", realm), ("token_id", "+wKIhyAx/Eg="),
      (
        "encrypted_push_registration",
        """
        XrHb4olAOsvUHBpHjLCV2FnABFFasjkjScoS1Dl6aSUzxgXdRxhWOuse012kI3UkYIi9scXp2pr6DHJNZhlDbIr2bNaefDKTOjx/\
        BnuXB+YZQ2XmI5rbcjLBhjRkvMbTUAUW4zB9psmUP5NQkTlKcswgsS7lN+Vp8BSZv39W0Y3zHz6BoLJ3cg==
        """
      ), ("bouncer_public_key", "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8="),
    ]
    bouncer.clock.set(Date(timeIntervalSince1970: 1_754_385_290 + 86_400))
    #expect(try await bouncer.post("push/e2ee/register", form, as: server).isSuccess)
    bouncer.clock.advance(1)
    let late = try await bouncer.post("push/e2ee/register", form, as: server)
    #expect(late.status == 400)
    #expect(late.code == "REQUEST_EXPIRED")
  }

  @Test
  func `refuses what was sealed for the Web Push gateway`() async throws {
    let server = try await bouncer.server()
    let realm = try await bouncer.realm(of: server)
    for audience in ["webpush", "zulip", ""] {
      guard case .object(var registration) = bouncer.fcm() else { return }
      registration["audience"] = .string(audience)
      let form = try bouncer.registerForm(realm: realm, .object(registration))
      let refusal = try await bouncer.post("push/e2ee/register", form, as: server)
      #expect(refusal.status == 400 && refusal.message == "Invalid encrypted_push_registration")
    }
    #expect(try await bouncer.rows("SELECT COUNT(*) FROM registrations") == [[0]])
  }

  @Test
  func `is refused beyond what a server may have, and renewed in any case`() async throws {
    try await Bouncer.test(["bouncer.max_registrations_per_server": "2"]) { bouncer in
      let (server, other) = (
        try await bouncer.server(), try await bouncer.server("other.example.org")
      )
      let realm = try await bouncer.realm(of: server)
      func register(_ token: String, of realm: String = realm, as server: Credentials = server) async throws
        -> Answer
      {
        let form = try bouncer.registerForm(realm: realm, bouncer.fcm(token))
        return try await bouncer.post("push/e2ee/register", form, as: server)
      }
      func registerLegacy(_ token: String) async throws -> Answer {
        try await bouncer.post(
          "push/register", [("user_id", "7"), ("token", token), ("token_kind", "2")], as: server)
      }
      #expect(try await register("first").isSuccess)
      #expect(try await registerLegacy("second").isSuccess)
      for isCounted in [false, true] {
        if isCounted { try await bouncer.parts.room.count() }
        for refusal in [try await register("third"), try await registerLegacy("third")] {
          #expect(refusal.status == 429 && refusal.headers[.retryAfter] == "3600", "\(isCounted)")
          #expect(refusal.message?.contains("has 2 registrations here") == true)
        }
        #expect(try await register("first").isSuccess)
        #expect(try await registerLegacy("second").isSuccess)
      }
      let elsewhere = try await bouncer.realm(of: other)
      #expect(try await register("third", of: elsewhere, as: other).isSuccess)
      #expect(
        try await bouncer.post(
          "push/unregister", [("user_id", "7"), ("token", "second"), ("token_kind", "2")], as: server
        ).isSuccess)
      try await bouncer.parts.room.count()
      #expect(try await register("third").isSuccess)
    }
  }

  @Test
  func `is not called too old while the clock may be wrong`() async throws {
    let server = try await bouncer.server()
    let realm = try await bouncer.realm(of: server)
    let form = try bouncer.registerForm(realm: realm, bouncer.apns())
    bouncer.clock.jump(25 * 3600)
    let refusal = try await bouncer.post("push/e2ee/register", form, as: server)
    #expect(refusal.status == 429 && refusal.code == "RATE_LIMIT_HIT")
    #expect(refusal.headers[.retryAfter] == "60")
    // What is wrong with it whatever the time is said at once, and what is not old is taken.
    let fresh = try bouncer.registerForm(realm: realm, bouncer.apns())
    #expect(
      try await bouncer.post("push/e2ee/register", fresh + [("token_id", "AAAA")], as: server).status == 400
    )
    #expect(try await bouncer.post("push/e2ee/register", fresh, as: server).isSuccess)
    try await bouncer.test.trustClock()
    #expect(
      try await bouncer.post("push/e2ee/register", form, as: server).code == "REQUEST_EXPIRED")
  }

  @Test
  func `is not refused for good while another node has a key that this one does not have yet`() async throws {
    let server = try await bouncer.server()
    let realm = try await bouncer.realm(of: server)
    let new = BouncerKeyPair().publicKeyBase64
    var form = try bouncer.registerForm(realm: realm, bouncer.apns())
    form[3].1 = new
    func answer() async throws -> [String] {
      let answer = try await bouncer.post("push/e2ee/register", form, as: server)
      return ["\(answer.status)", answer.headers[.retryAfter] ?? "", answer.code ?? ""]
    }
    let refused = ["400", "", "INVALID_BOUNCER_PUBLIC_KEY"]
    #expect(try await answer() == refused)
    let node = BouncerKeys(database: bouncer.database, now: { [clock = bouncer.clock] in clock.now })
    try await node.announce([new, bouncer.keyPair.publicKeyBase64])
    try await bouncer.keys.announce([bouncer.keyPair.publicKeyBase64])
    #expect(try await answer() == ["429", "5", "RATE_LIMIT_HIT"])
    // A node that goes on living tells again before that.
    bouncer.clock.advance(BouncerKeys.validity)
    #expect(try await answer() == refused)
  }

  @Test
  func `is refused for good as soon as a key is removed from the last node that had it`() async throws {
    let server = try await bouncer.server()
    let realm = try await bouncer.realm(of: server)
    let removed = BouncerKeyPair().publicKeyBase64
    var form = try bouncer.registerForm(realm: realm, bouncer.apns())
    form[3].1 = removed
    func code() async throws -> String? {
      try await bouncer.post("push/e2ee/register", form, as: server).code
    }
    let kept = bouncer.keyPair.publicKeyBase64
    let node = BouncerKeys(database: bouncer.database, now: { [clock = bouncer.clock] in clock.now })
    for keys in [bouncer.keys, node] { try await keys.announce([removed, kept]) }
    #expect(try await code() == "RATE_LIMIT_HIT")
    try await bouncer.keys.announce([kept])
    #expect(try await code() == "RATE_LIMIT_HIT")
    // Its own announcement of before is nobody else's, even where it is not withdrawn yet.
    try await node.announce([kept])
    try await bouncer.keys.announce([removed, kept])
    #expect(try await code() == "INVALID_BOUNCER_PUBLIC_KEY")
    #expect(try await bouncer.keys.isOwn(removed))
  }

  @Test
  func `asks to come again while the database cannot take it`() async throws {
    let server = try await bouncer.server()
    let form = try bouncer.registerForm(realm: try await bouncer.realm(of: server), bouncer.fcm())
    try await bouncer.database.write {
      try $0.runScript("ALTER TABLE registrations RENAME TO elsewhere")
    }
    let answer = try await bouncer.post("push/e2ee/register", form, as: server)
    #expect(answer.status == 429)
    #expect(answer.headers[.retryAfter] == "5")
  }

  @Test
  func `puts off a realm that is not known yet, as its server reports it later`() async throws {
    let server = try await bouncer.server()
    let realm = UUID().uuidString.lowercased()
    let form = try bouncer.registerForm(realm: realm, bouncer.apns("c0ffee"))
    let early = try await bouncer.post("push/e2ee/register", form, as: server)
    #expect((early.status, early.code) == (429, "RATE_LIMIT_HIT"))
    #expect(early.json["cause"] == "MISSING_REMOTE_REALM")
    #expect(early.headers[.retryAfter] == "60")
    _ = try await bouncer.realm(of: server, uuid: realm)
    #expect(try await bouncer.post("push/e2ee/register", form, as: server).isSuccess)
  }

  @Test
  func `refuses a plaintext that is not as it must be`() throws {
    let apns: JSON.Object = [
      "token": "c0ffee", "token_kind": "apns", "timestamp": 1_790_000_000, "ios_app_id": "example.app",
    ]
    let fcm: JSON.Object = ["token": "android", "token_kind": "fcm", "timestamp": 1_790_000_000]
    func read(_ json: JSON.Object, _ name: String, _ value: JSON?) -> PushRegistration? {
      var json = json
      json[name] = value
      return PushRegistration(JSON.object(json).bytes)
    }
    #expect(PushRegistration(JSON.object(apns).bytes) != nil && PushRegistration(Array("[]".utf8)) == nil)
    let taken: [(JSON.Object, String, JSON?)] = [
      (fcm, "ios_app_id", .null), (fcm, "more", [1]), (fcm, "timestamp", .number("5.0")),
      (fcm, "timestamp", "5"), (fcm, "timestamp", .integer(.max)),
    ]
    for (json, name, value) in taken { #expect(read(json, name, value) != nil, "\(name)") }
    let refused: [(JSON.Object, String, JSON?)] = [
      (apns, "token", nil), (apns, "token", 5), (apns, "token", ""), (apns, "token", "xyz"),
      (apns, "token", "abc"), (fcm, "token", .string(String(repeating: "a", count: 4097))),
      (apns, "token_kind", nil), (apns, "token_kind", "sms"), (apns, "token_kind", 1),
      (apns, "timestamp", nil), (apns, "timestamp", .null), (apns, "timestamp", .number("1.5")),
      (apns, "timestamp", "x"), (apns, "timestamp", .number("1e400")), (apns, "ios_app_id", nil),
      (apns, "ios_app_id", .null), (apns, "ios_app_id", ""), (apns, "ios_app_id", "a b"),
      (apns, "ios_app_id", "a\n"), (apns, "ios_app_id", .string(String(repeating: "a", count: 256))),
      (fcm, "ios_app_id", "example.app"), (fcm, "ios_app_id", ""),
    ]
    for (json, name, value) in refused { #expect(read(json, name, value) == nil, "\(name)") }
    let old = try #require(read(fcm, "timestamp", .integer(.min)))
    #expect(old.isExpired(at: Date(timeIntervalSince1970: 0)))
  }
}
