import Delivery
import Foundation
import HTTP
import NIOCore
import Providers
import Registrations
import Sealing
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("Notifications in clear")
struct LegacyPayloadTests {
  private func notification(_ json: JSON) throws -> LegacyNotification {
    try LegacyNotification(Field(json, path: "request"))
  }

  // Expected values are those of Python 3.11's str().
  @Test(arguments: [
    ("5", "5"), ("true", "True"), ("false", "False"), ("null", "None"), ("\"it's\"", "it's"),
    ("[1, 2]", "[1, 2]"), ("[]", "[]"), ("{}", "{}"), ("1.0", "1.0"), ("1e22", "1e+22"),
    ("123456789012345678901234567890", "123456789012345678901234567890"), ("0.00001", "1e-05"),
    (#"["a", "it's", "say \"it's\"", "x\n\\\u0001é"]"#, #"['a', "it's", 'say "it\'s"', 'x\n\\\x01é']"#),
    (#"{"a": {"b": [null, true]}}"#, "{'a': {'b': [None, True]}}"),
  ])
  func `have all values made text as Python does for FCM`(json: String, text: String) throws {
    #expect(try JSON.parse(json).pythonText == text)
  }

  @Test
  func `that take messages away name the newest 200, and do so without waking anybody`() throws {
    let ids = (1...250).reversed().map(String.init).joined(separator: ", ")
    let removal = try notification([
      "gcm_payload": ["event": "remove", "zulip_message_ids": .string(ids)],
      "apns_payload": [
        "badge": 0, "custom": ["zulip": ["event": "remove", "zulip_message_ids": .string(ids)]],
      ],
    ])
    let newest = (51...250).map(String.init).joined(separator: ",")
    #expect(removal.fcmData["zulip_message_ids"] == newest)
    #expect(
      try JSON.parse(String(buffer: removal.apnsPayload))["zulip"]?["zulip_message_ids"] == .string(newest))
    #expect(removal.fcmPriority == .normal)
    let reference = RegistrationReference(.legacy, id: 1, registeredAt: Date())
    let registration = Registration(
      reference, token: try PushToken("c0ffee", kind: .apns), iosAppID: "app")
    let now = Date(timeIntervalSince1970: 1000.7)
    guard case .apns(let push)? = removal.apnsPush(for: registration, payload: ByteBuffer(), now: now) else {
      throw CocoaError(.coderInvalidValue)
    }
    #expect(push.pushType == .background && push.priority == 5)
    #expect(push.expiration == Date(timeIntervalSince1970: 87_400))
    for shown: JSON in [
      ["custom": ["zulip": ["event": "message"]]],
      ["alert": "Hello", "custom": ["zulip": ["event": "remove"]]],
    ] {
      let shown = try notification(["apns_payload": shown])
      guard case .apns(let push)? = shown.apnsPush(for: registration, payload: ByteBuffer(), now: now) else {
        throw CocoaError(.coderInvalidValue)
      }
      #expect(push.pushType == .alert && push.priority == nil)
    }
    let few = try notification(["gcm_payload": ["event": "remove", "zulip_message_ids": "32,5,31"]])
    #expect(few.fcmData["zulip_message_ids"] == "5,31,32")
    let homeless = Registration(reference, token: registration.token, iosAppID: nil)
    let unreachable = removal.apnsPush(for: homeless, payload: ByteBuffer(), now: now)
    #expect(unreachable == nil)
  }

  @Test
  func `have options that are not known ignored, and names that Google reserves refused`() throws {
    let log = LogRecorder()
    let mixed = try notification([
      "apns_payload": ["alert": "hello"], "gcm_payload": ["event": "message"],
      "gcm_options": ["priority": "urgent", "ttl": 1],
    ])
    let devices = try [("c0ffee", PushToken.Kind.apns, "app" as String?), ("android", .fcm, nil)].map {
      text, kind, app in
      Registration(
        RegistrationReference(.legacy, id: 1, registeredAt: Date()),
        token: try PushToken(text, kind: kind), iosAppID: app)
    }
    let pushes = try mixed.pushes(to: devices, of: .chatServer(1), now: Date(), logger: log.logger)
    #expect(pushes.map(\.isBackground) == [false, false] && mixed.fcmPriority == .high)
    let removal = try notification([
      "apns_payload": ["custom": ["zulip": ["event": "remove"]]], "gcm_payload": ["event": "remove"],
    ])
    let removals = try removal.pushes(to: devices, of: .chatServer(1), now: Date(), logger: log.logger)
    #expect(removals.map(\.isBackground) == [true, true])
    var additions = Additions()
    mixed.addUnknownOptions(in: &additions)
    #expect(
      Set(additions.counts.keys.map(\.text)) == ["gcm_options.ttl", "gcm_options.priority: urgent"])
    // A name that Google refuses: Android devices have that as their own result.
    let reserved = try notification(["apns_payload": ["alert": "hello"], "gcm_payload": ["from": "x"]])
    #expect(
      try reserved.pushes(to: devices, of: .chatServer(1), now: Date(), logger: log.logger).count == 2)
    let refusal = #expect(throws: APIError.self) {
      try reserved.pushes(to: [devices[1]], of: .chatServer(1), now: Date(), logger: log.logger)
    }
    #expect(refusal?.message == #"gcm_payload["from"] has a name that Google reserves"#)
  }
}
