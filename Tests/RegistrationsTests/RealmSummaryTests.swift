import Foundation
import Registrations
import Sealing
import TestStore
import TestSupport
import Testing

@Suite struct RealmSummaryTests {
  @Test func `A server's realms are told with their devices and last activity`() async throws {
    let store = try await Store()
    let (server, _) = try await store.server()
    let (other, _) = try await store.server("other.example.org")
    let (first, second) = (UUID(), UUID())
    try await store.take([.sample(uuid: first), .sample(uuid: second)], of: server)
    _ = try await store.realm(of: other)
    let realm = try #require(try await store.realms.find(uuid: first))
    let legacy = RegistrationStore(
      database: store.database, storageKey: store.storageKey, now: { [clock = store.clock] in clock.now },
      handOver: { _, _, _ in })
    let user = try #require(LegacyUser(id: 10, uuid: nil))
    let token = try PushToken("token", kind: .fcm)
    try await store.registrations.register(token, iosAppID: nil, realm: realm.id, bouncerKey: "key")
    store.clock.advance(60)
    let later = store.clock.now
    for (text, home) in [("one", realm), ("two", realm), ("three", nil)] {
      try await legacy.register(
        try PushToken(text, kind: .fcm), iosAppID: nil, for: user, server: server.id, realm: home)
    }

    let summaries = try await store.realms.summaries(ofServer: server.id)
    #expect(summaries.map(\.uuid).prefix(2).contains(first))
    #expect(summaries.map(\.uuid).prefix(2).contains(second))
    #expect(summaries.count == 3 && summaries[2].uuid == nil)
    let busy = try #require(summaries.first { $0.uuid == first })
    #expect(busy.host == "chat.example.org" && busy.name == "Example" && !busy.isDeactivated)
    #expect(busy.registrations == 1 && busy.legacyRegistrations == 2)
    #expect(busy.lastRegisteredAt.map { abs($0.timeIntervalSince(later)) < 1 } == true)
    let idle = try #require(summaries.first { $0.uuid == second })
    #expect(idle.registrations == 0 && idle.legacyRegistrations == 0 && idle.lastRegisteredAt == nil)
    #expect(summaries[2].legacyRegistrations == 1 && summaries[2].registrations == 0)
  }
}
