import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Registrations
import SQL
import Sealing
import TestService
import Testing

@Suite("The items of push/e2ee/notify")
struct NotifyItemsTests {
  /// What phones were sent, after a request with these items, and the answer.
  private func notify(
    _ phones: [String: PushToken.Kind], _ items: [JSON],
    _ check: @escaping @Sendable (Answer, [String: [JSON]]) throws -> Void
  ) async throws {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      for (token, kind) in phones {
        let registration = kind == .apns ? bouncer.apns(token) : bouncer.fcm(token)
        let answer = try await bouncer.post(
          "push/e2ee/register", bouncer.registerForm(realm: realm, registration), as: server)
        #expect(answer.isSuccess)
      }
      let answer = try await bouncer.post(
        "push/e2ee/notify", json: E2EENotifyTests.body(realm, items), as: server)
      try check(answer, simulated.arrived())
    }
  }

  private func apns(_ token: String, aps: JSON, pushType: String = "alert", data: String = "AAAA") -> JSON {
    [
      "token_id": .string(TokenID(token: token).base64), "more": [1],
      "http_headers": ["apns_priority": 10, "apns_push_type": .string(pushType), "apns_more": 1],
      "payload": [
        "push_key_id": 10, "encrypted_data": .string(data), "aps": aps, "time_sensitive": ["x": [nil]],
      ],
    ]
  }

  @Test(arguments: [
    #"{"mutable-content":1,"sound":"default","alert":{"title":"New notification"}}"#,
    #"{"sound":{"critical":1,"name":"a","volume":0.5},"badge":"1","alert":"text"}"#,
    #"{"alert":{"title-loc-args":["a","b"],"title":1},"content-available":true,"x":null,"n":1e3}"#,
    #"{"thread-id":"e\u0301\u0000\ud83d\ude00","interruption-level":"time-sensitive"}"#, "{}",
    #"{"deep":"# + String(repeating: "[", count: 62) + String(repeating: "]", count: 62) + "}",
  ])
  func `have an aps that reaches Apple equal to what came, whatever stands in it`(aps: String) async throws {
    let aps = try JSON.parse(aps)
    try await notify(
      ["c0ffee": .apns, "android": .fcm], [apns("c0ffee", aps: aps), E2EENotifyTests.fcm("android")]
    ) { answer, arrived in
      #expect(answer.isSuccess, "\(answer.text)")
      #expect(arrived["c0ffee"] == [["push_key_id": 10, "encrypted_data": "AAAA", "aps": aps]])
      #expect(arrived["android"]?.count == 1)
    }
  }

  @Test
  func `that cannot be sent are dropped alone`() async throws {
    func changed(_ name: String, _ value: JSON?) -> JSON {
      guard case .object(var item) = apns("c0ffee", aps: [:]) else { return .null }
      item[name] = value
      return .object(item)
    }
    func nested(_ depth: Int) -> JSON { (0..<depth).reduce(JSON.integer(1)) { value, _ in [value] } }
    let faulty: [JSON] = [
      nil, 5, [], "x", [:], changed("token_id", nil), changed("token_id", "abc"), changed("token_id", 1),
      changed("http_headers", nil), changed("http_headers", []),
      changed("http_headers", ["apns_priority": 7, "apns_push_type": "alert"]),
      changed("http_headers", ["apns_priority": 10, "apns_push_type": "loud"]), changed("payload", nil),
      changed("payload", "x"), changed("payload", ["push_key_id": "1", "encrypted_data": "AAAA"]),
      changed("payload", ["push_key_id": 1, "encrypted_data": "AAAA", "aps": []]),
      apns("c0ffee", aps: ["x": nested(63)]), apns("c0ffee", aps: ["x": nested(300)]),
      apns("c0ffee", aps: ["x": .string(String(repeating: "x", count: 4096))]),
      apns("c0ffee", aps: [:], data: String(repeating: "A", count: 4097)),
      [
        "token_id": .string(TokenID(token: "android").base64), "fcm_priority": "high",
        "payload": ["push_key_id": 1, "encrypted_data": .string(String(repeating: "A", count: 4097))],
      ],
      [
        "token_id": .string(TokenID(token: "android").base64), "fcm_priority": "urgent",
        "payload": ["push_key_id": 1, "encrypted_data": "AAAA"],
      ],
    ]
    let good = [apns("c0ffee", aps: [:]), E2EENotifyTests.fcm("android")]
    try await notify(["c0ffee": .apns, "android": .fcm], [good[0]] + faulty + [good[1]]) { answer, arrived in
      #expect(answer.isSuccess, "\(answer.text)")
      #expect(answer.json["delete_token_ids"] == [])
      #expect(answer.json["apple_successfully_sent_count"] == 1)
      #expect(answer.json["android_successfully_sent_count"] == 1)
      #expect(arrived.mapValues(\.count) == ["c0ffee": 1, "android": 1])
    }
  }

  @Test
  func `of the largest size that a provider takes are sent`() async throws {
    func item(_ count: Int, _ type: String) -> JSON {
      apns("c0ffee", aps: [:], pushType: type, data: String(repeating: "A", count: count))
    }
    let around = #"{"push_key_id":10,"encrypted_data":"","aps":{}}"#.utf8.count
    try await notify(
      ["c0ffee": .apns],
      [
        item(4096 - around, "alert"), item(4097 - around, "alert"), item(5120 - around, "voip"),
        item(5121 - around, "voip"),
      ]
    ) { answer, arrived in
      #expect(answer.isSuccess)
      let sizes = arrived["c0ffee"]?.map(\.bytes.count) ?? []
      #expect(sizes.contains(4096) && Set(sizes).isSubset(of: [4096, 5120]))
    }
  }

  @Test
  func `are refused where none can be read, as a server is told what is wrong`() async throws {
    let wrong: JSON = ["token_id": "abc"]
    try await notify([:], [wrong, apns("c0ffee", aps: [])]) { answer, _ in
      #expect(answer.status == 400)
      #expect(answer.message == #"request["push_requests"][0]["token_id"] has invalid format"#)
    }
    let large = apns("c0ffee", aps: ["x": .string(String(repeating: "x", count: 5000))])
    try await notify([:], [large]) { answer, _ in
      #expect(answer.isSuccess)
      #expect(answer.json["delete_token_ids"] == [])
    }
  }

  @Test
  func `for a device whose token does not open spoil none of the others, and it is not forgotten`()
    async throws
  {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let user = OldUser(id: 10)
      for token in ["one", "damaged"] {
        _ = try await bouncer.post("push/register", user.register("old-\(token)", .fcm), as: server)
        _ = try await bouncer.post(
          "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.fcm(token)), as: server)
      }
      try await bouncer.database.write { connection in
        try connection.run(
          Statement(
            """
            UPDATE registrations SET token = $1
            WHERE id IN (SELECT MAX(id) FROM registrations GROUP BY wire)
            """, .bytes([1, 2, 3])))
      }
      let items = ["damaged", "one"].map(E2EENotifyTests.fcm)
      let answer = try await bouncer.post(
        "push/e2ee/notify", json: E2EENotifyTests.body(realm, items), as: server)
      #expect(answer.isSuccess)
      #expect(answer.json["android_successfully_sent_count"] == 1)
      #expect(answer.json["delete_token_ids"] == [])
      let inClear = try await bouncer.post(
        "push/notify", json: user.notification("x", android: ["old-one", "old-damaged"]), as: server)
      #expect(inClear.isSuccess && inClear.json["total_android_devices"] == 1)
      #expect(inClear.json["deleted_devices"]?["android_devices"] == [])
      #expect(simulated.arrived().mapValues(\.count) == ["one": 1, "old-one": 1])
      #expect(try await bouncer.rows("SELECT COUNT(*) FROM registrations WHERE wire = 2") == [[2]])
    }
  }
}
