import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Providers
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("What phones without Google get")
struct WebPushDeliveryTests {
  /// The decrypted bodies that a subscription received, each with its urgency.
  private func read(_ id: String, _ phone: WebPushPhone, _ world: Simulated) throws -> [(JSON, String?)] {
    try world.simulator.deliveries().filter { $0.provider == .webPush && $0.token == id }.map {
      (try JSON.parse(phone.open(Array($0.payload))), $0.header("urgency"))
    }
  }

  private func register(_ token: String, _ realm: String, _ server: Credentials, _ bouncer: Bouncer)
    async throws
  {
    let form = try bouncer.registerForm(realm: realm, bouncer.fcm(token))
    let answer = try await bouncer.post("push/e2ee/register", form, as: server)
    #expect(answer.isSuccess, "\(answer.text)")
  }

  @Test
  func `is in clear for old apps, as Google would hand it over, until the subscription ends`() async throws {
    try await Simulated.test { world in
      let bouncer = world.bouncer
      let server = try await bouncer.server()
      let phone = WebPushPhone()
      let (id, token) = try world.subscribe(phone)
      let user = OldUser(id: 10)
      for token in [token, "android"] {
        #expect(try await bouncer.post("push/register", user.register(token, .fcm), as: server).isSuccess)
      }
      var body = user.notification("hello", android: [token, "android"])
      let answer = try await bouncer.post("push/notify", json: body, as: server)
      #expect(answer.json["total_android_devices"] == 2, "\(answer.text)")
      #expect(answer.json["deleted_devices"]?["android_devices"] == [])
      let read = try read(id, phone, world)
      #expect(read.map(\.0.text) == [#"{"content":"hello","event":"message"}"#])
      #expect(read.map(\.1) == ["high"])
      #expect(world.arrived()["android"]?.count == 1)
      // A test goes the same way.
      let test: JSON = [
        "token": .string(token), "token_kind": 2, "user_id": 10, "user_uuid": .string(user.uuid),
        "base_payload": ["realm_url": "https://chat.example.org", "realm_name": "Example", "user_id": 10],
      ]
      #expect(try await bouncer.post("push/test_notification", json: test, as: server).isSuccess)
      #expect(try self.read(id, phone, world).last?.0["event"] == "test")
      #expect(try self.read(id, phone, world).last?.0["user_id"] == "10")

      world.simulator.unsubscribe(id)
      let last = try await bouncer.post("push/notify", json: body, as: server)
      #expect(last.json["deleted_devices"]?["android_devices"] == [.string(token)], "\(last.text)")
      body = user.notification("more", android: ["android"])
      let rest = try await bouncer.post("push/notify", json: body, as: server)
      #expect(rest.json["total_android_devices"] == 1)
    }
  }

  @Test
  func `comes once to a phone that is registered in both ways`() async throws {
    try await Simulated.test { world in
      let bouncer = world.bouncer
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      let phone = WebPushPhone()
      let (id, token) = try world.subscribe(phone)
      let user = OldUser(id: 10)
      let old = user.register(token, .fcm, realm: realm)
      #expect(try await bouncer.post("push/register", old, as: server).isSuccess)
      try await register(token, realm, server, bouncer)
      let legacy = try await bouncer.post(
        "push/notify", json: user.notification("x", realm: realm, android: [token]), as: server)
      #expect(legacy.json["total_android_devices"] == 0)
      #expect(legacy.json["deleted_devices"]?["android_devices"] == [.string(token)])
      let body = PushItem.body(realm, [PushItem.fcm(token)])
      _ = try await bouncer.post("push/e2ee/notify", json: body, as: server)
      #expect(try read(id, phone, world).map(\.0.text) == [#"{"push_key_id":20,"encrypted_data":"BBBB"}"#])
    }
  }
}
