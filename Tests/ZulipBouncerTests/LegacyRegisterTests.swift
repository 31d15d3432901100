import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@Suite("push/register, push/unregister, push/unregister/all")
struct LegacyRegisterTests {
  private func rows(_ bouncer: Bouncer, _ columns: String) async throws -> [[Value]] {
    try await bouncer.rows("SELECT \(columns) FROM registrations WHERE wire = 2 ORDER BY id")
  }

  @Test
  func `keep a token once, whatever the case of an APNs token, and name what is not asked for`() async throws
  {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let user = OldUser(id: 10)
      for token in ["c0ffee", "C0FFEE", " c0Ffee "] {
        let answer = try await bouncer.post(
          "push/register", user.register(token, .apns, realm: realm), as: server)
        #expect(
          answer.text
            == #"{"result":"success","msg":"","ignored_parameters_unsupported":["server_uuid"]}"# + "\n")
      }
      for token in ["fcm-a", "FCM-A"] {
        #expect(
          try await bouncer.post("push/register", user.register(token, .fcm, realm: realm), as: server)
            .isSuccess)
      }
      #expect(
        try await rows(bouncer, "user_id, user_uuid, kind, target")
          == [
            [.null, .text(user.uuid), 1, .text(Simulated.topic)], [.null, .text(user.uuid), 2, .null],
            [.null, .text(user.uuid), 2, .null],
          ])
      #expect(try await rows(bouncer, "realm_id").allSatisfy { $0 != [.null] })
    }
  }

  @Test
  func `renew what is there: its time, and nothing else but what it lacked`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let user = OldUser(id: 10)
      _ = try await bouncer.post("push/register", user.register("c0ffee", .apns, named: .uuid), as: server)
      let first = try await rows(bouncer, "id, registered_at, target, token")
      #expect(try await rows(bouncer, "realm_id") == [[.null]])
      bouncer.clock.advance(5)
      var again = user.register("C0FFEE", .apns, realm: realm, named: .uuid)
      again[again.firstIndex { $0.0 == "ios_app_id" } ?? 0].1 = "other.app"
      #expect(try await bouncer.post("push/register", again, as: server).isSuccess)
      let second = try await rows(bouncer, "id, registered_at, target, token")
      guard case .integer(let time) = first[0][1] else { throw CocoaError(.coderInvalidValue) }
      #expect(second == [[first[0][0], .integer(time + 5000), first[0][2], first[0][3]]])
      #expect(try await rows(bouncer, "realm_id").allSatisfy { $0 != [.null] })
    }
  }

  @Test
  func `keep a user with a number and a UUID under the UUID, in place of what was under the number`()
    async throws
  {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let (user, other) = (OldUser(id: 10), OldUser(id: 11))
      for user in [user, other] {
        _ = try await bouncer.post("push/register", user.register("c0ffee", .apns, named: .id), as: server)
      }
      #expect(try await rows(bouncer, "user_id, user_uuid") == [[10, .null], [11, .null]])
      _ = try await bouncer.post("push/register", user.register("C0FFEE", .apns), as: server)
      #expect(try await rows(bouncer, "user_id, user_uuid") == [[11, .null], [.null, .text(user.uuid)]])
    }
  }

  @Test
  func `refuse what is wrong, in this order, and keep nothing of it`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let other = try await bouncer.server("other.example.org")
      let foreign = try await bouncer.realm(of: other)
      let uuid = UUID().uuidString
      let good = [("user_id", "1"), ("token", "c0ffee"), ("token_kind", "1"), ("ios_app_id", "app")]
      func with(_ changes: [String: String], without missing: String...) -> [(String, String)] {
        good.filter { changes[$0.0] == nil && !missing.contains($0.0) } + changes.map { ($0, $1) }
      }
      let cases: [([(String, String)], String)] = [
        ([], "Missing 'token' argument"),
        (with([:], without: "token_kind"), "Missing 'token_kind' argument"),
        (with(["user_id": "x"], without: "token"), "user_id is not valid JSON"),
        (with(["user_id": "\"1\""]), "user_id is not an integer"),
        (with(["token": "  "]), "token cannot be blank"),
        (with(["token_kind": "1.0"]), "token_kind is not an integer"),
        (with(["ios_app_id": "a b"]), "ios_app_id has invalid format"),
        (with(["token_kind": "3", "token": "zz"]), "Invalid token type"),
        (with(["token": String(repeating: "a", count: 4098)]), "Empty or invalid length token"),
        (with(["token": "c0ffe"]), "Invalid APNS token"), (with(["token": "xyz0"]), "Invalid APNS token"),
        (with([:], without: "ios_app_id"), "Missing ios_app_id"),
        (with([:], without: "user_id"), "Missing user_id or user_uuid"),
        (with(["user_uuid": "nobody"]), "user_uuid has invalid format"),
        (with(["realm_uuid": foreign]), "Missing user_uuid"),
      ]
      for (form, message) in cases {
        let answer = try await bouncer.post("push/register", form, as: server)
        #expect(answer.status == 400 && answer.message == message, "\(message): \(answer.text)")
      }
      let mismatch = try await bouncer.post(
        "push/register", with(["user_uuid": uuid, "realm_uuid": foreign]), as: server)
      #expect(mismatch.status == 403 && mismatch.code == "REMOTE_REALM_SERVER_MISMATCH_ERROR")
      #expect(try await rows(bouncer, "id").isEmpty)
      // A realm that nobody has told of does no harm.
      for realm in [UUID().uuidString, "no uuid"] {
        #expect(
          try await bouncer.post(
            "push/register", with(["user_uuid": uuid, "realm_uuid": realm]), as: server
          ).isSuccess)
      }
      #expect(try await rows(bouncer, "realm_id") == [[.null]])
    }
  }

  @Test
  func `forget one token in every spelling, or all of a user on that server`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let other = try await bouncer.server("other.example.org")
      let (user, neighbour) = (OldUser(id: 10), OldUser(id: 11))
      for (user, server) in [(user, server), (neighbour, server), (user, other)] {
        for token in ["c0ffee", "beef"] {
          _ = try await bouncer.post("push/register", user.register(token, .apns), as: server)
        }
        _ = try await bouncer.post("push/register", user.register("fcm-a", .fcm), as: server)
      }
      func form(_ token: String, _ kind: Int, _ user: OldUser) -> [(String, String)] {
        [("token", token), ("token_kind", "\(kind)"), ("user_uuid", user.uuid), ("realm_uuid", "any")]
      }
      // One that is not there is as good as forgotten.
      for (token, kind) in [("C0FFEE", 1), ("c0ffee", 1), ("FCM-A", 2), ("beef", 2)] {
        #expect(try await bouncer.post("push/unregister", form(token, kind, user), as: server).isSuccess)
      }
      let nobody = try await bouncer.post(
        "push/unregister", [("token", "beef"), ("token_kind", "1")], as: server)
      #expect(nobody.message == "Missing user_id or user_uuid")
      #expect(try await bouncer.post("push/unregister", [], as: server).message == "Missing 'token' argument")
      #expect(try await rows(bouncer, "id").count == 8)

      let all = [("user_uuid", user.uuid), ("user_id", "10")]
      for _ in 0..<2 {
        #expect(try await bouncer.post("push/unregister/all", all, as: server).isSuccess)
      }
      #expect(try await rows(bouncer, "id").count == 6)
      #expect(
        try await bouncer.post("push/unregister/all", [], as: server).message
          == "Missing user_id or user_uuid")
    }
  }

  @Test
  func `keep tokens sealed`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      _ = try await bouncer.post("push/register", OldUser(id: 1).register("android-token", .fcm), as: server)
      let row = try #require(try await rows(bouncer, "token").first)
      guard case .bytes(let sealed) = row[0] else { throw CocoaError(.coderInvalidValue) }
      #expect(!String(decoding: sealed, as: UTF8.self).contains("android"))
    }
  }
}
