import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Providers
import Registrations
import Sealing
import TestService
import TestSupport
import Testing

@testable import Operator
@testable import Server
@testable import ZulipServer

/// Phones without Google's services at the built-in chat-server side, which registers them with its own bouncer.
@Suite struct WebPushTests {
  private func test(_ body: @escaping @Sendable (Chat, SimulatedProviders) async throws -> Void) async throws
  {
    let simulator = try await SimulatedProviders.start(.init())
    try await withTemporaryFolder { folder in
      try simulator.writeKeys(to: folder)
      let settings = [
        "server.bouncer": "local", "webpush.allow_private_hosts": "127.0.0.1", "delivery.deadline": "10s",
        "providers.ca_file": folder.appending(path: "ca.pem").path,
      ]
      try await Chat.test(settings) { chat in try await body(chat, simulator) }
    }
    await simulator.stop()
  }

  private func subscribe(_ phone: WebPushPhone, _ chat: Chat, _ simulator: SimulatedProviders) throws -> (
    id: String, token: String
  ) {
    let key = try #require(chat.test.service.providers.vapidPublicKey)
    let id = try #require(simulator.subscribe(vapid: key))
    return (id, phone.token(at: "\(simulator.webPushEndpoint)/push/\(id)"))
  }

  /// What a phone sends to its chat server to be registered.
  private func form(_ device: String, _ token: String, key: PushKey, _ chat: Chat) throws -> [(
    String, String
  )] {
    let files = BouncerKeyFiles(directory: chat.test.configuration.keys.directory)
    let pair = try #require(try files.list().first { $0.state == .active }).pair
    let registration: JSON = [
      "token": .string(token), "token_kind": "fcm",
      "timestamp": .integer(Int64(chat.clock.now.timeIntervalSince1970)),
    ]
    let sealed = try #require(SealedBox.seal(registration.bytes, to: pair.publicKey))
    return [
      ("device_id", device), ("push_key", key.base64), ("push_key_id", "10"), ("token_kind", "fcm"),
      ("token_id", TokenID(token: token).base64), ("bouncer_public_key", pair.publicKeyBase64),
      ("encrypted_push_registration", Base64.encode(sealed)),
    ]
  }

  @Test func `A registration passes through sealed, and its phone opens both layers`() async throws {
    try await test { chat, simulator in
      let client = try await chat.user()
      let device = try await client.addDevice()
      let (phone, key) = (WebPushPhone(), PushKey.generate())
      let (id, token) = try subscribe(phone, chat, simulator)
      let answer = try await client.call(
        .post, "mobile_push/register", form(device, token, key: key, chat))
      #expect(answer.status == 200)
      try await client.waitUntil(device, "active") { $0.tokenID == TokenID(token: token) }
      let sent = try await client.call(.post, "mobile_push/e2ee/test_notification")
      #expect(sent.status == 200, "\(sent.json.text)")
      let arrived = try await simulator.waitForDeliveries(count: 1)
      #expect(arrived.map(\.token) == [id])
      let body = try JSON.parse(phone.open(Array(try #require(arrived.first).payload)))
      #expect(body["push_key_id"] == 10)
      let sealed = try #require(Base64.decodeStrictly(body["encrypted_data"]?.string ?? ""))
      let plaintext = try #require(key.open(sealed))
      #expect(try JSON.parse(plaintext)["type"] == "test")

      // The endpoint dies, and the device waits for a new token.
      simulator.unsubscribe(id)
      #expect(try await client.call(.post, "mobile_push/e2ee/test_notification").status == 400)
      try await client.waitUntil(device, "without a token") { $0.tokenID == nil }
    }
  }

  @Test func `A subscription that the bouncer refuses is an error that the phone sees`() async throws {
    try await test { chat, _ in
      let client = try await chat.user()
      let phone = WebPushPhone()
      for token in [phone.token(at: "https://10.0.0.1/x"), "webpush:x"] {
        let device = try await client.addDevice()
        let form = try form(device, token, key: .generate(), chat)
        #expect(try await client.call(.post, "mobile_push/register", form).status == 200)
        try await client.waitUntil(device, "refused") { $0.error == .badRequest }
      }
      #expect(try await chat.test.rows("SELECT 1 FROM registrations WHERE wire = 1").isEmpty)
    }
  }
}
