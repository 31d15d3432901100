import Foundation
import Registrations
import SQL
import TestStore
import Testing

@Suite("Analytics")
struct AnalyticsTests {
  private func count(_ id: Int64, realm: Int64? = 2, property: String = "messages_read::hour")
    -> AnalyticsUpload.Count
  {
    .init(
      remoteID: id, realmID: realm, property: property, subgroup: nil,
      endTime: Date(timeIntervalSince1970: 1), value: 5)
  }

  private func event(_ id: Int64, type: Int64 = 101, extraData: String? = "{}") -> AnalyticsUpload.AuditEvent
  {
    .init(
      remoteID: id, realmID: 2, eventType: type, eventTime: Date(timeIntervalSince1970: 1),
      isBackfilled: false,
      extraData: extraData)
  }

  @Test("are kept, and told how far they have come")
  func store() async throws {
    let store = try await Store()
    let server = try await store.server().server
    var upload = AnalyticsUpload.realms(nil)
    upload.version = "12.0"
    upload.apiFeatureLevel = 468
    upload.realmCounts = [count(3), count(7), count(9, property: "invites_sent::day")]
    upload.installationCounts = [count(4, realm: nil)]
    upload.auditEvents = [event(11), event(12, extraData: #"{"a":1}"#)]
    try await store.analytics.store(upload, server: server.id)
    let status = try await store.analytics.status(server: server.id)
    #expect(status.lastRealmCountID == 7)
    #expect(status.lastInstallationCountID == 4)
    #expect(status.lastAuditEventID == 12)
    let kept = try #require(try await store.servers.find(uuid: server.uuid))
    #expect(kept.version == "12.0")
    #expect(kept.apiFeatureLevel == 468)
    #expect(kept.lastAuditLogUpdateAt == store.clock.now)
    // What is absent is forgotten.
    try await store.analytics.store(.realms(nil), server: server.id)
    #expect(try await store.servers.find(uuid: server.uuid)?.version == nil)
    let other = try await store.server("other.example.org").server
    #expect(try await store.analytics.status(server: other.id).lastRealmCountID == 0)
  }

  @Test("that are wrong somewhere leave no trace")
  func rollback() async throws {
    let store = try await Store()
    let server = try await store.server().server
    let other = try await store.server("other.example.org").server
    let theirs = RealmDescription.sample()
    try await store.analytics.store(.realms([theirs]), server: other.id)
    var good = AnalyticsUpload.realms([.sample()])
    good.version = "12.0"
    good.realmCounts = [count(5)]
    good.auditEvents = [event(5)]
    try await store.analytics.store(good, server: server.id)
    let before = try await dump(store)

    var base = AnalyticsUpload.realms([.sample()])
    base.version = "13.0"
    base.realmCounts = [count(6)]
    base.installationCounts = [count(1, realm: nil)]
    base.auditEvents = [event(6)]
    let wrong: [(Analytics.Refusal, (inout AnalyticsUpload) -> Void)] = [
      (.unknownProperty("x"), { $0.realmCounts.append(self.count(7, property: "x")) }),
      (
        .unknownProperty("mobile_pushes_received::day"),
        { $0.installationCounts = [self.count(7, realm: nil, property: "mobile_pushes_received::day")] }
      ),
      (.outOfOrder, { $0.realmCounts = [self.count(5)] }),
      (.outOfOrder, { $0.realmCounts = [self.count(7), self.count(7)] }),
      (.outOfOrder, { $0.installationCounts = [self.count(0, realm: nil)] }),
      (.outOfOrder, { $0.auditEvents = [self.event(4)] }),
      (.unknownEventType, { $0.auditEvents = [self.event(4, type: 999)] }),
      (.malformedAuditData, { $0.auditEvents?.append(self.event(7, extraData: nil)) }),
      (.duplicateRealm, { $0.realms?.append(theirs) }),
      (.duplicateRealm, { $0.realms = Array(repeating: .sample(), count: 2) }),
    ]
    for (refusal, spoil) in wrong {
      var upload = base
      spoil(&upload)
      await #expect(throws: refusal) { try await store.analytics.store(upload, server: server.id) }
      #expect(try await dump(store) == before, "\(refusal)")
    }
  }

  @Test("bring realms in, change them, lose them and find them again")
  func realms() async throws {
    let store = try await Store()
    let server = try await store.server().server
    var realm = RealmDescription.sample()
    let second = RealmDescription.sample()
    try await store.analytics.store(.realms([realm, second]), server: server.id)
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
    try await store.analytics.store(.realms([realm]), server: server.id)
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
    try await store.analytics.store(.realms([realm]), server: server.id)
    #expect(try await dump(store) == settled)

    try await store.analytics.store(.realms([realm, second]), server: server.id)
    #expect(try await events(store).last == [20004, .text("{}")])
    #expect(try await store.rows("SELECT COUNT(*) FROM remote_realms WHERE is_locally_deleted = 1") == [[0]])
    #expect(try await store.analytics.status(server: server.id).lastAuditEventID == 0)
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
