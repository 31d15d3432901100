import Foundation
import HTTP
import HTTPTypes
import Registrations
import Sealing
import TestService
import Testing

@Suite("push/e2ee/notify")
struct E2EENotifyTests {
  static func apns(_ token: String) -> JSON {
    [
      "token_id": .string(TokenID(token: token).base64),
      "http_headers": ["apns_priority": 10, "apns_push_type": "alert"],
      "payload": [
        "push_key_id": 10, "encrypted_data": "AAAA",
        "aps": ["mutable-content": 1, "alert": ["title": "New notification"]],
      ],
    ]
  }

  static func fcm(_ token: String) -> JSON {
    [
      "token_id": .string(TokenID(token: token).base64), "fcm_priority": "high",
      "payload": ["push_key_id": 20, "encrypted_data": "BBBB"],
    ]
  }

  static func body(_ realm: String, _ items: [JSON]) -> JSON {
    ["realm_uuid": .string(realm), "push_requests": .array(items), "more": true]
  }

  @Test
  func `names what it does not know, or knows as another kind, once each`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      _ = try await bouncer.post(
        "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.apns()), as: server)
      let answer = try await bouncer.post(
        "push/e2ee/notify",
        json: Self.body(
          realm, [Self.apns("nobody"), Self.fcm("c0ffee"), Self.fcm("nobody"), Self.apns("c0ffee")]),
        as: server)
      let ids = [TokenID(token: "nobody").base64, TokenID(token: "c0ffee").base64]
      #expect(answer.json["delete_token_ids"] == .array(ids.map(JSON.string)))
      // No key serves the topic: nothing was sent, and nobody is dead.
      let good = try await bouncer.post(
        "push/e2ee/notify", json: Self.body(realm, [Self.apns("c0ffee")]), as: server)
      #expect(
        good.text
          == #"{"result":"success","msg":"","apple_successfully_sent_count":0,"android_successfully_sent_count":0,"#
          + #""delete_token_ids":[],"realm_push_status":{"can_push":true,"expected_end_timestamp":null}}"#
          + "\n")
      let empty = try await bouncer.post("push/e2ee/notify", json: Self.body(realm, []), as: server)
      #expect(empty.json["delete_token_ids"] == [])
      let query = try await bouncer.call(
        "push/e2ee/notify?x=1", authorization: server.header, body: Self.body(realm, []).bytes)
      #expect(query.json["ignored_parameters_unsupported"] == ["x"])
    }
  }

  @Test
  func `knows the devices of that realm only`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let mine = try #require(UUID(uuidString: try await bouncer.realm(of: server)))
      let other = UUID().uuidString.lowercased()
      let both = [mine.uuidString.lowercased(), other].map(bouncer.realmJSON)
      _ = try await bouncer.post("server/analytics", bouncer.analytics(both), as: server)
      _ = try await bouncer.post(
        "push/e2ee/register", bouncer.registerForm(realm: other, bouncer.fcm()), as: server)
      let answer = try await bouncer.post(
        "push/e2ee/notify", json: Self.body(mine.uuidString, [Self.fcm("android-token")]), as: server)
      #expect(answer.json["delete_token_ids"] == ["RjY0jpbVz/o="])
    }
  }

  @Test
  func `refuses what is wrong`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let theirs = try await bouncer.realm(of: try await bouncer.server("other.example.org"))
      func changed(_ path: [String], _ value: JSON?, of json: JSON) -> JSON {
        guard case .object(var object) = json, let name = path.first else { return value ?? .null }
        object[name] =
          path.count == 1 ? value : changed(Array(path.dropFirst()), value, of: object[name] ?? .null)
        return .object(object)
      }
      func item(_ json: JSON) -> JSON { Self.body(realm, [json]) }
      let apns = Self.apns("c0ffee")
      let fcm = Self.fcm("android-token")
      let first = #"request["push_requests"][0]"#
      let mismatch =
        "Your organization is registered to a different Zulip server. \(Bouncer.gettingBack(theirs))"
      let table: [(JSON, Int, String)] = [
        ([], 400, "request is not a dict"),
        ([:], 400, #"request["realm_uuid"] field is missing"#),
        (["realm_uuid": 5], 400, #"request["realm_uuid"] is not a string"#),
        (["realm_uuid": .string(realm)], 400, #"request["push_requests"] field is missing"#),
        (["realm_uuid": "x", "push_requests": [:]], 400, #"request["push_requests"] is not a list"#),
        (item("x"), 400, first + #"["token_id"] field is missing"#),
        (item(changed(["token_id"], 5, of: apns)), 400, first + #"["token_id"] is not a string"#),
        (item(changed(["token_id"], "abc", of: apns)), 400, first + #"["token_id"] has invalid format"#),
        (item(changed(["http_headers"], nil, of: apns)), 400, first + #"["http_headers"] field is missing"#),
        (
          item(changed(["http_headers", "apns_priority"], 7, of: apns)), 400,
          "Invalid " + first + #"["http_headers"]["apns_priority"]"#
        ),
        (
          item(changed(["http_headers", "apns_priority"], "10", of: apns)), 400,
          "Invalid " + first + #"["http_headers"]["apns_priority"]"#
        ),
        (
          item(changed(["http_headers", "apns_priority"], nil, of: apns)), 400,
          first + #"["http_headers"]["apns_priority"] field is missing"#
        ),
        (
          item(changed(["http_headers", "apns_push_type"], "loud", of: apns)), 400,
          "Invalid " + first + #"["http_headers"]["apns_push_type"]"#
        ),
        (
          item(changed(["payload"], nil, of: apns)), 400,
          first + #"["payload"]["push_key_id"] field is missing"#
        ),
        (
          item(changed(["payload", "push_key_id"], "10", of: apns)), 400,
          first + #"["payload"]["push_key_id"] is not an integer"#
        ),
        (
          item(changed(["payload", "encrypted_data"], 1, of: fcm)), 400,
          first + #"["payload"]["encrypted_data"] is not a string"#
        ),
        (
          item(changed(["payload", "aps"], [], of: apns)), 400, first + #"["payload"]["aps"] is not a dict"#
        ),
        (item(changed(["fcm_priority"], "urgent", of: fcm)), 400, "Invalid " + first + #"["fcm_priority"]"#),
        (Self.body("e502dde1-74fb-44bc-9b9f-2b8b3a2f3e10", []), 403, "Organization not registered"),
        (Self.body("nonsense", []), 403, "Organization not registered"),
        (Self.body(theirs, []), 403, mismatch),
      ]
      for (body, status, message) in table {
        let answer = try await bouncer.post("push/e2ee/notify", json: body, as: server)
        #expect(answer.message == message)
        #expect(answer.status == status, "\(message)")
      }
      let codes = ["MISSING_REMOTE_REALM", "REMOTE_REALM_SERVER_MISMATCH_ERROR"]
      #expect(
        try await [
          bouncer.post("push/e2ee/notify", json: Self.body("nonsense", []), as: server).code,
          bouncer.post("push/e2ee/notify", json: Self.body(theirs, []), as: server).code,
        ] == codes)
      for (body, message) in [
        ([0xff], "Malformed payload"), (Array("{".utf8), "Malformed JSON"), ([], "Malformed JSON"),
      ] as [([UInt8], String)] {
        let answer = try await bouncer.call("push/e2ee/notify", authorization: server.header, body: body)
        #expect(answer.status == 400)
        #expect(answer.message == message)
      }
    }
  }
}
