import Foundation
import Providers
import Registrations
import SQL
import Sealing
import TestStore
import TestSupport
import Testing

@Suite("Lists of realms")
struct RealmSyncTests {
  @Test
  func `bring realms in, change them, lose them and find them again`() async throws {
    let store = try await Store()
    let server = try await store.server().server
    var realm = RealmDescription.sample()
    let second = RealmDescription.sample()
    try await store.take([realm, second], of: server)
    #expect(try await events(store).isEmpty)
    let known = try #require(try await store.realms.find(uuid: realm.uuid))
    #expect(try await store.realms.find(uuid: realm.uuid, server: server.id) == .owned(known))
    #expect(try await store.realms.find(uuid: realm.uuid, server: server.id + 1) == .anothersRealm)
    #expect(try await store.realms.find(uuid: UUID(), server: server.id) == .unknown)

    realm.host = "new.example.org"
    realm.name = #"A "new" name"#
    realm.orgType = 20
    realm.authenticationMethods = #"{"Email":false}"#
    realm.isDeactivated = true
    realm.isSystemBotRealm = true
    realm.dateCreated += 1000
    try await store.take([realm], of: server)
    #expect(
      try await events(store) == [
        [
          20001, .text(#"{"attr_name":"host","old_value":"chat.example.org","new_value":"new.example.org"}"#),
        ],
        [20001, .text(#"{"attr_name":"org_type","old_value":10,"new_value":20}"#)],
        [20001, .text(#"{"attr_name":"name","old_value":"Example","new_value":"A \"new\" name"}"#)],
        [
          20001,
          .text(
            #"{"attr_name":"authentication_methods","old_value":{"Email":true},"new_value":{"Email":false}}"#),
        ],
        [20001, .text(#"{"attr_name":"realm_deactivated","old_value":false,"new_value":true}"#)],
        [20001, .text(#"{"attr_name":"is_system_bot_realm","old_value":false,"new_value":true}"#)],
        [20003, .text("{}")],
      ])
    #expect(
      try await store.rows("SELECT is_locally_deleted, date_created FROM remote_realms ORDER BY id")
        == [[0, 1_600_000_000_000], [1, 1_600_000_000_000]])
    let settled = try await dump(store)
    try await store.take([realm], of: server)
    #expect(try await dump(store) == settled)

    try await store.take([realm, second], of: server)
    #expect(try await events(store).last == [20004, .text("{}")])
    #expect(try await store.rows("SELECT COUNT(*) FROM remote_realms WHERE is_locally_deleted = 1") == [[0]])
    // They are none of the server's own.
    #expect(try await store.rows("SELECT MAX(remote_id) FROM remote_realm_audit_log") == [[.null]])
  }

  @Test func `are told with their devices and last activity`() async throws {
    let store = try await Store()
    let (server, _) = try await store.server()
    let (other, _) = try await store.server("other.example.org")
    let (first, second) = (UUID(), UUID())
    try await store.take([.sample(uuid: first), .sample(uuid: second)], of: server)
    _ = try await store.realm(of: other)
    let realm = try #require(try await store.realms.find(uuid: first))
    let user = try #require(LegacyUser(id: 10, uuid: nil))
    let token = try PushToken("token", kind: .fcm)
    try await store.registrations.register(token, iosAppID: nil, realm: realm.id, bouncerKey: "key")
    store.clock.advance(60)
    for (text, home) in [("one", realm), ("two", realm), ("three", nil)] {
      try await store.registrations.register(
        try PushToken(text, kind: .fcm), iosAppID: nil, for: user, server: server.id, realm: home)
    }
    let summaries = try await store.realms.summaries(ofServer: server.id)
    #expect(Set(summaries.map(\.uuid).prefix(2)) == [first, second])
    let busy = try #require(summaries.first { $0.uuid == first })
    #expect(busy.host == "chat.example.org" && busy.name == "Example" && !busy.isDeactivated)
    #expect(busy.registrations == 1 && busy.legacyRegistrations == 2)
    #expect(busy.lastRegisteredAt == store.clock.now)
    let idle = try #require(summaries.first { $0.uuid == second })
    #expect(idle.registrations == 0 && idle.legacyRegistrations == 0 && idle.lastRegisteredAt == nil)
    let homeless = try #require(summaries.first { $0.uuid == nil })
    #expect(homeless.legacyRegistrations == 1 && homeless.registrations == 0 && summaries.count == 3)
  }

  private func events(_ store: Store) async throws -> [[Value]] {
    try await store.rows("SELECT event_type, extra_data FROM remote_realm_audit_log ORDER BY id")
  }

  private func dump(_ store: Store) async throws -> [[[Value]]] {
    var tables: [[[Value]]] = []
    for table in [
      "remote_servers", "remote_realms", "remote_realm_audit_log", "remote_realm_counts",
      "remote_installation_counts",
    ] {
      tables.append(try await store.rows("SELECT * FROM \(table)"))
    }
    return tables
  }
}
