import Foundation
import HTTP
import HTTPTypes
import Providers
import Registrations
import SQL
import Sealing
import Synchronization
import TestService
import TestSupport
import Testing
import ZulipBouncer

@testable import ZulipServer

/// What old apps register, and how they give way to new ones (`Documentation/Protocols/Zulip.md` 8.2, 10.6
/// and 10.8).
@Suite(.chat) struct LegacyTests {
  private let chat = Fixture<Chat>.current

  private static let gone = #"{"result":"error","msg":"Token does not exist","code":"BAD_REQUEST"}"#

  private static func receipt(android: Int = 0, apple: Int = 0, missing: [String] = []) -> String {
    let apns = missing.filter { !$0.hasPrefix("fcm") }.map { "\"\($0)\"" }.joined(separator: ",")
    let fcm = missing.filter { $0.hasPrefix("fcm") }.map { "\"\($0)\"" }.joined(separator: ",")
    return """
      {"result":"success","msg":"","total_android_devices":\(android),"total_apple_devices":\(apple),\
      "deleted_devices":{"android_devices":[\(fcm)],"apple_devices":[\(apns)]},"realm":null}
      """
  }

  private func fields(_ call: BouncerClient.Call) throws -> [String: String] {
    Dictionary(
      try #require(Form.parse(call.body)).map { ($0.name.text, $0.value) }, uniquingKeysWith: { $1 })
  }

  private func tokens(_ client: Client) async throws -> [String] {
    try await client.chat.devices.legacyTokens.tokens(of: client.user.id).map(\.token.text)
  }

  /// Time goes on meanwhile: a pause may be counted from a moment after the last that the test has set.
  private func untilUnregistered(_ chat: Chat) async throws {
    try await eventually {
      chat.clock.advance(60)
      return try await chat.devices.legacyTokens.jobs.count() == 0
    }
  }

  @Test func `Tokens are kept once, and the bouncer is told each time`() async throws {
    let client = try await chat.user()
    for token in ["c0ffee", "C0FFEE"] {
      let answer = try await client.call(
        .post, "users/me/apns_device_token", ("appid", "org.zulip.Zulip"), ("token", token))
      #expect(answer.status == 200)
    }
    #expect(try await client.call(.post, "users/me/android_gcm_reg_id", ("token", "fcm-a")).status == 200)
    #expect(try await tokens(client) == ["c0ffee", "fcm-a"])
    let calls = chat.wire.calls("push/register")
    #expect(calls.count == 3)
    #expect(
      try fields(calls[1]) == [
        "user_id": "10", "user_uuid": client.user.uuid.uuidString.lowercased(),
        "realm_uuid": chat.realm.uuid.uuidString.lowercased(), "token": "C0FFEE", "token_kind": "1",
        "ios_app_id": "org.zulip.Zulip",
      ])
    #expect(try fields(calls[2])["ios_app_id"] == nil)
  }

  @Test func `A token that is removed is removed at the bouncer too, whenever that is back`() async throws {
    let client = try await chat.user()
    try await client.call(.post, "users/me/apns_device_token", ("appid", "app"), ("token", "c0ffee"))
    chat.wire.answer(503, "away", retryAfter: "600")
    let answer = try await client.call(.delete, "users/me/apns_device_token", ("token", "C0FFEE"))
    #expect(answer.status == 200)
    #expect(try await tokens(client).isEmpty)
    try await eventually("put off for as long as the bouncer wants") {
      guard let pause = try await chat.pause(in: "legacy_unregistrations") else { return false }
      return (600...602).contains(pause)
    }
    #expect(try await chat.devices.legacyTokens.jobs.count() == 1)
    chat.wire.answer(200, #"{"result":"success","msg":""}"#)
    chat.clock.advance(3600)
    try await untilUnregistered(chat)
    let last = try #require(chat.wire.calls("push/unregister").last)
    #expect(try fields(last)["token"] == "C0FFEE")
    #expect(try fields(last)["token_kind"] == "1")
    #expect(try fields(last)["user_uuid"] == client.user.uuid.uuidString.lowercased())
    // What this side does not have may still be the bouncer's.
    #expect(try await client.call(.delete, "users/me/android_gcm_reg_id", ("token", "x")).status == 200)
    chat.wire.answer(400, Self.gone)
    let unknown = try await client.call(.delete, "users/me/android_gcm_reg_id", ("token", "x"))
    #expect(unknown.status == 400 && unknown.message == "Token does not exist")
  }

  @Test func `A token that the bouncer does not have is done with`() async throws {
    let client = try await chat.user()
    try await client.call(.post, "users/me/apns_device_token", ("appid", "app"), ("token", "c0ffee"))
    chat.wire.answer(400, Self.gone)
    try await client.call(.delete, "users/me/apns_device_token", ("token", "c0ffee"))
    try await untilUnregistered(chat)
    #expect(chat.wire.calls("push/unregister").count == 1)
  }

  @Test func `A token that comes back before the bouncer was told stays there`() async throws {
    let client = try await chat.user()
    try await client.call(.post, "users/me/android_gcm_reg_id", ("token", "fcm-a"))
    chat.wire.answer(503, "away")
    try await client.call(.delete, "users/me/android_gcm_reg_id", ("token", "fcm-a"))
    await eventually { !chat.wire.calls("push/unregister").isEmpty }
    try await client.call(.post, "users/me/android_gcm_reg_id", ("token", "fcm-a"))
    #expect(try await chat.devices.legacyTokens.jobs.count() == 0)
    #expect(try await tokens(client) == ["fcm-a"])
  }

  @Test(arguments: [
    (registered: "c0ffee", kind: "apns", named: "C0FFEE"), ("C0ffEE", "apns", "c0ffee"),
    ("c0ffee", "apns", "c0ffee"), ("fcm-a", "fcm", "fcm-a"),
  ])
  func `A device that registers takes the place of its old app, in every spelling`(
    _ registered: String, _ kind: String, _ named: String
  ) async throws {
    let client = try await chat.user()
    let neighbour = try await chat.user("hamlet", id: 11)
    let endpoint = kind == "apns" ? "apns_device_token" : "android_gcm_reg_id"
    for client in [client, neighbour] {
      for token in [registered, kind == "apns" ? "beef" : "FCM-A"] {
        try await client.call(.post, "users/me/\(endpoint)", ("appid", "app"), ("token", token))
      }
    }
    let device = try await client.addDevice()
    try await client.register(device, token: named, kind: kind)
    try await client.waitUntil(device, "active") { $0.tokenID != nil }
    #expect(try await tokens(client).count == 1)
    #expect(try await tokens(neighbour).count == 2)
    try await untilUnregistered(chat)
    let calls = chat.wire.calls("push/unregister")
    #expect(calls.count == 1)
    #expect(try fields(try #require(calls.first))["token"] == registered)
  }

  @Test func `Old apps get what they can read, before devices that decrypt`() async throws {
    let client = try await chat.user()
    try await client.call(.post, "users/me/apns_device_token", ("appid", "app"), ("token", "c0ffee"))
    let device = try await client.addDevice()
    try await client.register(device, token: "other", kind: "fcm")
    try await client.waitUntil(device, "active") { $0.tokenID != nil }
    let order = Mutex<[String]>([])
    chat.wire.answer { call in
      order.withLock { $0.append(call.endpoint) }
      return call.endpoint == "push/notify"
        ? (200, Self.receipt(apple: 1, missing: ["C0FFEE"]))
        : (
          200,
          #"{"result":"success","apple_successfully_sent_count":0,"android_successfully_sent_count":1,"delete_token_ids":[]}"#
        )
    }
    let legacy = try LegacyNotification(
      backend: Field(
        ["apns_payload": ["alert": "hi"], "gcm_payload": ["event": "message", "content": "hi"]],
        path: "legacy"))
    let outcome = try await chat.notifier.notify(
      client.user, ["type": "message"], legacy: legacy)
    #expect(order.withLock { $0 } == ["push/notify", "push/e2ee/notify"])
    #expect(
      try outcome.legacy?.get().legacyJSON == [
        "devices": 1, "total_apple_devices": 1, "total_android_devices": 0, "deleted_devices": 1,
      ])
    #expect(try outcome.encrypted?.get().android == 1)
    let body = try JSON.parse(try #require(chat.wire.calls("push/notify").first).body)
    #expect(body["apple_devices"] == ["c0ffee"] && body["android_devices"] == [])
    #expect(body["apns_payload"] == ["alert": "hi"])
    // There is no Android device: nothing for one.
    #expect(body["gcm_payload"] == [:])
    #expect(body["user_id"] == 10)
    // What the bouncer does not have is forgotten, and with nobody left it is not asked.
    #expect(try await tokens(client).isEmpty)
    let again = try await chat.notifier.notify(client.user, nil, legacy: legacy)
    #expect(try again.legacy?.get() == Notifier.Result())
    #expect(chat.wire.calls("push/notify").count == 1)
  }

  @Test func `A device that moves on while it is notified gets it all the same, and once`() async throws {
    let client = try await chat.user()
    try await client.call(.post, "users/me/apns_device_token", ("appid", "app"), ("token", "c0ffee"))
    let device = try await client.addDevice()
    let items = Mutex<[JSON]>([])
    chat.wire.answer { call in
      switch call.endpoint {
      case "push/notify":
        // The bouncer has the new registration by now; this side has yet to hear of it.
        try await client.register(device, token: "C0FFEE", kind: "apns")
        return (200, Self.receipt(missing: ["c0ffee"]))
      case "push/e2ee/register": return (503, "slow")
      default:
        let body = try JSON.parse(call.body)
        if case .array(let list)? = body["push_requests"] { items.withLock { $0 += list } }
        return (
          200,
          #"{"result":"success","apple_successfully_sent_count":1,"android_successfully_sent_count":0,"delete_token_ids":[]}"#
        )
      }
    }
    let legacy = try LegacyNotification(
      backend: Field(["apns_payload": ["alert": "hi"]], path: "legacy"))
    let outcome = try await chat.notifier.notify(
      client.user, ["type": "message"], legacy: legacy)
    #expect(try outcome.encrypted?.get().devices == 1)
    #expect(items.withLock { $0 }.map { $0["token_id"] } == [.string(TokenID(token: "C0FFEE").base64)])
  }

  @Test func `A part that fails does not make the other one be sent again`() async throws {
    let client = try await chat.user()
    try await client.call(.post, "users/me/android_gcm_reg_id", ("token", "fcm-a"))
    let device = try await client.addDevice()
    try await client.register(device, token: "other", kind: "fcm")
    try await client.waitUntil(device, "active") { $0.tokenID != nil }
    chat.wire.answer { call in
      call.endpoint == "push/notify" ? (200, Self.receipt(android: 1)) : (500, "oops")
    }
    let legacy = try LegacyNotification(
      backend: Field(["gcm_payload": ["event": "message"]], path: "legacy"))
    let outcome = try await chat.notifier.notify(
      client.user, ["type": "message"], legacy: legacy)
    #expect(try outcome.legacy?.get().android == 1)
    guard case .failure(let error as APIError)? = outcome.encrypted else {
      Issue.record("sent all the same")
      return
    }
    #expect(error.status == .badGateway)
  }

  @Test(
    arguments: [
      (["gcm_payload": ["from": "x"]], #"["gcm_payload"]["from"] has a name that Google reserves"#),
      (
        ["gcm_payload": ["a": 1, "message_type": "x"]],
        #"["gcm_payload"]["message_type"] has a name that Google reserves"#
      ),
      (
        ["gcm_payload": ["gcm.notification.title": "x"]],
        #"["gcm_payload"]["gcm.notification.title"] has a name that Google reserves"#
      ),
      (
        ["gcm_payload": ["k": .string(String(repeating: "x", count: 4096))]],
        #"["gcm_payload"] is too large for Google (4097 bytes, limit: 4096)"#
      ),
      (
        ["gcm_payload": ["k": "x"], "gcm_options": ["priority": "urgent"]],
        "Invalid GCM option to bouncer: priority 'urgent'"
      ),
      (
        ["apns_payload": ["alert": .string(String(repeating: "x", count: 4090))]],
        #"["apns_payload"] is too large for Apple (4110 bytes, limit: 4096)"#
      ),
      (["apns_payload": ["alert": "x", "custom": "x"]], #"["apns_payload"]["custom"] is not a dict"#),
      (
        ["apns_payload": ["alert": "x", "custom": ["aps": [:]]]],
        #"["apns_payload"]["custom"]["aps"] is not allowed: Apple has it beside custom"#
      ),
    ] as [(JSON, String)])
  func `What Apple or Google would refuse is refused to the host application, by the member's name`(
    _ legacy: JSON, _ message: String
  ) throws {
    let error = #expect(throws: APIError.self) {
      try LegacyNotification(backend: Field(legacy, path: "legacy"))
    }
    #expect(error?.status == .badRequest)
    #expect(error?.message == (message.hasPrefix("[") ? "legacy\(message)" : message))
  }

  @Test func `Who gets another key is signed out everywhere`() async throws {
    let client = try await chat.user()
    try await client.call(.post, "users/me/android_gcm_reg_id", ("token", "fcm-a"))
    let device = try await client.addDevice()
    try await client.register(device, token: "other", kind: "fcm")
    try await client.waitUntil(device, "active") { $0.tokenID != nil }
    let before = try await chat.devices.snapshot(user: client.user.id).lastEvent
    func put(_ key: String) async throws {
      _ = try await chat.accounts.put(
        .init(email: client.user.email, apiKey: key), userID: 10, realm: chat.realm.uuid,
        newKey: chat.devices.signOut)
    }
    // The same key again is no other one.
    try await put(client.key)
    #expect(try await chat.devices.active(user: client.user.id).count == 1)
    #expect(try await tokens(client) == ["fcm-a"])
    try await put(String(repeating: "k", count: 32))
    let after = try await chat.devices.snapshot(user: client.user.id)
    #expect(after.devices.isEmpty && after.lastEvent == before + 1)
    #expect(try await tokens(client).isEmpty)
    try await untilUnregistered(chat)
    let call = try #require(chat.wire.calls("push/unregister/all").first)
    #expect(try fields(call)["user_id"] == "10")
    #expect(try fields(call)["token"] == nil)
  }

  @Test func `Who signs in again before the bouncer has heard keeps the token that came back`() async throws {
    let client = try await chat.user()
    try await client.call(.post, "users/me/android_gcm_reg_id", ("token", "fcm-a"))
    chat.wire.answer(503, "away")
    let key = String(repeating: "k", count: 32)
    let user = try await chat.accounts.put(
      .init(email: client.user.email, apiKey: key), userID: 10, realm: chat.realm.uuid,
      newKey: chat.devices.signOut
    ).user
    await eventually { !chat.wire.calls("push/unregister/all").isEmpty }
    let again = Client(chat: chat, user: user, key: key)
    #expect(try await again.call(.post, "users/me/android_gcm_reg_id", ("token", "fcm-a")).status == 502)
    let before = chat.wire.calls("push/register").count
    chat.wire.answer(200, #"{"result":"success","msg":""}"#)
    chat.clock.advance(3600)
    try await untilUnregistered(chat)
    // All of the user's are forgotten there, and then the one that is here is there.
    let after = chat.wire.calls("push/register").dropFirst(before)
    #expect(after.count == 1)
    #expect(try after.first.map(fields)?["token"] == "fcm-a")
    #expect(try await tokens(again) == ["fcm-a"])
  }
}
