import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing
import ZulipBouncer

@Suite("push/e2ee/register")
struct E2EERegisterTests {
  @Test
  func `keeps a device, in either spelling of the plaintext`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let answer = try await bouncer.post(
        "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.apns()), as: server)
      #expect(answer.text == #"{"result":"success","msg":""}"# + "\n")
      let seconds = Int64(bouncer.clock.now.timeIntervalSince1970)
      for (token, timestamp) in [
        ("fcm-1", JSON.number("\(seconds).0")), ("fcm-2", .string("\(seconds)")),
        ("fcm-3", .integer(seconds + 999_999)),
        ("fcm-4", .integer(seconds - 86_400)), ("fcm-5", .integer(.max)),
      ] {
        let json: JSON = [
          "timestamp": timestamp, "token": .string(token), "token_kind": "fcm", "ios_app_id": nil,
          "more": [1, 2],
        ]
        var form = try bouncer.registerForm(realm: realm.uppercased(), json)
        form[2].1.insert("\n", at: form[2].1.index(form[2].1.startIndex, offsetBy: 40))
        #expect(try await bouncer.post("push/e2ee/register", form, as: server).isSuccess, "\(token)")
      }
      #expect(try await bouncer.dump()["registrations"]?.count == 6)
    }
  }

  @Test
  func `opens what upstream's phones seal`() async throws {
    try await Bouncer.test { bouncer in
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
      #expect(late.message == "Request expired")
    }
  }

  @Test
  func `is not called too old while the clock may be wrong`() async throws {
    try await Bouncer.test { bouncer in
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
  }

  @Test
  func `is not refused for good while another node has a key that this one does not have yet`() async throws {
    try await Bouncer.test { bouncer in
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
      try await bouncer.keys.announce([new, bouncer.keyPair.publicKeyBase64])
      #expect(try await answer() == ["429", "5", "RATE_LIMIT_HIT"])
      // A node that goes on living tells again before that.
      bouncer.clock.advance(BouncerKeys.interval * 3)
      #expect(try await answer() == refused)
      try await bouncer.keys.announce([new])
      #expect(try await answer().first == "429")
      try await bouncer.keys.withdraw([new])
      #expect(try await answer() == refused)
    }
  }

  @Test
  func `renews a device that is there and revives one that has expired`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let ids = [TokenID(token: "c0ffee")]
      func stored() async throws -> [Registration] {
        guard let row = try await bouncer.dump()["remote_realms"]?.first, case .integer(let id) = row[0]
        else { return [] }
        return try await bouncer.registrations.lookup(realm: id, tokenIDs: ids).found
      }
      _ = try await bouncer.post(
        "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.apns()), as: server)
      let first = try #require(try await stored().first)
      _ = try await bouncer.recorder.end([.init(first.reference, reason: "Unregistered")])
      #expect(try await stored().isEmpty)
      bouncer.clock.advance(100)
      guard case .object(var object) = bouncer.apns() else { return }
      object["ios_app_id"] = "other.app"
      let again = try await bouncer.post(
        "push/e2ee/register", bouncer.registerForm(realm: realm, .object(object)), as: server)
      #expect(again.isSuccess)
      let second = try #require(try await stored().first)
      #expect(second.reference.id == first.reference.id)
      #expect(second.iosAppID == "other.app")
      #expect(second.reference.registeredAt == first.reference.registeredAt + 100)
    }
  }

  @Test
  func `refuses what is wrong, in order, and changes nothing`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let theirs = try await bouncer.realm(of: try await bouncer.server("other.example.org"))
      let before = try await bouncer.dump()
      let good = try bouncer.registerForm(realm: realm, bouncer.apns())
      let names = good.map(\.0)
      func changed(_ changes: [String: String?]) -> [(String, String)] {
        good.compactMap { name, value in
          switch changes[name] {
          case .none: (name, value)
          case .some(.none): nil
          case .some(.some(let other)): (name, other)
          }
        }
      }
      for name in names {
        let answer = try await bouncer.post("push/e2ee/register", changed([name: String?.none]), as: server)
        #expect(answer.message == "Missing '\(name)' argument")
        #expect(answer.code == "REQUEST_VARIABLE_MISSING")
      }
      let mismatch =
        "Your organization is registered to a different Zulip server. \(Bouncer.gettingBack(theirs))"
      let unpadded = good[2].1.replacing("=", with: "") + "A"
      let table: [([String: String?], Int, String, String)] = [
        (
          ["realm_uuid": "e502dde1-74fb-44bc-9b9f-2b8b3a2f3e10", "bouncer_public_key": "x"], 403,
          "MISSING_REMOTE_REALM", "Organization not registered"
        ),
        (["realm_uuid": "nonsense"], 403, "MISSING_REMOTE_REALM", "Organization not registered"),
        (["realm_uuid": theirs], 403, "REMOTE_REALM_SERVER_MISMATCH_ERROR", mismatch),
        (
          ["bouncer_public_key": "x", "encrypted_push_registration": "x"], 400, "INVALID_BOUNCER_PUBLIC_KEY",
          "Invalid bouncer_public_key"
        ),
        (
          ["bouncer_public_key": bouncer.keyPair.publicKeyBase64 + "\n"], 400, "INVALID_BOUNCER_PUBLIC_KEY",
          "Invalid bouncer_public_key"
        ),
        (["bouncer_public_key": "a\0b"], 400, "INVALID_BOUNCER_PUBLIC_KEY", "Invalid bouncer_public_key"),
        (
          ["realm_uuid": theirs, "bouncer_public_key": "\0"], 403, "REMOTE_REALM_SERVER_MISMATCH_ERROR",
          mismatch
        ),
        (["token_id": "\0"], 400, "BAD_REQUEST", "token_id has invalid format"),
        (["encrypted_push_registration": ""], 400, "BAD_REQUEST", "Invalid encrypted_push_registration"),
        (["encrypted_push_registration": "AAAA"], 400, "BAD_REQUEST", "Invalid encrypted_push_registration"),
        (
          ["encrypted_push_registration": unpadded], 400, "BAD_REQUEST", "Invalid encrypted_push_registration"
        ),
        (
          ["bouncer_public_key": "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8="], 400, "BAD_REQUEST",
          "Invalid encrypted_push_registration"
        ),
        (["token_id": "192057"], 400, "BAD_REQUEST", "Invalid encrypted_push_registration"),
        (["token_id": "jS5/TZMf7/8="], 400, "BAD_REQUEST", "Invalid encrypted_push_registration"),
      ]
      for (changes, status, code, message) in table {
        let answer = try await bouncer.post("push/e2ee/register", changed(changes), as: server)
        #expect(answer.message == message, "\(changes)")
        #expect(answer.status == status, "\(changes)")
        #expect(answer.code == code, "\(changes)")
      }
      #expect(try await bouncer.dump() == before)
    }
  }

  @Test
  func `refuses a plaintext that is not as it must be`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let before = try await bouncer.dump()
      func without(_ json: JSON, _ name: String, _ value: JSON? = nil) -> JSON {
        guard case .object(var object) = json else { return json }
        object[name] = value
        return .object(object)
      }
      let apns = bouncer.apns()
      let fcm = bouncer.fcm()
      let plaintexts: [JSON] = [
        [], "text", without(apns, "token"), without(apns, "token", 5), without(apns, "token", ""),
        without(apns, "token", "xyz"), without(apns, "token", "abc"),
        without(fcm, "token", .string(String(repeating: "a", count: 4097))), without(apns, "token_kind"),
        without(apns, "token_kind", "sms"), without(apns, "token_kind", 1), without(apns, "timestamp"),
        without(apns, "timestamp", nil), without(apns, "timestamp", .number("1.5")),
        without(apns, "timestamp", "x"),
        without(apns, "timestamp", .number("1e400")), without(apns, "ios_app_id"),
        without(apns, "ios_app_id", nil),
        without(apns, "ios_app_id", ""), without(apns, "ios_app_id", "a b"),
        without(apns, "ios_app_id", "a\n"),
        without(fcm, "ios_app_id", "example.app"), without(fcm, "ios_app_id", ""),
      ]
      for plaintext in plaintexts {
        let form = try bouncer.registerForm(realm: realm, plaintext)
        let answer = try await bouncer.post("push/e2ee/register", form, as: server)
        #expect(answer.status == 400, "\(plaintext)")
        #expect(answer.code == "BAD_REQUEST", "\(plaintext)")
        #expect(answer.message == "Invalid encrypted_push_registration", "\(plaintext)")
      }
      // The token's own id comes before its age.
      let old = without(without(apns, "timestamp", .integer(.min)), "token", "c0ffee")
      #expect(
        try await bouncer.post("push/e2ee/register", bouncer.registerForm(realm: realm, old), as: server).code
          == "REQUEST_EXPIRED")
      #expect(try await bouncer.dump() == before)
    }
  }

  @Test
  func `asks to come again while the database cannot take it`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let form = try bouncer.registerForm(realm: try await bouncer.realm(of: server), bouncer.fcm())
      try await bouncer.database.write {
        try $0.runScript("ALTER TABLE registrations RENAME TO elsewhere")
      }
      let answer = try await bouncer.post("push/e2ee/register", form, as: server)
      #expect(answer.status == 429)
      #expect(answer.headers[.retryAfter] == "5")
    }
  }

  @Test
  func `is not for more than a mebibyte`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let answer = try await bouncer.call(
        "push/e2ee/register", authorization: server.header, type: "application/x-www-form-urlencoded",
        body: [UInt8](repeating: 0x61, count: 1 << 20 + 1))
      #expect(answer.status == 413)
    }
  }
}
