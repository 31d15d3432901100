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
import Testing

@testable import ZulipBouncer

@Suite("What phones get")
struct NotifyDeliveryTests {
  private func batch(_ items: [JSON], _ registrations: [Registration]) throws -> NotifyBatch {
    let body: JSON = ["realm_uuid": "x", "push_requests": .array(items)]
    let request = try NotifyRequest(Field(body, path: "request"))
    return NotifyBatch(
      request, registrations: registrations, of: .chatServer(1), logger: Logger(label: "test"))
  }

  private func registration(_ token: String, _ kind: PushToken.Kind, app: String? = nil) throws
    -> Registration
  {
    let token = try PushToken(token, kind: kind)
    return Registration(
      .init(.e2ee, id: 7, registeredAt: Date(timeIntervalSince1970: 5)), token: token, iosAppID: app)
  }

  @Test
  func `on iOS is the encrypted notification with what its server asked for`() throws {
    let item: JSON = [
      "token_id": "jS5/TZMf7/8=", "http_headers": ["apns_priority": 5, "apns_push_type": "background"],
      "payload": [
        "push_key_id": 4_294_967_295, "encrypted_data": "AA/+==", "aps": ["content-available": 1], "x": 1,
      ],
    ]
    let batch = try batch([item], [registration("C0FFEE", .apns, app: "example.app")])
    let delivery = try #require(batch.deliveries.first)
    #expect(
      delivery.registration == .init(.e2ee, id: 7, registeredAt: Date(timeIntervalSince1970: 5)))
    guard case .apns(let notification) = delivery.push else { throw CocoaError(.featureUnsupported) }
    #expect(notification.token == "C0FFEE")
    #expect(notification.topic == "example.app")
    #expect(notification.pushType == .background)
    #expect(notification.priority == 5)
    #expect(notification.expiration == nil)
    #expect(notification.collapseID == nil)
    #expect(
      String(buffer: notification.payload)
        == #"{"push_key_id":4294967295,"encrypted_data":"AA/+==","aps":{"content-available":1}}"#)
  }

  @Test
  func `on iOS shows a line of its own where its server gave none`() throws {
    let item: JSON = [
      "token_id": "jS5/TZMf7/8=", "http_headers": ["apns_priority": 10, "apns_push_type": "alert"],
      "payload": ["push_key_id": 1, "encrypted_data": "AAAA"],
    ]
    let batch = try batch([item], [registration("C0FFEE", .apns, app: "example.app")])
    guard case .apns(let notification)? = batch.deliveries.first?.push else {
      throw CocoaError(.featureUnsupported)
    }
    #expect(
      String(buffer: notification.payload)
        == #"{"push_key_id":1,"encrypted_data":"AAAA","aps":{"mutable-content":1,"alert":{"title":"New notification"}}}"#
    )
  }

  @Test
  func `on iOS needs an app: a registration without one is neither sent to nor forgotten`() throws {
    let batch = try batch([E2EENotifyTests.apns("c0ffee")], [registration("c0ffee", .apns)])
    #expect(batch.deliveries.isEmpty)
    #expect(batch.receipt([]).gone == [])
  }

  @Test
  func `on Android is data, and the answer counts what was taken and names what is gone`() async throws {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let server = try await bouncer.server()
      let realm = try await bouncer.realm(of: server)
      for token in ["one", "two", "gone"] {
        let answer = try await bouncer.post(
          "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.fcm(token)), as: server)
        #expect(answer.isSuccess)
      }
      simulated.simulator.setToken("gone", TokenRule(status: 404))
      func notify() async throws -> Answer {
        try await bouncer.post(
          "push/e2ee/notify",
          json: E2EENotifyTests.body(realm, ["gone", "one", "unknown", "two"].map(E2EENotifyTests.fcm)),
          as: server)
      }
      let unknown = JSON.string(TokenID(token: "unknown").base64)
      let gone = JSON.string(TokenID(token: "gone").base64)
      let answer = try await notify()
      #expect(answer.json["apple_successfully_sent_count"] == 0)
      #expect(answer.json["android_successfully_sent_count"] == 2)
      #expect(answer.json["delete_token_ids"] == .array([unknown, gone]))
      let data: JSON = ["push_key_id": "20", "encrypted_data": "BBBB"]
      let sent = simulated.simulator.deliveries(includingRefused: true)
      #expect(Set(sent.map(\.token)) == ["one", "two", "gone"])
      for delivery in sent {
        let message = try JSON.parse(delivery.payload)["message"]
        #expect(message?["data"]?["push_key_id"] == data["push_key_id"])
        #expect(message?["data"]?["encrypted_data"] == data["encrypted_data"])
        #expect(message?["android"]?["priority"] == "high")
      }
      // It is kept as expired, and named as long as its server asks.
      let again = try await notify()
      #expect(again.json["delete_token_ids"] == .array([gone, unknown]))
      #expect(simulated.simulator.deliveries(includingRefused: true).count == 5)
      let dump = try await bouncer.dump()
      #expect(dump["registrations"]?.filter { $0.contains(.text("UNREGISTERED")) }.count == 1)
    }
  }

  @Test
  func
    `is nobody else's: of registrations whose tokens were exchanged in the database none is sent to or lost`()
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
                "UPDATE registrations SET token = $2, token_hash = $3 WHERE id = $1", row.values[0],
                other.values[1], other.values[2]))
          }
        }
      }
      func notify() async throws -> Answer {
        try await bouncer.post(
          "push/e2ee/notify",
          json: E2EENotifyTests.body(realm, ["one", "two", "three"].map(E2EENotifyTests.fcm)), as: server)
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
