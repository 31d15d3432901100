import Foundation
import HTTP
import HTTPTypes
import Registrations
import Sealing
import Testing

@testable import ZulipServer

/// What devices get (`Documentation/Protocols/Zulip.md` 5.6, 6.6 and 10.6).
@Suite struct NotificationTests {
  private static func receipt(apple: Int = 0, android: Int = 0, gone: [String] = []) -> String {
    let gone = gone.map { "\"\(TokenID(token: $0).base64)\"" }.joined(separator: ",")
    return """
      {"result":"success","msg":"","apple_successfully_sent_count":\(apple),\
      "android_successfully_sent_count":\(android),"delete_token_ids":[\(gone)],\
      "realm_push_status":{"can_push":true,"expected_end_timestamp":null}}
      """
  }

  /// The items of the latest request.
  private func requests(_ chat: Chat) throws -> [JSON] {
    let call = try #require(chat.wire.calls("push/e2ee/notify").last)
    let body = try JSON.parse(call.body)
    #expect(body["realm_uuid"]?.string == chat.realm.uuid.uuidString.lowercased())
    guard case .array(let items)? = body["push_requests"] else { return [] }
    return items
  }

  private func opened(_ item: JSON, _ key: PushKey) throws -> JSON {
    let sealed = try #require(item["payload"]?["encrypted_data"]?.string.flatMap(Base64.decodeStrictly))
    return try JSON.parse(try #require(key.open(sealed)))
  }

  /// An iPhone and an Android phone, both registered.
  private func phones(_ chat: Chat) async throws -> (Client, apns: (String, PushKey), fcm: (String, PushKey))
  {
    let client = try await chat.user()
    let (apns, fcm) = (try await client.addDevice(), try await client.addDevice())
    let keys = (PushKey.generate(), PushKey.generate())
    try await client.register(apns, key: keys.0, keyID: 1, token: "c0ffee", kind: "apns")
    try await client.register(fcm, key: keys.1, keyID: 2, token: "android", kind: "fcm")
    for device in [apns, fcm] { try await client.waitUntil(device, "active") { $0.tokenID != nil } }
    return (client, (apns, keys.0), (fcm, keys.1))
  }

  @Test func `Each device gets its own, sealed with its key, in its provider's shape`() async throws {
    try await Chat.test { chat in
      let (client, apns, fcm) = try await phones(chat)
      _ = try await client.addDevice()
      chat.wire.answer(200, Self.receipt(apple: 1, android: 1))
      let result = try await chat.notifier.notify(client.user, ["type": "message", "content": "é"])
      #expect(
        result.json == [
          "devices": 2, "apple_successfully_sent_count": 1, "android_successfully_sent_count": 1,
          "deleted_devices": 0,
        ])
      #expect(chat.wire.calls("push/e2ee/notify").count == 1)
      let items = try requests(chat)
      let expected: JSON = [
        "type": "message", "content": "é", "realm_url": "https://chat.example.org", "realm_name": "Zulip Dev",
        "user_id": 10,
      ]
      #expect(items.map { $0["token_id"]?.string } == ["+wKIhyAx/Eg=", TokenID(token: "android").base64])
      #expect(try opened(items[0], apns.1) == expected)
      #expect(try opened(items[1], fcm.1) == expected)
      #expect(items[0]["payload"]?["push_key_id"] == 1 && items[1]["payload"]?["push_key_id"] == 2)
      #expect(items[0]["http_headers"] == ["apns_priority": 10, "apns_push_type": "alert"])
      #expect(
        items[0]["payload"]?["aps"] == [
          "mutable-content": 1, "alert": ["title": "New notification"], "sound": "default",
        ])
      #expect(items[1]["fcm_priority"] == "high")
      #expect(items[1]["payload"]?["aps"] == nil && items[1]["http_headers"] == nil)
    }
  }

  @Test func `No two are sealed alike`() async throws {
    try await Chat.test { chat in
      let (client, _, _) = try await phones(chat)
      chat.wire.answer(200, Self.receipt())
      var seen: Set<String> = []
      for _ in 0..<20 {
        _ = try await chat.notifier.notify(client.user, ["type": "test"])
        for item in try requests(chat) {
          let sealed = try #require(item["payload"]?["encrypted_data"]?.string)
          #expect(seen.insert(sealed).inserted)
        }
      }
    }
  }

  @Test func `A removal is silent, of low priority, and tells of the newest 200 messages`() async throws {
    try await Chat.test { chat in
      let (client, apns, fcm) = try await phones(chat)
      chat.wire.answer(200, Self.receipt())
      let ids = (1...250).map { JSON.integer(Int64($0)) }.shuffled()
      _ = try await chat.notifier.notify(client.user, ["type": "remove", "message_ids": .array(ids)])
      let items = try requests(chat)
      #expect(items[0]["http_headers"] == ["apns_priority": 5, "apns_push_type": "background"])
      #expect(items[0]["payload"]?["aps"] == ["content-available": 1])
      #expect(items[1]["fcm_priority"] == "normal")
      for (item, key) in zip(items, [apns.1, fcm.1]) {
        #expect(try opened(item, key)["message_ids"] == .array((51...250).map { .integer($0) }))
      }
    }
  }

  @Test func `A removal is an alert on iPhones whose app takes it so`() async throws {
    try await Chat.test(["server.alert_removals": "true"]) { chat in
      let (client, apns, _) = try await phones(chat)
      chat.wire.answer(200, Self.receipt())
      _ = try await chat.notifier.notify(client.user, ["type": "remove", "message_ids": [31]])
      let items = try requests(chat)
      #expect(items[0]["http_headers"] == ["apns_priority": 5, "apns_push_type": "alert"])
      #expect(items[0]["payload"]?["aps"] == ["mutable-content": 1, "alert": ["title": "New notification"]])
      #expect(try opened(items[0], apns.1)["message_ids"] == [31])
      #expect(items[1]["fcm_priority"] == "normal")
    }
  }

  @Test func `What the caller says of realm and user stands`() async throws {
    try await Chat.test { chat in
      let (client, apns, _) = try await phones(chat)
      chat.wire.answer(200, Self.receipt())
      _ = try await chat.notifier.notify(client.user, ["realm_url": "https://other", "user_id": 99])
      let payload = try opened(try requests(chat)[0], apns.1)
      #expect(payload == ["realm_url": "https://other", "user_id": 99, "realm_name": "Zulip Dev"])
    }
  }

  @Test func `Tokens that the bouncer does not know go, with an event, and it is not asked of them again`()
    async throws
  {
    try await Chat.test { chat in
      let (client, apns, _) = try await phones(chat)
      let before = try await chat.devices.snapshot(user: client.user.id).lastEvent
      chat.wire.answer(200, Self.receipt(android: 1, gone: ["c0ffee", "another's"]))
      let result = try await chat.notifier.notify(client.user, ["type": "test"])
      #expect(result.gone == 2)
      try await client.waitUntil(apns.0, "lost") { $0.tokenID == nil }
      #expect(try await chat.devices.snapshot(user: client.user.id).lastEvent == before + 1)
      _ = try await chat.notifier.notify(client.user, ["type": "test"])
      #expect(try requests(chat).map { $0["token_id"]?.string } == [TokenID(token: "android").base64])
      chat.wire.answer(200, #"{"result":"success","msg":""}"#)
      try await client.register(apns.0, key: apns.1, keyID: 1, token: "c0ffee", kind: "apns")
      try await client.waitUntil(apns.0, "back") { $0.tokenID != nil }
    }
  }

  @Test func `More than a provider takes is refused before it is sent`() async throws {
    try await Chat.test { chat in
      let (client, _, _) = try await phones(chat)
      chat.wire.answer(200, Self.receipt())
      let room = PlainNotification.maximumBytes - 200
      _ = try await chat.notifier.notify(
        client.user, ["content": .string(String(repeating: "x", count: room))])
      for item in try requests(chat) {
        #expect(try #require(item["payload"]).bytes.count <= 4096)
      }
      let error = await #expect(throws: APIError.self) {
        try await chat.notifier.notify(
          client.user, ["content": .string(String(repeating: "x", count: PlainNotification.maximumBytes))])
      }
      #expect(error?.status == .badRequest)
      #expect(chat.wire.calls("push/e2ee/notify").count == 1)
    }
  }

  @Test func `A realm that the bouncer misses is uploaded, and the notification goes`() async throws {
    try await Chat.test { chat in
      let (client, _, _) = try await phones(chat)
      chat.wire.answer { call in
        if call.endpoint == "server/analytics" { return (200, #"{"result":"success","msg":""}"#) }
        guard chat.wire.calls("push/e2ee/notify").count > 1 else {
          return (403, #"{"result":"error","msg":"?","code":"MISSING_REMOTE_REALM"}"#)
        }
        return (200, Self.receipt(apple: 1, android: 1))
      }
      #expect(try await chat.notifier.notify(client.user, ["type": "test"]).apple == 1)
      let upload = try #require(chat.wire.calls("server/analytics").last)
      let realms = try #require(Form.parse(upload.body)?.first { $0.name == "realms" }?.value)
      guard case .array(let list) = try JSON.parse(realms), let realm = list.first else {
        Issue.record("no realms")
        return
      }
      #expect(realm["uuid"]?.string == chat.realm.uuid.uuidString.lowercased())
      #expect(realm["host"] == "chat.example.org")
      #expect(realm["uuid_owner_secret"]?.string?.utf8.count == 64)
    }
  }

  @Test(arguments: [
    (0, "", 502, "FAILED_TO_CONNECT_BOUNCER"), (500, "", 502, "INTERNAL_SERVER_ERROR_ON_BOUNCER"),
    (429, "", 502, "INTERNAL_SERVER_ERROR_ON_BOUNCER"), (200, "{}", 502, "INTERNAL_SERVER_ERROR_ON_BOUNCER"),
    (403, "MISSING_REMOTE_REALM", 403, "ADMIN_ACTION_REQUIRED"),
    (401, "UNAUTHORIZED", 403, "ADMIN_ACTION_REQUIRED"),
    (400, "PUSH_NOTIFICATIONS_DISALLOWED", 403, "ADMIN_ACTION_REQUIRED"),
  ])
  func `What the bouncer cannot do is told, and no token goes`(
    status: Int, code: String, told: Int, as name: String
  )
    async throws
  {
    try await Chat.test { chat in
      let (client, _, _) = try await phones(chat)
      chat.wire.answer { _ in
        guard status != 0 else { throw CocoaError(.fileReadUnknown) }
        return (status, code == "{}" ? code : #"{"result":"error","msg":"?","code":"\#(code)"}"#)
      }
      let answer = try await client.call(.post, "mobile_push/e2ee/test_notification")
      #expect((answer.status, answer.code) == (told, name))
      let error = await #expect(throws: APIError.self) {
        try await chat.notifier.notify(client.user, ["type": "test"])
      }
      #expect(error?.code == name)
      #expect(try await chat.devices.active(user: client.user.id).count == 2)
    }
  }

  @Test func `Without an active device there is nothing to test`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      _ = try await client.addDevice()
      let answer = try await client.call(.post, "mobile_push/e2ee/test_notification")
      #expect(answer.status == 400)
      #expect(answer.code == "NO_ACTIVE_PUSH_DEVICE")
      #expect(answer.message == "No active registered push device")
    }
  }

  @Test func `The text of a test notification is Zulip's`() async throws {
    try await Chat.test { chat in
      let (client, apns, fcm) = try await phones(chat)
      chat.wire.answer(200, Self.receipt(apple: 1))
      let answer = try await client.call(.post, "mobile_push/e2ee/test_notification", ("device_id", apns.0))
      #expect(answer.json == ["result": "success", "msg": ""])
      #expect(try requests(chat).count == 1)
      #expect(
        try opened(try requests(chat)[0], apns.1) == [
          "realm_name": "Zulip Dev", "realm_url": "https://chat.example.org", "time": 1_790_000_000,
          "type": "test", "user_id": 10,
        ])
      #expect(try await client.call(.post, "mobile_push/e2ee/test_notification").status == 200)
      #expect(try requests(chat).count == 2)
      for wrong in ["4711", "0"] {
        let answer = try await client.call(.post, "mobile_push/e2ee/test_notification", ("device_id", wrong))
        #expect(answer.code == "NO_ACTIVE_PUSH_DEVICE")
      }
      chat.wire.answer(200, Self.receipt(gone: ["android"]))
      let gone = try await client.call(.post, "mobile_push/e2ee/test_notification", ("device_id", fcm.0))
      #expect(gone.code == "NO_ACTIVE_PUSH_DEVICE")
    }
  }
}
