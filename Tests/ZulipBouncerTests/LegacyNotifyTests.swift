import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@Suite("push/notify")
struct LegacyNotifyTests {
  private func totals(_ answer: Answer) -> [Int64?] {
    [answer.json["total_android_devices"]?.integer, answer.json["total_apple_devices"]?.integer]
  }

  @Test
  func `reaches all devices of a user, by either name, and no others`() async throws {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let other = try await bouncer.server("other.example.org")
      let realm = try await bouncer.realm(of: server)
      let (user, neighbour) = (OldUser(id: 10), OldUser(id: 11))
      for (user, server, token) in [
        (user, server, "aa"), (neighbour, server, "bb"), (user, other, "cc"), (neighbour, server, "aa"),
      ] {
        _ = try await bouncer.post("push/register", user.register(token + "01ab", .apns), as: server)
        _ = try await bouncer.post("push/register", user.register("fcm-\(token)", .fcm), as: server)
      }
      _ = try await bouncer.post("push/register", user.register("dd01ab", .apns, named: .id), as: server)
      let answer = try await bouncer.post(
        "push/notify", json: user.notification("hello", realm: realm, android: ["fcm-aa"], apple: ["AA01AB"]),
        as: server)
      #expect(
        answer.text
          == #"{"result":"success","msg":"","total_android_devices":1,"total_apple_devices":2,"#
          + #""deleted_devices":{"android_devices":[],"apple_devices":[]},"#
          + #""realm":{"can_push":true,"expected_end_timestamp":null}}"# + "\n")
      let arrived = simulated.arrived()
      #expect(arrived.mapValues(\.count) == ["aa01ab": 1, "dd01ab": 1, "fcm-aa": 1])
      #expect(arrived["aa01ab"] == [["zulip": ["message_ids": [1]], "aps": ["alert": "hello"]]])
      #expect(
        arrived["fcm-aa"]?.first?["message"]?["data"] == ["event": "message", "content": "hello"]
          || arrived["fcm-aa"]?.first?["message"]?["data"] == ["content": "hello", "event": "message"])
      #expect(arrived["fcm-aa"]?.first?["message"]?["android"]?["priority"] == "high")
      let push = try #require(simulated.simulator.deliveries().first { $0.token == "aa01ab" })
      #expect(push.header("apns-push-type") == "alert")
      #expect(push.header("apns-priority") == nil)
      #expect(push.header("apns-topic") == Simulated.topic)
      let expiration = Int(bouncer.clock.now.timeIntervalSince1970) + 86_400
      #expect(push.header("apns-expiration") == "\(expiration)")
      // Rows that had no realm have it now.
      let homeless = try await bouncer.rows(
        "SELECT COUNT(*) FROM registrations WHERE wire = 2 AND realm_id IS NULL")
      #expect(homeless == [[6]])
    }
  }

  @Test
  func `goes once to a token that is there under the user's number and its UUID`() async throws {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let user = OldUser(id: 10)
      for names in [OldUser.Names.uuid, .id] {
        _ = try await bouncer.post("push/register", user.register("c0ffee", .apns, named: names), as: server)
        _ = try await bouncer.post("push/register", user.register("fcm", .fcm, named: names), as: server)
      }
      for _ in 0..<2 {
        #expect(
          totals(try await bouncer.post("push/notify", json: user.notification("x"), as: server)) == [1, 1])
      }
      #expect(simulated.arrived().mapValues(\.count) == ["c0ffee": 2, "fcm": 2])
    }
  }

  @Test
  func `leaves out devices that have an end-to-end encrypted registration in that realm, and them only`()
    async throws
  {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let elsewhere = try await bouncer.realm(of: try await bouncer.server("other.example.org"))
      let otherServer = Credentials(id: server.id, key: server.key)
      let user = OldUser(id: 10)
      for token in ["aa01ab", "aa02ab", "aa03ab"] {
        _ = try await bouncer.post("push/register", user.register(token, .apns), as: otherServer)
      }
      for token in ["fcm-1", "fcm-2"] {
        _ = try await bouncer.post("push/register", user.register(token, .fcm, realm: realm), as: server)
      }
      // Another spelling of an APNs token is the same device, of an FCM token it is not.
      for (token, kind) in [
        ("AA01AB", PushToken.Kind.apns), ("FCM-1", .fcm), ("fcm-2", .fcm), ("aa03ab", .fcm),
      ] {
        let json = kind == .apns ? bouncer.apns(token) : bouncer.fcm(token)
        _ = try await bouncer.post(
          "push/e2ee/register", bouncer.registerForm(realm: realm, json), as: server)
      }
      let remote = try #require(try await bouncer.servers.find(hostname: "other.example.org"))
      let foreign = try #require(
        try await RemoteRealms(database: bouncer.database).find(uuid: UUID(uuidString: elsewhere) ?? UUID()))
      #expect(foreign.serverID == remote.id)
      try await bouncer.registrations.register(
        try PushToken("aa02ab", kind: .apns), iosAppID: "app", realm: foreign.id, bouncerKey: "key")

      let answer = try await bouncer.post(
        "push/notify",
        json: user.notification(
          "x", realm: realm, android: ["fcm-2", "fcm-1"],
          apple: ["aa02ab", "AA02AB", "aa01ab", "AA01AB", "zz", ""]),
        as: server)
      #expect(totals(answer) == [1, 2])
      #expect(
        answer.json["deleted_devices"]
          == [
            "android_devices": ["fcm-2"],
            // Of two spellings of one device the first counts.
            "apple_devices": ["", "AA01AB", "AA02AB", "aa01ab", "zz"],
          ])
      #expect(simulated.arrived().mapValues(\.count) == ["aa02ab": 1, "aa03ab": 1, "fcm-1": 1])
      // One that has expired supersedes nothing.
      let token = try PushToken("AA01AB", kind: .apns)
      let realmID = try #require(
        try await RemoteRealms(database: bouncer.database).find(uuid: UUID(uuidString: realm) ?? UUID())?.id)
      let live = try #require(
        try await bouncer.registrations.lookup(realm: realmID, tokenIDs: [token.id]).found.first)
      _ = try await bouncer.recorder.end([.init(live.reference, reason: "Unregistered")])
      _ = try await bouncer.post("push/register", user.register("aa01ab", .apns, realm: realm), as: server)
      #expect(
        totals(try await bouncer.post("push/notify", json: user.notification("y", realm: realm), as: server))
          == [1, 3])
    }
  }

  @Test
  func `names what a provider has declared dead, for every server that has the token and that app`()
    async throws
  {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let other = try await bouncer.server("other.example.org")
      let user = OldUser(id: 10)
      _ = try await bouncer.post("push/register", user.register("fcm-gone", .fcm), as: other)
      _ = try await bouncer.post("push/register", user.register("c0ffee", .apns), as: other)
      // The same token of another app is another registration.
      var otherApp = user.register("C0FFEE", .apns)
      otherApp[otherApp.firstIndex { $0.0 == "ios_app_id" } ?? 0].1 = "other.app"
      let third = try await bouncer.server("third.example.org")
      _ = try await bouncer.post("push/register", otherApp, as: third)
      bouncer.clock.advance(1)
      for (token, kind) in [("fcm-gone", PushToken.Kind.fcm), ("c0ffee", .apns), ("beef01", .apns)] {
        _ = try await bouncer.post("push/register", user.register(token, kind), as: server)
      }
      simulated.simulator.setToken("fcm-gone", TokenRule(status: 404, reason: "UNREGISTERED"))
      simulated.simulator.setToken("c0ffee", TokenRule(status: 410, reason: "Unregistered", timestamp: .none))
      let answer = try await bouncer.post(
        "push/notify", json: user.notification("x", android: ["fcm-gone"], apple: ["C0FFEE", "beef01"]),
        as: server)
      #expect(totals(answer) == [1, 2])
      #expect(
        answer.json["deleted_devices"]
          == ["android_devices": ["fcm-gone"], "apple_devices": ["C0FFEE"]])
      let left = try await bouncer.rows(
        """
        SELECT s.hostname, l.target FROM registrations l
        JOIN remote_servers s ON s.id = l.server_id WHERE wire = 2 ORDER BY s.hostname
        """)
      #expect(
        left == [
          [.text("chat.example.org"), .text(Simulated.topic)],
          [.text("third.example.org"), .text("other.app")],
        ])
    }
  }

  @Test
  func `that cannot be delivered now is promised all the same`() async throws {
    try await Simulated.test { simulated in
      let (bouncer, simulator) = (simulated.bouncer, simulated.simulator)
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let user = OldUser(id: 10)
      _ = try await bouncer.post("push/register", user.register("c0ffee", .apns, realm: realm), as: server)
      simulator.setToken("c0ffee", TokenRule(status: 503, reason: "ServiceUnavailable"))
      #expect(
        totals(try await bouncer.post("push/notify", json: user.notification("x"), as: server)) == [0, 1])
      let queued = "SELECT wire, registration_id FROM outbox"
      #expect(try await bouncer.rows(queued) == [[2, 1]])
      // The phone moves on meanwhile: what it was promised goes on as the new registration's.
      _ = try await bouncer.post(
        "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.apns("C0FFEE")), as: server)
      #expect(
        totals(
          try await bouncer.post("push/notify", json: user.notification("y", realm: realm), as: server))
          == [0, 0])
      #expect(try await bouncer.rows(queued) == [[1, 2]])
      #expect(try await bouncer.rows("SELECT COUNT(*) FROM registrations WHERE wire = 2") == [[0]])
    }
  }

  @Test
  func `refuses what is wrong, and sends nothing of it`() async throws {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let foreign = try await bouncer.realm(of: try await bouncer.server("other.example.org"))
      let user = OldUser(id: 10)
      _ = try await bouncer.post("push/register", user.register("fcm", .fcm), as: server)
      func answer(_ changes: [String: JSON]) async throws -> Answer {
        guard case .object(var body) = user.notification("x") else { throw CocoaError(.coderInvalidValue) }
        for (name, value) in changes { body[name] = value }
        return try await bouncer.post("push/notify", json: .object(body), as: server)
      }
      let cases: [([String: JSON], String)] = [
        (["user_id": nil, "user_uuid": nil], "Missing user_id or user_uuid"),
        (["user_id": "10"], #"request["user_id"] is not an integer"#),
        (["user_uuid": "x"], "user_uuid has invalid format"),
        (["gcm_payload": []], #"request["gcm_payload"] is not a dict"#),
        (["apns_payload": nil], #"request["apns_payload"] is not a dict"#),
        (["android_devices": [1]], #"request["android_devices"][0] is not a string"#),
        (["gcm_options": ["priority": "invalid"]], "Invalid GCM option to bouncer: priority 'invalid'"),
        (["gcm_options": ["priority": 5]], "Invalid GCM option to bouncer: priority 5"),
        (
          ["gcm_options": ["priority": "normal", "invalid": true]],
          #"Invalid GCM options to bouncer: {"invalid":true}"#
        ),
        (
          ["gcm_payload": ["event": "remove", "zulip_message_ids": "1,x"]],
          #"request["gcm_payload"]["zulip_message_ids"] has invalid format"#
        ),
      ]
      for (changes, message) in cases {
        let answer = try await answer(changes)
        #expect(answer.status == 400 && answer.message == message, "\(message): \(answer.text)")
      }
      #expect(try await answer(["realm_uuid": .string(foreign)]).code == "REMOTE_REALM_SERVER_MISMATCH_ERROR")
      #expect(simulated.simulator.deliveries(includingRefused: true).isEmpty)
      // What is wrong with one provider's half does not spoil the other's.
      _ = try await bouncer.post("push/register", user.register("c0ffee", .apns), as: server)
      #expect(try await answer(["gcm_options": ["priority": "invalid"]]).isSuccess)
      #expect(simulated.arrived().mapValues(\.count) == ["c0ffee": 1])
      // Options that nothing is sent with are not looked at.
      let nobody = OldUser(id: 99)
      guard case .object(var body) = nobody.notification("x") else { return }
      body["gcm_options"] = ["priority": "invalid"]
      #expect(try await bouncer.post("push/notify", json: .object(body), as: server).isSuccess)
    }
  }

  @Test
  func `with nothing for a kind of device sends it nothing`() async throws {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let user = OldUser(id: 10)
      _ = try await bouncer.post("push/register", user.register("fcm", .fcm), as: server)
      _ = try await bouncer.post("push/register", user.register("c0ffee", .apns), as: server)
      let answer = try await bouncer.post(
        "push/notify", json: ["user_id": 10, "user_uuid": .string(user.uuid)], as: server)
      #expect(totals(answer) == [1, 1])
      #expect(simulated.simulator.deliveries(includingRefused: true).isEmpty)
    }
  }
}

@Suite("push/test_notification")
struct LegacyTestNotificationTests {
  @Test
  func `goes to that device`() async throws {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let user = OldUser(id: 10)
      let base: JSON.Object = [
        "server": "chat.example.org", "realm_id": 2, "realm_uri": "https://old.example.org",
        "realm_url": "https://chat.example.org", "realm_name": "Exämple", "user_id": 10,
      ]
      for (token, kind) in [("c0ffee", PushToken.Kind.apns), ("beef01", .apns), ("fcm", .fcm)] {
        _ = try await bouncer.post("push/register", user.register(token, kind), as: server)
      }
      func body(_ token: String, _ kind: Int64, _ more: JSON.Object = [:]) -> JSON {
        .object(
          JSON.Object(
            [
              .init("token", .string(token)), .init("token_kind", .integer(kind)), .init("user_id", 10),
              .init("user_uuid", .string(user.uuid)), .init("base_payload", .object(base)),
            ] + more.members))
      }
      for (token, kind) in [("C0FFEE", Int64(1)), ("fcm", 2)] {
        let answer = try await bouncer.post("push/test_notification", json: body(token, kind), as: server)
        #expect(answer.isSuccess, "\(answer.text)")
      }
      let arrived = simulated.arrived()
      #expect(arrived.mapValues(\.count) == ["c0ffee": 1, "fcm": 1])
      #expect(
        arrived["c0ffee"]?.first?["aps"]
          == [
            "alert": [
              "title": "Test notification",
              "body": "This is a test notification from Exämple (https://chat.example.org).",
            ], "sound": "default",
          ])
      #expect(arrived["c0ffee"]?.first?["zulip"]?["event"] == "test")
      let data = arrived["fcm"]?.first?["message"]?["data"]
      #expect(data?["realm_id"] == "2" && data?["event"] == "test" && data?["realm_name"] == "Exämple")
      #expect(data?["time"] == .string("\(Int(bouncer.clock.now.timeIntervalSince1970))"))
      #expect(arrived["fcm"]?.first?["message"]?["android"]?["priority"] == "high")

      // No hex, another's, an odd half byte, an empty one, kinds that there are not: it cannot be here.
      for (token, kind) in [
        ("fcm", Int64(1)), ("FCM", 2), ("c0ff", 1), ("c0f", 1), ("", 1), ("", 2), ("fcm", 3), ("c0ffee", 0),
      ] {
        let unknown = try await bouncer.post("push/test_notification", json: body(token, kind), as: server)
        #expect(unknown.status == 400 && unknown.code == "INVALID_REMOTE_PUSH_DEVICE_TOKEN")
        #expect(unknown.message == "Device not recognized by the push bouncer")
      }
      guard case .object(var bare) = body("fcm", 2) else { return }
      bare["base_payload"] = nil
      let missing = try await bouncer.post("push/test_notification", json: .object(bare), as: server)
      #expect(missing.status == 400 && missing.message == #"request["base_payload"] field is missing"#)
      let more = try await bouncer.post(
        "push/test_notification", json: body("fcm", 2, ["more": 1]), as: server)
      #expect(more.message == #"Argument "more" at request["more"] is unexpected"#)
      // A test that the provider refuses has been sent all the same.
      simulated.simulator.setToken("c0ffee", TokenRule(status: 410))
      #expect(
        try await bouncer.post("push/test_notification", json: body("c0ffee", 1), as: server).isSuccess)
    }
  }
}
