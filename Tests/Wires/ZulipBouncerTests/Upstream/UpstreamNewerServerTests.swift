import Foundation
import HTTP
import HTTPTypes
import Providers
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

/// What this program does not know is passed on as it came: the upstream bouncer may know it.
@Suite("What a newer server with an upstream link sends")
struct UpstreamNewerServerTests {
  private static let more = [("later", "a+b&c=ü"), ("push_account_id", "7")]

  private func expect(_ form: [String: String]?, _ endpoint: String) {
    #expect(form?["later"] == "a+b&c=ü" && form?["push_account_id"] == "7", "\(endpoint): \(form ?? [:])")
  }

  @Test
  func `that are parameters of a call goes on with it`() async throws {
    try await BeforeZulips.test { place in
      let user = OldUser(id: 10)
      func post(_ endpoint: String, _ form: [(String, String)]) async throws {
        let answer = try await place.bouncer.post(endpoint, form + Self.more, as: place.server)
        #expect(answer.isSuccess, "\(endpoint): \(answer.text)")
      }
      let encrypted = [
        ("realm_uuid", place.realm), ("token_id", TokenID(token: "store").base64),
        ("encrypted_push_registration", "sealed+to/others="), ("bouncer_public_key", BeforeZulips.storeKey),
      ]
      try await post("push/e2ee/register", encrypted)
      let old = user.register("decade", .apns, realm: place.realm).map {
        $0.0 == "ios_app_id" ? ($0.0, Beside.storeApp) : $0
      }
      try await post("push/register", old)
      try await post("push/unregister", old)
      try await post("push/unregister/all", [("user_id", "10"), ("user_uuid", user.uuid)])
      let newKey = String(repeating: "n", count: 64)
      try await post(
        "server/register",
        [
          ("zulip_org_id", place.server.id), ("zulip_org_key", place.server.key),
          ("hostname", "chat.example.org"), ("contact_email", "admin@example.org"), ("new_org_key", newKey),
        ])
      await eventually("they are unregistered") {
        place.upstream.calls.contains("push/unregister")
          && place.upstream.calls.contains("push/unregister/all")
      }
      for endpoint in [
        "push/e2ee/register", "push/register", "push/unregister", "push/unregister/all", "server/register",
      ] {
        expect(place.upstream.forms(endpoint).last, endpoint)
      }
      // Known ones are as they are without.
      let form = try #require(place.upstream.forms("push/e2ee/register").last)
      #expect(form.count == 6 && form["encrypted_push_registration"] == "sealed+to/others=")
    }
  }

  @Test
  func `that is more than any server adds is left out, and the call goes on without`() async throws {
    try await BeforeZulips.test { place in
      let form = [
        ("realm_uuid", place.realm), ("token_id", TokenID(token: "store").base64),
        ("encrypted_push_registration", "sealed+to/others="), ("bouncer_public_key", BeforeZulips.storeKey),
        ("later", String(repeating: "x", count: 16_384)),
      ]
      let answer = try await place.bouncer.post("push/e2ee/register", form, as: place.server)
      #expect(answer.isSuccess, "\(answer.text)")
      #expect(place.upstream.forms("push/e2ee/register").last?.count == 4)
    }
  }

  @Test
  func `that are members of a notification goes on with it`() async throws {
    try await BeforeZulips.test { place in
      let user = OldUser(id: 10)
      place.upstream.know(encrypted: ["store"], legacy: [("decade", 1)], of: user)
      let later: JSON = ["a": [1, nil, "ü"]]
      func with(_ json: JSON) -> JSON {
        guard case .object(var object) = json else { return json }
        object["later"] = later
        return .object(object)
      }
      func post(_ endpoint: String, _ json: JSON) async throws {
        let answer = try await place.bouncer.post(endpoint, json: with(json), as: place.server)
        #expect(answer.isSuccess, "\(endpoint): \(answer.text)")
        let body = try #require(place.upstream.bodies(endpoint).last)
        #expect(try JSON.parse(body)["later"] == later, "\(endpoint): \(body)")
      }
      try await post("push/e2ee/notify", PushItem.body(place.realm, [PushItem.fcm("store")]))
      try await post("push/notify", user.notification("hello", realm: place.realm, apple: ["decade"]))
      try await post(
        "push/test_notification",
        [
          "token": "decade", "token_kind": 1, "user_id": 10, "user_uuid": .string(user.uuid),
          "base_payload": [:],
        ])
      #expect(place.heard("store") == 1)
    }
  }

  @Test
  func `goes on with what waits, too`() async throws {
    try await BeforeZulips.test { place in
      #expect(try await place.registerStore("store").isSuccess)
      place.upstream.fault("push/e2ee/notify", 503, "{}")
      #expect(try await place.notify([PushItem.fcm("store")]).isSuccess)
      place.upstream.fault("push/e2ee/notify", nil)
      await eventually("it rings") {
        place.bouncer.clock.advance(30)
        return place.heard("store") == 1
      }
      let body = try #require(place.upstream.bodies("push/e2ee/notify").last)
      #expect(try JSON.parse(body)["more"] == true, "\(body)")
    }
  }

  private static let counts = """
    [{"id":1,"realm":2,"property":"messages_read::hour","subgroup":null,"end_time":1790000000.5,"value":1},\
    {"id":2,"realm":2,"property":"invented::day","subgroup":"x","end_time":1790000000.5,"value":2},\
    {"id":3,"realm":2,"property":"invites_sent::day","subgroup":null,"end_time":1790000000.5,"value":3},\
    {"id":4,"property":"invented::other"}]
    """
  private static let installation = """
    [{"id":7,"property":"invented::day","subgroup":null,"end_time":1790000000.5,"value":2}]
    """
  private static let events = """
    [{"id":5,"realm":2,"event_type":101,"event_time":1790000000.5,"backfilled":false,"extra_data":{"a":1}},\
    {"id":6,"realm":2,"event_type":999,"event_time":1790000000.5,"backfilled":true,"extra_data":{"b":[2]}}]
    """

  private func report(_ place: BeforeZulips) async throws -> Answer {
    try await place.bouncer.post(
      "server/analytics",
      [
        ("realm_counts", Self.counts), ("installation_counts", Self.installation),
        ("realmauditlog_rows", Self.events),
        ("realms", JSON.array([place.bouncer.realmJSON(place.realm)]).text), ("version", "\"13.0\""),
        ("later", #"{"a":1}"#),
      ], as: place.server)
  }

  @Test
  func `that are properties, events and parameters of a report goes on with the next one`() async throws {
    try await BeforeZulips.test { place in
      for _ in 1...2 {
        let answer = try await report(place)
        #expect(answer.isSuccess, "\(answer.text)")
      }
      await eventually("it is passed on") { place.upstream.counts == [1, 2] }
      let form = try #require(place.upstream.forms("server/analytics").last { $0["realm_counts"] != "[]" })
      func rows(_ name: String) throws -> [JSON] { try JSON.parse(form[name] ?? "").elements }
      let unknown = try rows("realm_counts")[1]
      #expect(unknown["property"] == "invented::day" && unknown["subgroup"] == "x" && unknown["value"] == 2)
      #expect(unknown["realm"] == 2 && unknown["end_time"]?.text == "1790000000.5", "\(unknown.text)")
      let installation = try rows("installation_counts").map { $0["property"] }
      #expect(installation == ["invented::day"])
      let event = try rows("realmauditlog_rows")[1]
      #expect(event["event_type"] == 999 && event["extra_data"] == ["b": [2]] && event["backfilled"] == true)
      // The rows may have been passed on before the call that stored them was done with the rest.
      await eventually("the rest, too") {
        place.upstream.forms("server/analytics").contains { $0["later"] == #"{"a":1}"# }
      }
      #expect(place.upstream.reported == [place.bouncer.realmJSON(place.realm)])
      // How far the reports have come, as for known ones.
      let status = try await place.bouncer.call(
        "server/analytics/status", .get, authorization: place.server.header)
      #expect(status.json["last_installation_count_id"] == 7 && status.json["last_realmauditlog_id"] == 6)
    }
  }

  @Test
  func `is kept nowhere if it goes nowhere`() async throws {
    try await BeforeZulips.test(isEnabled: false) { place in
      let answer = try await report(place)
      #expect(answer.isSuccess, "\(answer.text)")
      for table in ["remote_realm_counts", "remote_realm_audit_log"] {
        #expect(try await place.bouncer.rows("SELECT COUNT(*) FROM \(table)") == [[1]])
      }
      #expect(try await place.bouncer.rows("SELECT COUNT(*) FROM remote_installation_counts") == [[0]])
    }
  }
}
