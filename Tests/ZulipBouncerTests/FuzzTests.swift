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

/// Bodies that no server sends: each is answered, none with 500, and nothing of them stays that was
/// not asked for properly.
@Suite("Nonsense")
struct FuzzTests {
  /// `FUZZ_ROUNDS` sets how many bodies each endpoint gets.
  private static let rounds =
    ProcessInfo.processInfo.environment["FUZZ_ROUNDS"].flatMap(Int.init) ?? 500

  @Test(arguments: [
    "server/register", "server/register/transfer", "server/deactivate", "server/analytics/status",
    "server/analytics", "server/billing", "push/e2ee/register", "push/e2ee/notify",
    "push/register", "push/unregister", "push/unregister/all", "push/notify", "push/test_notification",
  ])
  func `is never answered with 500`(endpoint: String) async throws {
    try await Bouncer.test([
      "bouncer.registration": "open", "http.rate_limit.per_address": "0",
      "bouncer.rate_limit.per_server": "0",
    ]) { bouncer in
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let seeds = try Self.seeds(realm, bouncer)[endpoint] ?? []
      var nonsense = Nonsense(seed: 20_261_121)
      let id = try #require(try await bouncer.servers.find(hostname: "chat.example.org")?.id)
      for _ in 0..<Self.rounds {
        let body = nonsense.body(from: seeds)
        let answer = try await bouncer.call(
          endpoint, endpoint == "server/analytics/status" ? .get : .post, authorization: server.header,
          type: "application/x-www-form-urlencoded", body: body)
        #expect(
          [200, 400, 401, 403, 413].contains(answer.status),
          "\(answer.status) \(answer.text) for \(Base64.encode(body))")
        #expect(answer.json["result"]?.string == (answer.status == 200 ? "success" : "error"))
        if endpoint == "server/deactivate" { try await bouncer.servers.setDeactivated(id, false) }
      }
      // Whatever it was, the server is as it was, but for a hostname or a key that it changed itself.
      #expect(try await bouncer.call("server/analytics/status", .get, authorization: server.header).isSuccess)
    }
  }

  private static func seeds(_ realm: String, _ bouncer: Bouncer) throws -> [String: [[UInt8]]] {
    func form(_ fields: [(String, String)]) -> [UInt8] {
      Array(
        fields.map { name, value in
          "\(name)=\(value.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? "")"
        }.joined(separator: "&").utf8)
    }
    let count =
      #"[{"property":"messages_read::hour","realm":2,"id":5,"end_time":1.5,"subgroup":null,"value":3}]"#
    let event =
      #"[{"id":7,"realm":2,"event_time":1.5,"backfilled":false,"extra_data":"{\"a\": 1}","event_type":101}]"#
    let item: JSON = [
      "token_id": "AAAAAAAAAAE=", "http_headers": ["apns_priority": 10, "apns_push_type": "alert"],
      "payload": [
        "push_key_id": 10, "encrypted_data": "AAAA", "aps": ["mutable-content": 1, "alert": ["title": "x"]],
      ],
    ]
    let fcm: JSON = [
      "token_id": "AAAAAAAAAAI=", "fcm_priority": "high",
      "payload": ["push_key_id": 20, "encrypted_data": "AAAA"],
    ]
    return [
      "server/register": [
        form([
          ("zulip_org_id", "6b17a4a2-5b0c-4d5e-9f3a-0123456789ab"),
          ("zulip_org_key", String(repeating: "k", count: 64)), ("hostname", "new.example.org"),
          ("contact_email", "admin@new.example.org"), ("new_org_key", String(repeating: "n", count: 64)),
        ])
      ],
      "server/register/transfer": [form([("hostname", "chat.example.org")])],
      "server/deactivate": [Array("{}".utf8)], "server/analytics/status": [[]],
      "server/analytics": [
        form(
          bouncer.analytics([bouncer.realmJSON(realm)]) + [
            ("realm_counts", count), ("installation_counts", "[]"), ("realmauditlog_rows", event),
            ("version", #""12.0""#), ("api_feature_level", "468"),
          ])
      ],
      "server/billing": [
        form([
          ("user", #"{"uuid":"e502dde1-74fb-44bc-9b9f-2b8b3a2f3e10","email":"a@b.org","full_name":"A"}"#),
          ("realm", bouncer.realmJSON(realm).text),
        ])
      ],
      "push/e2ee/register": [
        form(try bouncer.registerForm(realm: realm, bouncer.apns())),
        form(try bouncer.registerForm(realm: realm, bouncer.fcm())),
        form(
          try bouncer.registerForm(
            realm: realm, ["token": "\u{0}", "token_kind": "fcm", "timestamp": .number("1e300")])),
      ],
      "push/e2ee/notify": [JSON.object(["realm_uuid": .string(realm), "push_requests": [item, fcm]]).bytes],
    ].merging(legacySeeds(realm, form)) { $1 }
  }

  private static func legacySeeds(_ realm: String, _ form: ([(String, String)]) -> [UInt8]) -> [String:
    [[UInt8]]]
  {
    let user = OldUser(id: 10)
    let (apple, android) = (
      user.register("c0ffee", .apns, realm: realm), user.register("fcm", .fcm, realm: realm)
    )
    let base: JSON = ["realm_name": "Example", "realm_uri": "https://chat.example.org"]
    return [
      "push/register": [form(apple), form(android)], "push/unregister": [form(apple), form(android)],
      "push/unregister/all": [form([("user_id", "10"), ("user_uuid", user.uuid)])],
      "push/notify": [user.notification("x", realm: realm, android: ["fcm"], apple: ["c0ffee"]).bytes],
      "push/test_notification": [
        JSON.object([
          "token": "fcm", "token_kind": 2, "user_id": 10, "user_uuid": .string(user.uuid),
          "base_payload": base,
        ]).bytes
      ],
    ]
  }
}
