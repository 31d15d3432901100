import Foundation
import HTTP
import HTTPTypes
import Registrations
import Sealing
import Synchronization
import TestService
import TestSupport
import Testing

@testable import ZulipServer

/// `POST mobile_push/register`, and what the bouncer makes of it (`Documentation/Protocols/Zulip.md` 10.4 and
/// 10.5).
@Suite struct RegisterTests {
  private static let valid = "MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiEFt"

  @Test func `A registration reaches the bouncer as the client sent it, and the device is active`()
    async throws
  {
    try await Chat.test { chat in
      let client = try await chat.user()
      let device = try await client.addDevice()
      let answer = try await client.register(device, token: "c0ffee", kind: "apns")
      #expect(answer.status == 200)
      #expect(answer.json == ["result": "success", "msg": ""])
      try await client.waitUntil(device, "active") { $0.tokenID == TokenID(token: "c0ffee") }
      let call = try #require(chat.wire.calls("push/e2ee/register").first)
      let form = try #require(Form.parse(call.body)).map { "\($0.name)=\($0.value)" }
      #expect(
        form == [
          "realm_uuid=\(chat.realm.uuid.uuidString.lowercased())", "token_id=+wKIhyAx/Eg=",
          "encrypted_push_registration=sealed", "bouncer_public_key=public",
        ])
    }
  }

  @Test func `Each mistake is named as Zulip names it`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      let device = try await client.addDevice()
      let token = [
        ("token_kind", "fcm"), ("token_id", TokenID(token: "t").base64), ("bouncer_public_key", "p"),
        ("encrypted_push_registration", "s"),
      ]
      let key = [("push_key", Self.valid), ("push_key_id", "10")]
      let nothing = "Missing parameters: must provide either all push key fields, all token fields, or both."
      let cases: [([(String, String)], String)] = [
        ([], "Missing 'device_id' argument"),
        ([("device_id", "x")], "device_id is not valid JSON"),
        ([("device_id", "1.0")], "device_id is not an integer"),
        ([("device_id", "4711")] + key + token, "Invalid `device_id`"),
        ([("device_id", device)], nothing),
        ([("device_id", device), key[0]], nothing),
        ([("device_id", device)] + token.dropLast(), nothing),
        ([("device_id", device), key[1]] + token.dropFirst(), nothing),
        ([("device_id", device)] + key, "No push registration exists to rotate key for."),
        ([("device_id", device)] + token, "No push registration exists to rotate token for."),
        ([("device_id", device), ("push_key", "MTaU"), key[1]] + token, "Invalid `push_key`"),
        ([("device_id", device), ("push_key", Self.valid + "\n"), key[1]] + token, "Invalid `push_key`"),
        (
          [("device_id", device), key[0], ("push_key_id", "4294967296")] + token,
          "Invalid push_key_id: Value error, Not a valid unsigned 32-bit integer"
        ),
        (
          [("device_id", device), key[0], ("push_key_id", "-1")] + token,
          "Invalid push_key_id: Value error, Not a valid unsigned 32-bit integer"
        ),
        ([("device_id", device), key[0], ("push_key_id", "ten")] + token, "push_key_id is not valid JSON"),
        (
          [("device_id", device), ("token_kind", "gcm")] + key + token.dropFirst(),
          "Invalid token_kind: Value error, gcm is neither fcm nor apns"
        ),
        (
          [("device_id", device), ("token_id", "AAAA")] + key + token.filter { $0.0 != "token_id" },
          "`token_id` is not Base64 encoded"
        ),
        (
          [("device_id", device), ("token_id", "AAAAAAAAAAAAAAAA")] + key
            + token.filter { $0.0 != "token_id" },
          "`token_id` is not Base64 encoded"
        ),
        (
          [("device_id", device), ("encrypted_push_registration", String(repeating: "A", count: 8193))] + key
            + token.dropLast(), "encrypted_push_registration is too long (limit: 8192 characters)"
        ),
      ]
      for (form, message) in cases {
        let answer = try await client.call(.post, "mobile_push/register", form)
        #expect(answer.status == 400, "\(form)")
        #expect(answer.message == message, "\(form)")
      }
      #expect(try await chat.devices.snapshot(user: client.user.id).lastEvent == 1)
      #expect(chat.wire.calls("push/e2ee/register").isEmpty)
    }
  }

  @Test func `Half of a group is ignored where the other is complete`() async throws {
    try await Chat.test { chat in
      let client = try await chat.user()
      let device = try await client.addDevice()
      try await client.register(device, keyID: 10)
      try await client.waitUntil(device, "active") { $0.tokenID != nil }
      let answer = try await client.call(
        .post, "mobile_push/register", ("device_id", device), ("push_key", Self.valid), ("push_key_id", "11"),
        ("token_id", "nonsense"))
      #expect(answer.status == 200)
      try await client.waitUntil(device, "rotated") { $0.pushKeyID == 11 }
      #expect(chat.wire.calls("push/e2ee/register").count == 1)
    }
  }

  @Test func `The short path is the same endpoint`() async throws {
    try await Chat.test { chat in
      let answer = try await chat.call(.post, "/mobile_push/register")
      #expect(answer.status == 401)
    }
  }

  @Test(arguments: [
    (400, "INVALID_BOUNCER_PUBLIC_KEY", Device.RegistrationError.invalidBouncerPublicKey),
    (400, "REQUEST_EXPIRED", .requestExpired), (400, "BAD_REQUEST", .badRequest),
    (404, "BAD_REQUEST", .badRequest),
    (403, "SOMETHING_NEW", .badRequest),
  ])
  func `What the bouncer refuses for good is told, and a new request clears it`(
    status: Int, code: String, error: Device.RegistrationError
  ) async throws {
    try await Chat.test { chat in
      chat.wire.answer(status, #"{"result":"error","msg":"no","code":"\#(code)"}"#)
      let client = try await chat.user()
      let device = try await client.addDevice()
      try await client.register(device, token: "a")
      try await client.waitUntil(device, "refused") { $0.error == error }
      let pending = try await chat.devices.snapshot(user: client.user.id).devices.first?.state.pendingTokenID
      #expect(pending == TokenID(token: "a"))
      #expect(chat.wire.calls("push/e2ee/register").count == 1)
      chat.wire.answer(200, #"{"result":"success","msg":""}"#)
      #expect(try await client.register(device, token: "b").status == 200)
      try await client.waitUntil(device, "active") { $0.tokenID == TokenID(token: "b") && $0.error == nil }
    }
  }

  @Test(arguments: [
    ("600", 600.0), ("600.5", 600.5), ("Mon, 21 Sep 2026 14:23:20 GMT", 600), ("86400", 3600), ("soon", 0),
  ])
  func `The next try comes when the bouncer wants it, after an hour at most`(_ text: String, _ wait: Double)
    async throws
  {
    try await Chat.test { chat in
      chat.wire.answer(429, "", retryAfter: text)
      let client = try await chat.user()
      let device = try await client.addDevice()
      try await client.register(device, token: "a")
      await eventually("a try") { chat.wire.calls("push/e2ee/register").count == 1 }
      // Its own pause, of two seconds at most, comes on top.
      try await eventually("put off") {
        guard let pause = try await chat.pause(in: "device_registrations") else { return false }
        return (wait...min(wait + 2, 3600)).contains(pause)
      }
      #expect(chat.wire.calls("push/e2ee/register").count == 1)
      chat.wire.answer(200, #"{"result":"success","msg":""}"#)
      chat.clock.advance(wait + 2)
      try await client.waitUntil(device, "active") { $0.tokenID != nil }
    }
  }

  @Test func `An upload of the realms that fails in passing puts the registration off, too`() async throws {
    try await Chat.test { chat in
      chat.wire.answer(503, "", retryAfter: "600")
      let client = try await chat.user()
      let device = try await client.addDevice()
      chat.wire.answer { call in
        call.endpoint == "server/analytics"
          ? (503, "") : (403, #"{"result":"error","msg":"?","code":"MISSING_REMOTE_REALM"}"#)
      }
      try await client.register(device, token: "a")
      try await eventually("put off") {
        guard let pause = try await chat.pause(in: "device_registrations") else { return false }
        return (600...602).contains(pause)
      }
    }
  }

  enum Passing: CaseIterable {
    case unreachable, serverError, tooMany, webPage, strangeSuccess, missingRealm, refusedRealm, credentials,
      plan
  }

  @Test(arguments: Passing.allCases)
  func `What passes is tried again until the bouncer has it, and no other token meanwhile`(fault: Passing)
    async throws
  {
    try await Chat.test { chat in
      chat.wire.answer { call in
        switch fault {
        case .unreachable: throw CocoaError(.fileReadUnknown)
        case .serverError: return (503, #"{"result":"error","msg":"later","code":"SERVICE_UNAVAILABLE"}"#)
        case .tooMany: return (429, #"{"result":"error","msg":"slow","code":"RATE_LIMIT_HIT"}"#)
        case .webPage: return (404, "<html>nginx</html>")
        case .strangeSuccess: return (200, "OK")
        case .missingRealm where call.endpoint == "server/analytics":
          return (200, #"{"result":"success","msg":""}"#)
        case .refusedRealm where call.endpoint == "server/analytics":
          return (400, #"{"result":"error","msg":"Duplicate registration detected.","code":"BAD_REQUEST"}"#)
        case .missingRealm, .refusedRealm:
          return (403, #"{"result":"error","msg":"?","code":"MISSING_REMOTE_REALM"}"#)
        case .credentials: return (401, #"{"result":"error","msg":"?","code":"UNAUTHORIZED"}"#)
        case .plan: return (400, #"{"result":"error","msg":"?","code":"PUSH_NOTIFICATIONS_DISALLOWED"}"#)
        }
      }
      let client = try await chat.user()
      let device = try await client.addDevice()
      try await client.register(device, token: "a")
      // Pauses are random up to a bound: time passes until it has been tried three times.
      for _ in 0..<200 where chat.wire.calls("push/e2ee/register").count < 3 {
        chat.clock.advance(60)
        // Until the registrar has looked again; bounded by the number of rounds.
        try await Task.sleep(for: .milliseconds(50))
      }
      #expect(chat.wire.calls("push/e2ee/register").count >= 3)
      let state = try #require(try await chat.devices.snapshot(user: client.user.id).devices.first?.state)
      #expect(state.error == nil && state.pendingTokenID != nil && state.tokenID == nil)
      let refused = try await client.register(device, token: "b")
      #expect(refused.message == "A registration for the device already in progress.")
      if fault == .missingRealm { #expect(!chat.wire.calls("server/analytics").isEmpty) }
      chat.wire.answer(200, #"{"result":"success","msg":""}"#)
      try await client.waitUntil(device, "active") {
        chat.clock.advance(60)
        return $0.tokenID == TokenID(token: "a")
      }
    }
  }

  @Test func `After a day without the bouncer it has expired, and the device is free again`() async throws {
    try await Chat.test { chat in
      chat.wire.answer(500, "")
      let client = try await chat.user()
      let device = try await client.addDevice()
      try await client.register(device, token: "a")
      chat.clock.advance(86_400)
      // The first try's pause may be counted from this clock already: time goes on until it is over.
      try await client.waitUntil(device, "expired") {
        chat.clock.advance(60)
        return $0.error == .requestExpired
      }
      #expect(try await chat.devices.jobCount() == 0)
      chat.wire.answer(200, #"{"result":"success","msg":""}"#)
      try await client.register(device, token: "a")
      try await client.waitUntil(device, "active") { $0.tokenID == TokenID(token: "a") }
    }
  }

  @Test
  func `While the clock may be wrong no registration expires, and none waits for a time that was wrong`()
    async throws
  {
    try await Chat.test { chat in
      chat.wire.answer(500, "")
      let client = try await chat.user()
      let device = try await client.addDevice()
      try await client.register(device, token: "a")
      let tries = { chat.wire.calls("push/e2ee/register").count }
      try await client.waitUntil(device, "tried") { _ in tries() > 0 }
      var ahead: TimeInterval = 25 * 3600
      chat.clock.jump(ahead)
      let before = tries()
      // The first try's pause may be counted from this clock already: time goes on until it is over.
      try await client.waitUntil(device, "tried again") { _ in
        chat.clock.jump(60)
        ahead += 60
        return tries() > before
      }
      #expect(try await chat.devices.snapshot(user: client.user.id).devices.first?.state.error == nil)
      // The clock is right again: the next try is a day ahead.
      chat.clock.jump(-ahead)
      try await chat.test.trustClock()
      try await chat.devices.bringForward()
      chat.wire.answer(200, #"{"result":"success","msg":""}"#)
      // A try under way was made by the wrong clock still.
      try await client.waitUntil(device, "active") {
        try await chat.devices.bringForward()
        return $0.tokenID == TokenID(token: "a")
      }
    }
  }

  @Test func `Without a bouncer there is no registering`() async throws {
    try await Chat.test(["server.bouncer": "off"]) { chat in
      let client = try await chat.user()
      let device = try await client.addDevice()
      for answer in [
        try await client.register(device), try await client.call(.post, "mobile_push/e2ee/test_notification"),
      ] {
        #expect(answer.status == 400)
        #expect(answer.code == "PUSH_SERVICE_NOT_CONFIGURED")
        #expect(answer.message == "Server is not configured to use push notification service.")
      }
    }
  }
}
