import Basics
import Crypto
import Delivery
import Foundation
import HTTPClient
import Operator
import Providers
import Registrations
import SQL
import Sealing
import TestDatabase
import TestSupport
import Testing

/// Tests the diagnosis of a user's devices that get no notifications.
@Suite struct DeviceSearchTests {
  private static let realm = UUID(uuidString: "8F1B3A52-6D0C-4F3E-9B1A-2C7D5E9F0A11")!  // a valid UUID
  private static let apnsText = String(repeating: "ab12", count: 16)

  /// A chat server with a realm, an encrypted device and one of an old app, of users 7 and a UUID.
  private struct World {
    let test: TestDatabase
    let key = StorageKey(bytes: [UInt8](repeating: 7, count: 32))
    let clock = TestClock()
    let server: RemoteServer
    let user = UUID()
    let apns: PushToken
    let old: PushToken

    var database: any Database { test.database }
    var search: DeviceSearch { DeviceSearch(database: database, storageKey: key) }

    init() async throws {
      test = try await TestDatabase()
      apns = try PushToken(DeviceSearchTests.apnsText, kind: .apns)
      old = try PushToken("an-old-app:token", kind: .fcm)
      let (clock, key, database) = (clock, key, test.database)
      let now: @Sendable () -> Date = { clock.now }
      (server, _) = try await RemoteServers(database: database, storageKey: key, now: now).add(
        hostname: try Hostname("chat.example.org"), contactEmail: "a@example.org")
      let realm = RealmDescription(
        realmID: 2, uuid: DeviceSearchTests.realm, ownerSecret: "zuliprealm_secret",
        host: "realm.example.org",
        name: "Example", orgType: 10, dateCreated: Date(timeIntervalSince1970: 1_600_000_000),
        isDeactivated: false,
        isSystemBotRealm: false, authenticationMethods: "{}")
      let (sync, id) = (RealmSync(storageKey: key, now: now), server.id)
      _ = try await database.write { try sync.apply([realm], server: id, on: $0) }
      let found = try #require(try await RemoteRealms(database: database).find(uuid: DeviceSearchTests.realm))
      try await RegistrationStore(database: database, storageKey: key, now: now).register(
        apns, iosAppID: "org.example.chat", realm: found.id, bouncerKey: "a-key")
      let legacy = RegistrationStore(database: database, storageKey: key, now: now)
      for user in [LegacyUser(id: 7, uuid: nil), LegacyUser(id: nil, uuid: user)] {
        try await legacy.register(
          old, iosAppID: nil, for: try #require(user), server: id, realm: found)
      }
    }

    func names(_ query: DeviceQuery) async throws -> [String] {
      try await search.find(query).devices.map(\.name)
    }

    func names(_ text: String) async throws -> [String] { try await names(try DeviceQuery(text)) }

    func run(_ sql: String, _ values: Value...) async throws {
      let statement = Statement(sql, arguments: values)
      _ = try await database.execute(statement)
    }
  }

  @Test func `A phone without Google is shown with its push service, and nothing else of its endpoint`()
    async throws
  {
    let world = try await World()
    let key = P256.KeyAgreement.PrivateKey().publicKey.x963Representation
    let subscription = try WebPushSubscription(
      endpoint: "https://ntfy.example.org:8443/upSecret?up=1",
      p256dh: key.base64EncodedString().replacing("+", with: "-").replacing("/", with: "_"),
      auth: String(repeating: "A", count: 22))
    let token = try PushToken(subscription.token, kind: .fcm)
    let now: @Sendable () -> Date = { [clock = world.clock] in clock.now }
    let realm = try #require(try await RemoteRealms(database: world.database).find(uuid: Self.realm))
    try await RegistrationStore(database: world.database, storageKey: world.key, now: now).register(
      token, iosAppID: nil, realm: realm.id, bouncerKey: "a-key")
    let legacy = RegistrationStore(database: world.database, storageKey: world.key, now: now)
    try await legacy.register(
      token, iosAppID: nil, for: try #require(LegacyUser(id: 9, uuid: nil)), server: world.server.id,
      realm: realm)

    let devices = try await world.search.find(.token(subscription.token)).devices
    #expect(devices.map(\.name) == ["e2ee:4", "legacy:5"])
    #expect(devices.allSatisfy { $0.provider == "webpush" && $0.target == "ntfy.example.org:8443" })
    #expect(!"\(devices)".contains("upSecret"))
    // Nobody types either of them.
    for secret in [subscription.token, "https://ntfy.example.org/upSecret"] {
      #expect(throws: DeviceQuery.Refusal.looksLikeToken) { try DeviceQuery(secret) }
    }
    #expect(try DeviceQuery("https://chat.example.org") == .name("https://chat.example.org"))
    let long = String(repeating: "x", count: 120)
    #expect(try DeviceQuery(long) == .name(long))
    #expect(throws: DeviceQuery.Refusal.looksLikeToken) { try DeviceQuery("fcm:" + long) }
  }

  @Test func `Each kind of registration has a name that people type`() {
    let names = ["e2ee", "legacy", "nextcloud", "nextcloud_webpush", "webpush_gateway"]
    for (name, kind) in zip(names, Int64(1)...) {
      #expect(DeviceQuery.row("\(name):7") == .registration(wire: kind, id: 7))
    }
    #expect(DeviceQuery.row("gateway:7") == nil)
  }

  @Test func `A device is found by everything that it is known by`() async throws {
    let world = try await World()
    let id = world.apns.id
    let hexadecimal = String(UInt64(bitPattern: id.storage), radix: 16)
    for text in ["e2ee:1", id.base64, String(repeating: "0", count: 16 - hexadecimal.count) + hexadecimal] {
      #expect(try await world.names(text) == ["e2ee:1"], "\(text)")
    }
    #expect(try await world.names(.fingerprint(UInt32(world.apns.fingerprint, radix: 16)!)) == ["e2ee:1"])
    #expect(try await world.names(.token(Self.apnsText.uppercased())) == ["e2ee:1"])
    #expect(try await world.names(.token(world.old.text)) == ["legacy:2", "legacy:3"])
    #expect(try await world.names("7") == ["legacy:2"])
    #expect(try await world.names("7 chat.example.org") == ["legacy:2"])
    #expect(try await world.names("7 other.example.org") == [])
    #expect(try await world.names(world.user.uuidString) == ["legacy:3"])
    #expect(try await world.names("\(world.user) CHAT.example.org") == ["legacy:3"])
    let all = ["e2ee:1", "legacy:2", "legacy:3"]
    for text in [
      "Chat.Example.org", "realm.example.org", Self.realm.uuidString, world.server.uuid.uuidString,
    ] {
      #expect(try await world.names(text) == all, "\(text)")
    }
    #expect(try await world.names(.server("chat.example.org", realm: "realm.example.org")) == all)
    #expect(try await world.names(.server("chat.example.org", realm: "none.example.org")) == [])
    let answer = try await world.search.find(try DeviceQuery("example"))
    #expect(answer.devices.isEmpty && answer.servers.map(\.hostname) == ["chat.example.org"])
    #expect(try await world.search.find(try DeviceQuery("%")).servers.isEmpty)
    let cut = try await world.search.find(.server("chat.example.org", realm: nil), limit: 1)
    #expect(cut.devices.count == 1 && cut.isCut)
  }

  @Test func `A device of Nextcloud is found by its identifier, its token and its row`() async throws {
    let world = try await World()
    let identifier = [UInt8](repeating: 200, count: 64)
    try await world.run(
      """
      INSERT INTO registrations (wire, token_hash, device_identifier, user_key, token, token_sha512, kind, app,
        registered_at, seen_at)
      VALUES (3, 0, $1, $2, $3, $4, 2, 'Talk', 0, 0)
      """, .bytes(identifier), .bytes([1]), .bytes([1]),
      .bytes(Array(SHA512.hash(data: Data("a token".utf8)))))
    let hexadecimal = identifier.map { String($0, radix: 16) }.joined()
    for text in [Base64.encode(identifier), hexadecimal, "nextcloud:4"] {
      #expect(try await world.names(text) == ["nextcloud:4"])
    }
    #expect(try await world.names(.token("a token")) == ["nextcloud:4"])
    let device = try #require(try await world.search.find(.identifier(identifier)).devices.first)
    #expect(device.app == "Talk" && device.provider == "fcm" && device.state == .unused)
  }

  @Test func `What is said of a device is what has happened to it, the last word last`() async throws {
    let world = try await World()
    func device() async throws -> FoundDevice {
      try #require(try await world.search.find(.registration(wire: 1, id: 1)).devices.first)
    }
    var found = try await device()
    #expect(found.state == .unused && found.app == "org.example.chat" && found.bouncerKey == "a-key")
    #expect(found.fingerprint == world.apns.fingerprint && found.server?.host == "chat.example.org")
    #expect(found.advice.contains("nothing has been sent"))
    try await world.run("UPDATE registrations SET delivered_at = 1000")
    #expect(try await device().state == .working)
    try await world.run("UPDATE registrations SET failure = 'BadDeviceToken', failed_at = 2000")
    found = try await device()
    #expect(found.state == .failing && found.advice.contains(Explanation.of("BadDeviceToken").advice))
    try await world.run("UPDATE registrations SET delivered_at = 3000")
    #expect(try await device().state == .working)
    try await world.run(
      "INSERT INTO outbox_routes (provider, credential, target) VALUES ('apns', 'main', 'org.example.chat')")
    try await world.run(
      """
      INSERT INTO outbox (route_id, registration_id, wire, registered_at, push, created_at, due_at, expires_at,
        attempts) VALUES (1, 1, 1, 0, $1, 4000, 0, 0, 1)
      """, .bytes([1]))
    found = try await device()
    #expect(
      found.state == .waiting && found.waiting == 1 && found.waitingSince == Date(timeIntervalSince1970: 4))
    try await world.run("UPDATE remote_servers SET deactivated_at = 1")
    found = try await device()
    #expect(found.state == .switchedOff && found.state.rawValue == "switched_off")
    try await world.run(
      "UPDATE registrations SET ended_at = 5000, failure = 'Unregistered', failed_at = 5000")
    found = try await device()
    #expect(found.state == .ended && found.advice.contains(Explanation.of("Unregistered").meaning))
  }

  @Test func `That nothing is registered says what it means`() async throws {
    let world = try await World()
    for (query, words) in [
      (DeviceQuery.token("none"), "public key"), (.user("99", server: nil), "zerver_device"),
      (.identifier([UInt8](repeating: 0, count: 64)), "notification:test-push"),
      (.server("none.example.org", realm: nil), "register_server"),
      (.name("none.example.org"), "no chat server"),
      (.registration(wire: 2, id: 99), "no such registration"),
    ] {
      let answer = try await world.search.find(query)
      #expect(answer.devices.isEmpty && answer.advice?.contains(words) == true, "\(query)")
    }
  }

  @Test func `What looks like a token is not taken for a name`() {
    for text in [Self.apnsText, "fcm:" + String(repeating: "x", count: 140), "cR7dQw4w9WgXcQ-_AbCd09"] {
      #expect(throws: DeviceQuery.Refusal.looksLikeToken) { try DeviceQuery(text) }
    }
    #expect(throws: DeviceQuery.Refusal.notText) { try DeviceQuery("a\0b") }
    #expect(throws: DeviceQuery.Refusal.empty) { try DeviceQuery(" \n") }
    #expect(throws: DeviceQuery.Refusal.tooLong) { try DeviceQuery(String(repeating: "a.", count: 200)) }
  }
}
