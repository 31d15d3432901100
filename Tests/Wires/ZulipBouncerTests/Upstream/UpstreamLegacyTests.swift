import Foundation
import HTTP
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import Server
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("Old apps beside the store's")
struct UpstreamLegacyTests {
  private let user = OldUser(id: 10)

  /// A user's notification, as a server sends it that knows these tokens.
  private func notify(
    _ place: BeforeZulips, _ text: String, android: [String] = [], apple: [String] = [],
    as names: OldUser.Names = .both
  ) async throws -> Answer {
    let body = user.notification(text, realm: place.realm, named: names, android: android, apple: apple)
    let answer = try await place.bouncer.post("push/notify", json: body, as: place.server)
    try #require(answer.isSuccess, "\(answer.text)")
    return answer
  }

  private func register(_ token: String, _ kind: PushToken.Kind, _ place: BeforeZulips, app: String? = nil)
    async throws
  {
    var form = user.register(token, kind, realm: place.realm)
    if let app { form = form.map { $0.0 == "ios_app_id" ? ("ios_app_id", app) : $0 } }
    let answer = try await place.bouncer.post("push/register", form, as: place.server)
    try #require(answer.isSuccess, "\(answer.text)")
  }

  private func heard(_ place: BeforeZulips) -> [String: Int] { place.upstream.rings.mapValues(\.count) }
  private func arrived(_ place: BeforeZulips) -> [String: Int] { place.ours.arrived().mapValues(\.count) }

  @Test
  func `of Apple's go where their app is known, and each device rings once`() async throws {
    try await BeforeZulips.test { place in
      try await register("c0ffee", .apns, place)
      try await register("decade", .apns, place, app: Beside.storeApp)
      #expect(place.upstream.legacyTokens == ["decade"])
      for round in 1...2 {
        // The last is known to nobody; it is asked about there.
        let answer = try await notify(place, "hello", apple: ["c0ffee", "decade", "beef"])
        #expect(answer.json["total_apple_devices"] == 3)
        #expect(answer.json["deleted_devices"]?["apple_devices"] == ["beef"])
        #expect(arrived(place) == ["c0ffee": round])
        #expect(heard(place) == ["decade": round])
      }
      // It dies there: both are told, and ours is not asked again.
      place.upstream.end("decade")
      let last = try await notify(place, "gone", apple: ["c0ffee", "decade"])
      #expect(last.json["deleted_devices"]?["apple_devices"] == ["decade"], "\(last.text)")
      #expect(last.json["total_apple_devices"] == 2)
      #expect(try await place.bouncer.rows("SELECT COUNT(*) FROM registrations") == [[1]])
    }
  }

  @Test
  func `of Google's are handed over once, when Google calls their project another`() async throws {
    try await BeforeZulips.test { place in
      try await register("own", .fcm, place)
      try await register("stores", .fcm, place)
      #expect(place.upstream.legacyTokens.isEmpty)
      place.ours.simulator.setToken("stores", .init(status: 403, reason: "SENDER_ID_MISMATCH"))
      // A route that has proven nothing is not called failing for it.
      let other = OldUser(id: 11)
      place.ours.simulator.setToken("others", .init(status: 403, reason: "SENDER_ID_MISMATCH"))
      let form = other.register("others", .fcm, realm: place.realm)
      #expect(try await place.bouncer.post("push/register", form, as: place.server).isSuccess)
      let body = other.notification("hello", realm: place.realm, android: ["others"])
      #expect(try await place.bouncer.post("push/notify", json: body, as: place.server).isSuccess)
      #expect(place.bouncer.providers.routeSenders.allSatisfy { $0.doubt(of: .init(2)) == nil })
      for round in 1...3 {
        let answer = try await notify(place, "hello", android: ["own", "stores"])
        #expect(answer.json["total_android_devices"] == 2)
        #expect(answer.json["deleted_devices"]?["android_devices"] == [])
        #expect(arrived(place) == ["own": round])
        #expect(heard(place) == ["stores": round, "others": 1])
      }
      let asked = place.ours.simulator.deliveries(includingRefused: true).count { $0.token == "stores" }
      #expect(asked == 1)
      #expect(place.upstream.calls.count { $0 == "push/register" } == 2)
    }
  }

  @Test
  func `of Google's are handed over by an answer that comes later, too, and never end by it`() async throws {
    try await BeforeZulips.test(["delivery.deadline": "1s"]) { place in
      for token in ["own", "stores"] { try await register(token, .fcm, place) }
      place.ours.simulator.setToken("stores", .init(status: 503, reason: "UNAVAILABLE"))
      // The route is proven, so that its word would end a registration.
      _ = try await notify(place, "first", android: ["own", "stores"])
      #expect(arrived(place) == ["own": 1])
      #expect(try await place.bouncer.rows("SELECT COUNT(*) FROM outbox") == [[1]])
      place.ours.simulator.setToken("stores", .init(status: 403, reason: "SENDER_ID_MISMATCH"))
      try await eventually("Google has answered") {
        place.bouncer.clock.advance(60)
        return try await place.bouncer.rows("SELECT id FROM outbox").isEmpty
      }
      let marks = "SELECT elsewhere FROM registrations ORDER BY id"
      #expect(try await place.bouncer.rows(marks) == [[.null], [0]])
      let answer = try await notify(place, "second", android: ["own", "stores"])
      #expect(answer.json["deleted_devices"]?["android_devices"] == [])
      #expect(heard(place) == ["stores": 1])
      #expect(try await place.bouncer.rows(marks) == [[.null], [1]])
    }
  }

  @Test
  func `of encrypted apps stay ours, whatever Google calls them`() async throws {
    try await BeforeZulips.test { place in
      try await place.registerOwn(place.bouncer.fcm("own"))
      place.ours.simulator.setToken("own", .init(status: 403, reason: "SENDER_ID_MISMATCH"))
      #expect(try await place.notify([PushItem.fcm("own")]).isSuccess)
      #expect(
        try await place.bouncer.rows("SELECT id FROM registrations WHERE elsewhere IS NOT NULL").isEmpty)
    }
  }

  @Test
  func `of ours stay ours that were reached before, whatever a wrong key has Google say`() async throws {
    try await BeforeZulips.test { place in
      try await register("own", .fcm, place)
      _ = try await notify(place, "first", android: ["own"])
      try await eventually("it is remembered") {
        try await place.bouncer.rows("SELECT id FROM registrations WHERE delivered_at IS NOT NULL").count == 1
      }
      place.ours.simulator.setToken("own", .init(status: 403, reason: "SENDER_ID_MISMATCH"))
      _ = try await notify(place, "second", android: ["own"])
      #expect(!place.upstream.calls.contains("push/register"))
      #expect(
        try await place.bouncer.rows("SELECT id FROM registrations WHERE elsewhere IS NOT NULL").isEmpty)
    }
  }

  @Test
  func `of someone who has left are not registered again by what waited`() async throws {
    try await BeforeZulips.test(["delivery.deadline": "1s"]) { place in
      place.upstream.fault("push/register", 503, "{}")
      place.upstream.fault("push/notify", 503, "{}")
      for token in ["decade", "facade"] { try await register(token, .apns, place, app: Beside.storeApp) }
      _ = try await notify(place, "hello", apple: ["decade", "facade"])
      let gone = user.register("facade", .apns, realm: place.realm)
      #expect(try await place.bouncer.post("push/unregister", gone, as: place.server).isSuccess)
      place.upstream.fault("push/register", nil)
      place.upstream.fault("push/notify", nil)
      try await eventually("it is sent") {
        place.bouncer.clock.advance(60)
        return try await place.bouncer.rows("SELECT id FROM outbox").isEmpty
      }
      #expect(heard(place) == ["decade": 1])
      #expect(place.upstream.legacyTokens == ["decade"])
    }
  }

  @Test
  func `get through a bouncer that takes longer for each call than a sender waits`() async throws {
    try await BeforeZulips.test(["delivery.deadline": "500ms"]) { place in
      for token in ["decade", "facade"] {
        place.upstream.fault("push/register", 503, "{}")
        try await register(token, .apns, place, app: Beside.storeApp)
      }
      for endpoint in ["push/register", "push/notify"] {
        place.upstream.fault(endpoint) { [upstream = place.upstream] call in
          try await Task.sleep(for: .seconds(4))
          return upstream.truth(call)
        }
      }
      _ = try await notify(place, "hello", apple: ["decade", "facade"])
      await eventually("it rings") {
        place.bouncer.clock.advance(5)
        return heard(place) == ["decade": 1, "facade": 1]
      }
    }
  }

  @Test
  func `stay ours without an upstream link, whatever Google says`() async throws {
    try await BeforeZulips.test(isEnabled: false) { place in
      try await register("own", .fcm, place)
      try await register("stores", .fcm, place)
      try await register("decade", .apns, place, app: Beside.storeApp)
      place.ours.simulator.setToken("stores", .init(status: 403, reason: "SENDER_ID_MISMATCH"))
      _ = try await notify(place, "hello")
      #expect(place.upstream.calls.isEmpty)
      #expect(arrived(place) == ["own": 1])
    }
  }

  @Test
  func `of a user ring once each where one call is kept for later`() async throws {
    try await BeforeZulips.test(["delivery.deadline": "1s"]) { place in
      for token in ["decade", "facade"] { try await register(token, .apns, place, app: Beside.storeApp) }
      place.upstream.fault("push/notify", 502, "<html>")
      let answer = try await notify(place, "hello", apple: ["decade", "facade"])
      #expect(answer.json["total_apple_devices"] == 2)
      #expect(answer.json["deleted_devices"]?["apple_devices"] == [])
      #expect(try await place.bouncer.rows("SELECT COUNT(*) FROM outbox") == [[1]])
      place.upstream.fault("push/notify", nil)
      try await eventually("it is sent") {
        place.bouncer.clock.advance(60)
        return try await place.bouncer.rows("SELECT id FROM outbox").isEmpty
      }
      #expect(heard(place) == ["decade": 1, "facade": 1])
    }
  }

  @Test
  func `that it did not take when they registered are registered with their notification`() async throws {
    try await BeforeZulips.test(["delivery.deadline": "1s"]) { place in
      place.upstream.fault("push/register", 503, "{}")
      place.upstream.fault("push/notify", 503, "{}")
      try await register("decade", .apns, place, app: Beside.storeApp)
      _ = try await notify(place, "hello", apple: ["decade"])
      #expect(try await place.bouncer.rows("SELECT COUNT(*) FROM outbox") == [[1]])
      place.upstream.fault("push/register", nil)
      place.upstream.fault("push/notify", nil)
      await eventually("it rings") {
        place.bouncer.clock.advance(60)
        return heard(place) == ["decade": 1]
      }
      try await eventually("it is remembered") {
        try await place.bouncer.rows("SELECT elsewhere FROM registrations") == [[1]]
      }
    }
  }

  @Test
  func `that are no longer used are unregistered at both, however long one is away`() async throws {
    try await BeforeZulips.test { place in
      for token in ["decade", "facade", "c0ffee"] {
        try await register(token, .apns, place, app: token == "c0ffee" ? nil : Beside.storeApp)
      }
      place.upstream.fault("push/unregister", 503, "{}")
      var form = user.register("decade", .apns, realm: place.realm)
      let gone = try await place.bouncer.post("push/unregister", form, as: place.server)
      #expect(gone.isSuccess, "\(gone.text)")
      #expect(try await place.bouncer.rows("SELECT COUNT(*) FROM registrations") == [[2]])
      // What the other one does not have is not asked for for ever.
      let own = user.register("c0ffee", .apns, realm: place.realm)
      #expect(try await place.bouncer.post("push/unregister", own, as: place.server).isSuccess)
      try await register("c0ffee", .apns, place)
      // It signs in again before the other one has heard of anything.
      try await register("decade", .apns, place, app: Beside.storeApp)
      place.upstream.fault("push/unregister", nil)
      try await eventually("it is told") {
        place.bouncer.clock.advance(60)
        return try await place.bouncer.rows("SELECT id FROM upstream_unregistrations").isEmpty
      }
      _ = try await notify(place, "hello", apple: ["decade", "facade", "c0ffee"])
      #expect(heard(place) == ["decade": 1, "facade": 1])
      form = form.filter { !["token", "token_kind"].contains($0.0) }
      #expect(try await place.bouncer.post("push/unregister/all", form, as: place.server).isSuccess)
      await eventually("all are gone") { place.upstream.legacyTokens.isEmpty }
      #expect(try await place.bouncer.rows("SELECT id FROM registrations").isEmpty)
    }
  }

  @Test(arguments: ["decade", "DECADE"])
  func `of a device that encrypts by now go from both`(_ spelled: String) async throws {
    try await BeforeZulips.test { place in
      try await register("decade", .apns, place, app: Beside.storeApp)
      #expect(try await place.registerStore(spelled).isSuccess)
      let answer = try await notify(place, "hello", apple: ["decade"])
      #expect(answer.json["total_apple_devices"] == 0)
      #expect(answer.json["deleted_devices"]?["apple_devices"] == ["decade"])
      #expect(heard(place) == [:])
      await eventually("it is unregistered there") { place.upstream.legacyTokens.isEmpty }
      #expect(try await place.notify([PushItem.apns(spelled)]).isSuccess)
      #expect(heard(place) == [TokenID(token: spelled).base64: 1])
    }
  }

  @Test
  func `that the other one knows from before ring, with nothing done on any phone`() async throws {
    try await BeforeZulips.test { place in
      place.upstream.know(encrypted: [], legacy: [("decade", 1), ("stores", 2)], of: user)
      for round in 1...2 {
        let answer = try await notify(
          place, "hello", android: ["stores", "nobodys"], apple: ["decade", "facade", "DECADE"])
        #expect(answer.json["deleted_devices"]?["android_devices"] == ["nobodys"], "\(answer.text)")
        #expect(answer.json["deleted_devices"]?["apple_devices"] == ["DECADE", "facade"])
        #expect(heard(place) == ["decade": round, "stores": round])
      }
      #expect(arrived(place) == [:])
      let test: JSON = [
        "token": "unseen", "token_kind": 2, "user_id": 10, "user_uuid": .string(user.uuid),
        "base_payload": [:],
      ]
      place.upstream.know(encrypted: [], legacy: [("unseen", 2)], of: user)
      #expect(try await place.bouncer.post("push/test_notification", json: test, as: place.server).isSuccess)
      #expect(place.upstream.rings["unseen"] == ["test"])
    }
  }

  @Test
  func `that it does not know end nobody else's registrations of the same token`() async throws {
    try await BeforeZulips.test { place in
      let other = try await place.bouncer.server("other.example.org")
      let realm = try await place.bouncer.realm(of: other)
      let encrypted = try place.bouncer.registerForm(realm: realm, place.bouncer.fcm("victims"))
      #expect(try await place.bouncer.post("push/e2ee/register", encrypted, as: other).isSuccess)
      let legacy = OldUser(id: 12).register("victims", .fcm, realm: realm)
      #expect(try await place.bouncer.post("push/register", legacy, as: other).isSuccess)
      let rows = "SELECT id, ended_at FROM registrations ORDER BY id"
      let before = try await place.bouncer.rows(rows)
      #expect(before.count == 2)
      let answer = try await notify(place, "hello", android: ["victims"])
      #expect(answer.json["deleted_devices"]?["android_devices"] == ["victims"], "\(answer.text)")
      #expect(place.upstream.calls.contains("push/notify"))
      #expect(try await place.bouncer.rows(rows) == before)
    }
  }

  @Test
  func `are tested where they are`() async throws {
    try await BeforeZulips.test { place in
      try await register("decade", .apns, place, app: Beside.storeApp)
      try await register("stores", .fcm, place)
      place.ours.simulator.setToken("stores", .init(status: 403, reason: "SENDER_ID_MISMATCH"))
      for (token, kind) in [("decade", 1), ("stores", 2)] {
        let body: JSON = [
          "token": .string(token), "token_kind": .integer(Int64(kind)), "user_id": 10,
          "user_uuid": .string(user.uuid), "base_payload": ["realm_name": "Example"],
        ]
        let answer = try await place.bouncer.post("push/test_notification", json: body, as: place.server)
        #expect(answer.isSuccess, "\(answer.text)")
      }
      #expect(place.upstream.rings == ["decade": ["test"], "stores": ["test"]])
    }
  }

  @Test
  func `that no credential serves are not tested with success`() async throws {
    try await Simulated.test { ours in
      let server = try await ours.bouncer.server()
      let realm = try await ours.bouncer.realm(of: server)
      let form = user.register("decade", .apns, realm: realm).map {
        $0.0 == "ios_app_id" ? ($0.0, Beside.storeApp) : $0
      }
      #expect(try await ours.bouncer.post("push/register", form, as: server).isSuccess)
      let body: JSON = [
        "token": "decade", "token_kind": 1, "user_id": 10, "user_uuid": .string(user.uuid),
        "base_payload": [:],
      ]
      let answer = try await ours.bouncer.post("push/test_notification", json: body, as: server)
      #expect((answer.status, answer.code) == (400, "BAD_REQUEST"))
      #expect(answer.message?.hasPrefix("No credential") == true, "\(answer.text)")
      // Nor are those of new apps. A message to them is no error.
      guard case .object(var phone) = ours.bouncer.apns("beef") else { return }
      phone["ios_app_id"] = .string(Beside.storeApp)
      let new = try ours.bouncer.registerForm(realm: realm, .object(phone))
      #expect(try await ours.bouncer.post("push/e2ee/register", new, as: server).isSuccess)
      for (bytes, isTest) in [(110, true), (300, false)] {
        guard case .object(var item) = PushItem.apns("beef") else { return }
        let sealed = Base64.encode([UInt8](repeating: 7, count: 40 + bytes))
        item["payload"] = ["push_key_id": 10, "encrypted_data": .string(sealed)]
        let answer = try await ours.bouncer.post(
          "push/e2ee/notify", json: PushItem.body(realm, [.object(item)]), as: server)
        #expect(answer.isSuccess == !isTest, "\(answer.text)")
        if isTest { #expect(answer.message?.hasPrefix("No credential") == true, "\(answer.text)") }
      }
    }
  }

  @Test
  func `of ten thousand users move in without a storm, each with its next notification`() async throws {
    try await BeforeZulips.test(isEnabled: false) { place in
      let uuid = try #require(UUID(uuidString: place.realm))
      let realm = try #require(try await place.bouncer.parts.realms.find(uuid: uuid))
      let server = realm.serverID
      let users = (0..<10_000).map { LegacyUser(id: Int64($0 + 1), uuid: UUID()) }
      try await withThrowingDiscardingTaskGroup { group in
        for (index, user) in users.enumerated() {
          group.addTask {
            let token = try PushToken("dec0de" + String(format: "%06x", index), kind: .apns)
            try await place.bouncer.registrations.register(
              token, iosAppID: Beside.storeApp, for: user, server: server, realm: realm)
          }
        }
      }
      try await place.bouncer.enableUpstream()
      #expect(place.upstream.calls.isEmpty)
      for user in users.prefix(50) {
        let body: JSON = [
          "user_id": .optional(user.id), "user_uuid": .optional(user.uuid?.canonical),
          "realm_uuid": .string(place.realm), "apns_payload": ["alert": "hello"], "gcm_payload": [:],
        ]
        for _ in 1...2 {
          #expect(try await place.bouncer.post("push/notify", json: body, as: place.server).isSuccess)
        }
      }
      #expect(place.upstream.rings.count == 50)
      #expect(place.upstream.rings.values.allSatisfy { $0.count == 2 })
      #expect(place.upstream.calls.count { $0 == "push/register" } == 50)
      #expect(place.upstream.calls.count { $0 == "push/notify" } == 100)
    }
  }
}
