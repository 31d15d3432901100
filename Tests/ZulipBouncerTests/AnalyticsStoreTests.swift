import Foundation
import Registrations
import SQL
import TestStore
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("Analytics")
struct AnalyticsStoreTests {
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

  private func analytics(_ store: Store) -> Analytics {
    Analytics(
      database: store.database, storageKey: store.storageKey, now: { [clock = store.clock] in clock.now })
  }

  private func upload(_ realms: [RealmDescription]? = nil) -> AnalyticsUpload {
    AnalyticsUpload(
      version: nil, mergeBase: nil, apiFeatureLevel: nil, realmCounts: [], installationCounts: [],
      auditEvents: nil, realms: realms)
  }

  @Test
  func `are kept, and told how far they have come`() async throws {
    let store = try await Store()
    let server = try await store.server().server
    let analytics = self.analytics(store)
    var upload = self.upload()
    upload.version = "12.0"
    upload.apiFeatureLevel = 468
    upload.realmCounts = [count(3), count(7), count(9, property: "invites_sent::day")]
    upload.installationCounts = [count(4, realm: nil)]
    upload.auditEvents = [event(11), event(12, extraData: #"{"a":1}"#)]
    try await analytics.store(upload, server: server.id)
    let status = try await analytics.status(server: server.id)
    #expect(status.lastRealmCountID == 7)
    #expect(status.lastInstallationCountID == 4)
    #expect(status.lastAuditEventID == 12)
    let kept = try #require(try await store.servers.find(uuid: server.uuid))
    #expect(kept.version == "12.0")
    #expect(kept.apiFeatureLevel == 468)
    #expect(kept.lastAuditLogUpdateAt == store.clock.now)
    // What is absent is forgotten.
    try await analytics.store(self.upload(), server: server.id)
    #expect(try await store.servers.find(uuid: server.uuid)?.version == nil)
    let other = try await store.server("other.example.org").server
    #expect(try await analytics.status(server: other.id).lastRealmCountID == 0)
  }

  @Test
  func `that are wrong somewhere leave no trace`() async throws {
    let store = try await Store()
    let server = try await store.server().server
    let analytics = self.analytics(store)
    let other = try await store.server("other.example.org").server
    let theirs = RealmDescription.sample()
    try await store.take([theirs], of: other)
    var good = self.upload([.sample()])
    good.version = "12.0"
    good.realmCounts = [count(5)]
    good.auditEvents = [event(5)]
    try await analytics.store(good, server: server.id)
    let before = try await dump(store)

    var base = self.upload([.sample()])
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
    ]
    for (refusal, spoil) in wrong {
      var upload = base
      spoil(&upload)
      await #expect(throws: refusal) { try await analytics.store(upload, server: server.id) }
      #expect(try await dump(store) == before, "\(refusal)")
    }
    for realms in [[.sample(), theirs], Array(repeating: .sample(), count: 2)] {
      base.realms = realms
      let upload = base
      await #expect(throws: RealmSync.DuplicateRealm.self) {
        try await analytics.store(upload, server: server.id)
      }
      #expect(try await dump(store) == before)
    }
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
