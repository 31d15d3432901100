import Delivery
import Foundation
import HTTP
import Logging
import NIOCore
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("The items of push/e2ee/notify")
struct NotifyTests {
  private func request(_ items: [JSON]) throws -> NotifyRequest {
    try NotifyRequest(Field(PushItem.body("x", items), path: "request"))
  }

  private func item(_ changes: JSON.Object, payload: JSON.Object = [:]) -> JSON {
    guard case .object(var item) = PushItem.apns("c0ffee"), case .object(var all)? = item["payload"] else {
      return .null
    }
    for member in payload.members { all[member.name.text] = member.value }
    item["payload"] = .object(all)
    for member in changes.members { item[member.name.text] = member.value }
    return .object(item)
  }

  @Test(arguments: [
    #"{"sound":{"critical":1,"name":"a","volume":0.5},"badge":"1","alert":"text"}"#,
    #"{"alert":{"title-loc-args":["a","b"],"title":1},"content-available":true,"x":null,"n":1e3}"#,
    #"{"thread-id":"e\u0301\u0000\ud83d\ude00","interruption-level":"time-sensitive"}"#, "{}",
    #"{"deep":"# + String(repeating: "[", count: 62) + String(repeating: "]", count: 62) + "}",
  ])
  func `have an aps that reaches Apple equal to what came, whatever stands in it`(aps: String) throws {
    let aps = try JSON.parse(aps)
    let payload = try #require(try request([item([:], payload: ["aps": aps, "more": 1])]).items.first).payload
    #expect(try JSON.parse(payload) == ["push_key_id": 10, "encrypted_data": "AAAA", "aps": aps])
  }

  @Test
  func `that take back what was shown give way to others`() throws {
    guard case .object(var android) = PushItem.fcm("android") else { return }
    var items: [JSON] = ["background", "alert"].map { type in
      item(["http_headers": ["apns_priority": 5, "apns_push_type": .string(type)]])
    }
    for priority in ["normal", "high"] {
      android["fcm_priority"] = .string(priority)
      items.append(.object(android))
    }
    #expect(try request(items).items.map(\.isBackground) == [true, false, true, false])
  }

  @Test
  func `are not read if they are more than anybody has devices`() throws {
    let item = PushItem.apns("c0ffee")
    #expect(try request((0..<1000).map { _ in item }).items.count == 1000)
    let refusal = #expect(throws: APIError.self) { try request((0...1000).map { _ in item }) }
    #expect(refusal?.message == #"request["push_requests"] has too many elements (limit: 1000)"#)
  }

  @Test
  func `that cannot be sent are dropped alone`() throws {
    func nested(_ depth: Int) -> JSON { (0..<depth).reduce(JSON.integer(1)) { value, _ in [value] } }
    let long = JSON.string(String(repeating: "A", count: 4097))
    guard case .object(var fcm) = PushItem.fcm("android") else { return }
    fcm["payload"] = ["push_key_id": 1, "encrypted_data": long]
    let faulty: [JSON] = [
      nil, 5, [], "x", [:], item(["token_id": "abc"]), item(["token_id": 1]), item(["http_headers": []]),
      item(["http_headers": ["apns_priority": "10", "apns_push_type": "alert"]]),
      item(["http_headers": ["apns_priority": 10, "apns_push_type": 1]]), item(["payload": "x"]),
      item([:], payload: ["push_key_id": "1"]), item([:], payload: ["aps": []]),
      item([:], payload: ["aps": ["x": nested(63)]]), item([:], payload: ["aps": ["x": nested(300)]]),
      item([:], payload: ["aps": ["x": long]]), item([:], payload: ["encrypted_data": long]), .object(fcm),
    ]
    #expect(
      try request([PushItem.apns("c0ffee")] + faulty + [PushItem.fcm("android")]).items.map(\.kind)
        == [.apns, .fcm])
    #expect(throws: APIError.self) { try request(Array(faulty.prefix(8))) }
    #expect(try request([item([:], payload: ["encrypted_data": long])]).items.isEmpty)
  }

  @Test(
    arguments: [
      ("alert", 7, .alert, 10), ("background", 7, .background, 5), ("loud", 5, .alert, 5),
      ("loud", 7, .alert, 10),
    ] as [(String, Int64, APNsNotification.PushType, Int)])
  func `have values that are not known taken for the usual ones, and told of`(
    type: String, priority: Int64, usualType: APNsNotification.PushType, usualPriority: Int
  ) throws {
    let body = try request([
      item(["http_headers": ["apns_priority": .integer(priority), "apns_push_type": .string(type), "new": 1]])
    ])
    guard case .apns(usualType, usualPriority, _)? = body.items.first?.shape else {
      Issue.record("\(body)")
      return
    }
    let told = Set(body.additions.counts.keys.map(\.text))
    #expect(told.contains("push_requests[].http_headers.new"))
    #expect(told.contains("apns_priority: 7") == (priority == 7))
    #expect(told.contains("apns_push_type: loud") == (type == "loud"))
  }

  @Test
  func `for an iOS registration without an app are neither sent nor is it forgotten`() throws {
    let token = try PushToken("c0ffee", kind: .apns)
    let registration = Registration(
      .init(.e2ee, id: 7, registeredAt: Date(timeIntervalSince1970: 5)), token: token, iosAppID: nil)
    var lookup = RegistrationStore.Lookup()
    lookup.found = [token.id: registration]
    let batch = NotifyBatch(
      try request([PushItem.apns("c0ffee")]), lookup, realm: UUID(), of: .chatServer(1), logger: .quiet)
    #expect(batch.deliveries.isEmpty)
    #expect(batch.receipt([], forgetsUnknown: true).gone == [])
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
      _ = try await bouncer.database.execute(
        Statement(
          "UPDATE registrations SET token = $1 WHERE id IN (SELECT MAX(id) FROM registrations GROUP BY wire)",
          .bytes([1, 2, 3])))
      let items = ["damaged", "one"].map(PushItem.fcm)
      let answer = try await bouncer.post(
        "push/e2ee/notify", json: PushItem.body(realm, items), as: server)
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

  @Test
  func
    `for registrations whose tokens were exchanged in the database are not sent, and none is lost`()
    async throws
  {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      for token in ["one", "two", "three"] {
        let answer = try await bouncer.post(
          "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.fcm(token)), as: server)
        #expect(answer.isSuccess)
      }
      func exchange() async throws {
        try await bouncer.database.write { connection in
          let rows = try ["one", "two"].flatMap { token in
            try connection.query(
              Statement(
                "SELECT id, token, token_hash FROM registrations WHERE wire = 1 AND token_id = $1",
                .integer(TokenID(token: token).storage)))
          }
          for (row, other) in zip(rows, rows.reversed()) {
            try connection.run(
              Statement(
                "UPDATE registrations SET token = $2, token_hash = $3 WHERE id = $1", try row.value("id"),
                try other.value("token"), try other.value("token_hash")))
          }
        }
      }
      func notify() async throws -> Answer {
        try await bouncer.post(
          "push/e2ee/notify",
          json: PushItem.body(realm, ["one", "two", "three"].map(PushItem.fcm)), as: server)
      }
      try await exchange()
      let answer = try await notify()
      #expect(answer.json["android_successfully_sent_count"] == 1)
      #expect(answer.json["delete_token_ids"] == [])
      #expect(simulated.simulator.deliveries().map(\.token) == ["three"])
      try await exchange()
      #expect(try await notify().json["android_successfully_sent_count"] == 3)
    }
  }
}
