import Foundation
import Logging
import Platform
import Providers
import SQL
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Basics
@testable import HTTPClient
@testable import NextcloudProxy
@testable import NextcloudServer
@testable import Operator
@testable import Registrations

@Suite struct HousekeepingTests {
  /// A batch has two thousand rows.
  @Test func `An old app's registration goes wherever it is, if its device encrypts`() async throws {
    try await withKeyFolder { folder in
      let test = try await TestDatabase()
      defer { withExtendedLifetime(test) {} }
      let (configuration, _) = try Configuration.load(
        file: nil, environment: [:], overrides: [:], workingDirectory: folder.path)
      let key = StorageKey(bytes: [UInt8](repeating: 7, count: 32))
      let housekeeping = Housekeeping(
        configuration,
        registrations: RegistrationStore(database: test.database, storageKey: key, now: { Date() }),
        removals: [], logger: LogRecorder().logger)
      try await test.database.write { connection in
        _ = try connection.run(
          "INSERT INTO metadata (name, value) VALUES ('test', $1)", .bytes([1]))
        try connection.runScript(
          """
          INSERT INTO remote_servers (id, uuid, hostname, hostname_key, contact_email, key_hash, created_at, updated_at)
          SELECT 1, 'server', 'chat', 'chat', '', value, 0, 0 FROM metadata WHERE name = 'test';
          INSERT INTO remote_realms
            (id, server_id, uuid, owner_secret_hash, host, name, is_system_bot_realm, authentication_methods, org_type,
             is_deactivated, is_locally_deleted, date_created)
          SELECT 1, 1, 'realm', value, 'realm', 'Realm', 0, '{}', 0, 0, 0, 0 FROM metadata WHERE name = 'test';
          WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2500)
          INSERT INTO registrations (wire, server_id, realm_id, user_id, kind, token, token_hash, registered_at)
          SELECT 2, 1, 1, n, 2, value, n, 0 FROM numbers, metadata WHERE name = 'test';
          INSERT INTO registrations (wire, realm_id, token_id, kind, token, token_hash, registered_at)
          SELECT 1, 1, 1, 2, value, 2500, 1 FROM metadata WHERE name = 'test';
          """)
      }
      var round = Housekeeping.Round()
      try await housekeeping.work(&round)
      let rows = try await test.database.query(
        Statement("SELECT COUNT(*), MAX(user_id) FROM registrations WHERE wire = 2"))
      #expect(rows.map(\.values) == [[.integer(2499), .integer(2499)]])
      await test.database.close()
    }
  }

  @Test func `Registrations are counted and go when long expired`() async throws {
    try await withKeyFolder { folder in try await test(folder) }
  }

  private func test(_ folder: TestFolder) async throws {
    let clock = TestClock()
    let key = StorageKey(bytes: [UInt8](repeating: 7, count: 32))
    let testDatabase = try await TestDatabase()
    defer { withExtendedLifetime(testDatabase) {} }
    let database = testDatabase.database
    let servers = RemoteServers(database: database, storageKey: key, now: { clock.now })
    let (server, _) = try await servers.add(hostname: try Hostname("chat.example.org"), contactEmail: "")
    let uuid = UUID()
    let list = [
      RealmDescription(
        realmID: 2, uuid: uuid, ownerSecret: "secret", host: "chat.example.org", name: "Example", orgType: 10,
        dateCreated: clock.now, isDeactivated: false, isSystemBotRealm: false, authenticationMethods: "{}")
    ]
    let sync = RealmSync(storageKey: key, now: { clock.now })
    _ = try await database.write { try sync.apply(list, server: server.id, on: $0) }
    let realm = try #require(try await RemoteRealms(database: database).find(uuid: uuid))
    let registrations = RegistrationStore(
      database: database, storageKey: key, now: { clock.now }, isClockTrusted: { clock.isTrusted })
    let tokens = try ["dead", "alive"].map { try PushToken("\($0)-token", kind: .fcm) }
    for token in tokens {
      try await registrations.register(
        token, iosAppID: nil, realm: realm.id, bouncerKey: BouncerKeyPair().publicKeyBase64)
    }
    let dead = try #require(
      try await registrations.lookup(realm: realm.id, tokenIDs: [TokenID(token: "dead-token")]).found.values
        .first)
    #expect(
      try await registrations.end([.init(dead.reference, reason: "UNREGISTERED")]) == [dead.reference])

    let user = try #require(LegacyUser(id: 10, uuid: nil))
    for token in ["alive-token", "other-token"] {
      try await registrations.register(
        try PushToken(token, kind: .fcm), iosAppID: nil, for: user, server: server.id, realm: realm)
    }
    let old = Statement("SELECT id FROM registrations WHERE wire = 2")
    #expect(try await database.query(old).count == 2)

    let nextcloud = NextcloudDevices(database: database, storageKey: key, now: { clock.now })
    try await nextcloud.register(
      .init(
        identifier: [1], userKey: [1], token: "token", tokenHash: [1],
        destination: .init(kind: .fcm, app: "Talk", target: nil)))

    let registry = PrometheusRegistry()
    let (configuration, _) = try Configuration.load(
      file: nil, environment: [:],
      overrides: ["retention.expired_days": "30", "retention.notifications_days": "30"],
      workingDirectory: folder.path)
    let notifications = NextcloudNotifications(database: database, storageKey: key, now: { clock.now })
    let accounts = AccountStore(database: database, storageKey: key, now: { clock.now })
    let log = LogRecorder()
    let housekeeping = Housekeeping(
      configuration, registrations: registrations,
      removals: [
        .init {
          try await nextcloud.removeUnused(
            since: clock.now - configuration.nextcloudProxy.deviceRetention,
            neverUsedSince: clock.now - configuration.nextcloudProxy.deviceRetention, limit: $0)
        },
        .init {
          try await notifications.removeOld(
            before: clock.now - configuration.nextcloudServer.notificationRetention, limit: $0)
        },
      ],
      logger: log.logger, metrics: registry)
    let ended = #"push_bouncer_registrations{kind="e2ee",provider="fcm",state="ended"}"#
    let live = #"push_bouncer_registrations{kind="e2ee",provider="fcm",state="live"}"#

    let chat = try await accounts.put(
      realm: UUID(), name: "Chat", url: "https://chat.example.org", requiresE2EE: nil)
    let reader = try await accounts.add(.init(email: "a@example.org"), userID: 1, realm: chat.realm.uuid).user
      .id
    try await notifications.keep(
      .init(nid: 1, app: "files", subject: "Hello", type: "", id: ""), user: reader)

    clock.advance(29 * 86_400)
    var round = Housekeeping.Round()
    try await housekeeping.work(&round)
    // Its device has moved on.
    #expect(await registry.text().contains(#"{kind="legacy",provider="fcm",state="live"} 1"#))
    #expect(await registry.text().contains("\(ended) 1\n"))
    #expect(try await notifications.hasAny(user: reader))
    #expect(await registry.text().contains("\(live) 1\n"))

    // A clock that may be wrong removes nothing.
    clock.isTrusted = false
    clock.advance(1000 * 86_400)
    try await housekeeping.work(&round)
    #expect(await registry.text().contains("\(ended) 1\n"))
    #expect(try await notifications.hasAny(user: reader))
    #expect(try await nextcloud.lookup([[1]]).count == 1)
    clock.advance(-1000 * 86_400)
    clock.isTrusted = true

    clock.advance(2 * 86_400)
    try await housekeeping.work(&round)
    #expect(await registry.text().contains("\(ended) 0\n"))
    #expect(try await notifications.hasAny(user: reader) == false)
    #expect(await registry.text().contains("\(live) 1\n"))
    #expect(await registry.text().contains(#"{kind="e2ee",provider="apns",state="live"} 0"#))

    for (days, count) in [(368.0, 1), (2, 0)] {
      clock.advance(days * 86_400)
      try await housekeeping.work(&round)
      #expect(try await nextcloud.lookup([[1]]).count == count)
    }

    // What does not open is told once, however often somebody looks.
    _ = try await database.execute(
      Statement("UPDATE registrations SET token = $1", .bytes([UInt8](repeating: 1, count: 80))))
    for _ in 0..<3 {
      #expect(try await registrations.lookup(realm: realm.id, tokenIDs: tokens.map(\.id)).found.isEmpty)
      try await housekeeping.work(&round)
    }
    #expect(key.failures == ["registrations.token": 3])
    let told = log.texts.filter { $0.contains("do not open") }
    #expect(told.count == 1)
    #expect(told.first?.contains("registrations.token") == true)
    await database.close()
  }
}
