import Foundation
import HTTP
import ProviderSimulator
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("A server with an upstream link")
struct UpstreamTests {
  @Test
  func `has both apps of a user notified once each`() async throws {
    try await Beside.test { beside in
      #expect(try await beside.registerOwn(beside.bouncer.apns("c0ffee")).isSuccess)
      let (store, android) = ("decade", "store-android")
      #expect(try await beside.registerStore(beside.bouncer.apns(store)).isSuccess)
      #expect(try await beside.registerStore(beside.bouncer.fcm(android)).isSuccess)
      let answer = try await beside.notify([
        PushItem.apns("c0ffee"), PushItem.apns(store), PushItem.fcm(android), PushItem.apns("beef"),
      ])
      #expect(answer.json["apple_successfully_sent_count"] == 2, "\(answer.text)")
      #expect(answer.json["android_successfully_sent_count"] == 1)
      #expect(answer.json["delete_token_ids"] == [.string(TokenID(token: "beef").base64)])
      #expect(beside.ours.arrived().mapValues(\.count) == ["c0ffee": 1])
      #expect(beside.theirs.arrived().mapValues(\.count) == [store: 1, android: 1])
      #expect(beside.theirs.arrived()[store]?[0]["encrypted_data"] == "AAAA")
      // Nothing but its id is known of what upstream has.
      let rows = try await beside.bouncer.rows(
        "SELECT kind, token, token_hash, target FROM registrations WHERE elsewhere = 1")
      #expect(rows == [[4, .null, 0, .null], [4, .null, 0, .null]])
    }
  }

  @Test
  func `makes no rows by naming devices that nobody knows, once it is over its pace`() async throws {
    try await Beside.test(["bouncer.notifications_per_server": "4/60s"]) { beside in
      #expect(try await beside.registerOwn(beside.bouncer.apns("c0ffee")).isSuccess)
      func rows() async throws -> [[Value]] {
        try await beside.bouncer.rows("SELECT COUNT(*) FROM registrations WHERE elsewhere IS NOT NULL")
      }
      #expect(try await beside.notify((0..<10).map { PushItem.fcm("first\($0)") }).status == 200)
      let before = try await rows()
      let answer = try await beside.notify((0..<10).map { PushItem.fcm("second\($0)") })
      #expect(answer.status == 503, "\(answer.text)")
      #expect(try await rows() == before)
      // The same of old apps.
      let user = OldUser(id: 10)
      let old = try await beside.bouncer.post(
        "push/notify", json: user.notification("x", android: (0..<10).map { "old\($0)" }), as: beside.server)
      #expect(old.status == 503, "\(old.text)")
      #expect(try await rows() == before)
      // What is known waits for its turn.
      #expect(try await beside.notify([PushItem.apns("c0ffee")]).status == 200)
    }
  }

  @Test
  func `has phones notified that the upstream bouncer knows from before`() async throws {
    try await BeforeZulips.test { place in
      let many = (0..<30).map { "phone\($0)" }
      place.upstream.know(encrypted: many, of: OldUser(id: 1))
      try await place.registerOwn(place.bouncer.apns("c0ffee"))
      for round in 1...2 {
        let answer = try await place.notify(
          [PushItem.apns("c0ffee"), PushItem.fcm("nobodys")] + many.map(PushItem.fcm))
        #expect(answer.json["android_successfully_sent_count"] == 30, "\(answer.text)")
        #expect(answer.json["apple_successfully_sent_count"] == 1)
        #expect(answer.json["delete_token_ids"] == [.string(TokenID(token: "nobodys").base64)])
        #expect(many.allSatisfy { place.heard($0) == round })
      }
      // Nothing is kept of what nobody knows.
      #expect(
        try await place.bouncer.rows(
          "SELECT elsewhere, COUNT(*) FROM registrations GROUP BY elsewhere ORDER BY COALESCE(elsewhere, -1)")
          == [[.null, 1], [1, 30]])
      // What has ended here is not asked about.
      place.upstream.end(TokenID(token: "phone0").base64)
      for _ in 1...2 {
        let answer = try await place.notify([PushItem.fcm("phone0")])
        #expect(answer.json["delete_token_ids"] == [.string(TokenID(token: "phone0").base64)])
      }
      #expect(place.upstream.calls.count { $0 == "push/e2ee/notify" } == 3)
    }
  }

  @Test
  func `without one refuses what is sealed to another key`() async throws {
    try await Beside.test(isEnabled: false) { beside in
      let answer = try await beside.registerStore(beside.bouncer.apns("abcd"))
      #expect(answer.code == "INVALID_BOUNCER_PUBLIC_KEY")
      #expect(try await beside.bouncer.rows("SELECT id FROM registrations").isEmpty)
    }
  }

  @Test
  func `is told what the upstream bouncer answers`() async throws {
    try await Beside.test { beside in
      var form = try beside.storeForm(beside.bouncer.apns("abcd"))
      form[3].1 = BouncerKeyPair().publicKeyBase64
      let unknown = try await beside.bouncer.post("push/e2ee/register", form, as: beside.server)
      #expect((unknown.status, unknown.code) == (400, "INVALID_BOUNCER_PUBLIC_KEY"))
      var old = beside.bouncer.fcm("late")
      if case .object(var object) = old {
        object["timestamp"] = .integer(Int64(Date().timeIntervalSince1970) - 90_000)
        old = .object(object)
      }
      let late = try await beside.registerStore(old)
      #expect(late.status == 400 && late.code == "REQUEST_EXPIRED")
      #expect(try await beside.bouncer.rows("SELECT id FROM registrations").isEmpty)
    }
  }

  @Test
  func `is told no code that is none, and a message as far as it may go`() async throws {
    try await BeforeZulips.test { place in
      let (code, message) = (String(repeating: "C", count: 70), String(repeating: "m", count: 600))
      place.upstream.fault(
        "push/e2ee/register", 400, #"{"result":"error","msg":"\#(message)","code":"\#(code)"}"#)
      let answer = try await place.registerStore("store")
      #expect((answer.status, answer.code) == (400, "BAD_REQUEST"))
      #expect(answer.message == String(message.prefix(ForeignText.maximumLength)))
    }
  }

  @Test
  func `has nothing passed on that is sealed to a key that was ours once`() async throws {
    try await BeforeZulips.test { place in
      let node = BouncerKeys(database: place.bouncer.database, now: { place.bouncer.clock.now })
      try await node.announce([BeforeZulips.storeKey])
      #expect(try await place.registerStore("store").status == 429)
      place.bouncer.clock.advance(300)
      #expect(try await place.registerStore("store").code == "INVALID_BOUNCER_PUBLIC_KEY")
      #expect(!place.upstream.calls.contains("push/e2ee/register"))
    }
  }
}
