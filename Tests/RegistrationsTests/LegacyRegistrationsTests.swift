import Foundation
import SQL
import Sealing
import TestStore
import TestSupport
import Testing

@testable import Registrations

@Suite("Legacy registrations")
struct LegacyRegistrationsTests {
  private func legacy(_ store: Store) -> RegistrationStore {
    RegistrationStore(
      database: store.database, storageKey: store.storageKey, now: { [clock = store.clock] in clock.now },
      handOver: { _, _, _ in })
  }

  @Test
  func `of one user and token are one, whoever registers it at once, under whichever name`() async throws {
    let store = try await Store()
    let legacy = legacy(store)
    let server = try await store.server().server.id
    let uuid = UUID()
    let names = try [(10, uuid), (10, nil), (nil, uuid)].map { try #require(LegacyUser(id: $0, uuid: $1)) }
    let both = names[0]
    try await withThrowingTaskGroup(of: Void.self) { group in
      for index in 0..<60 {
        group.addTask {
          let token = try PushToken(index.isMultiple(of: 2) ? "c0ffee" : "C0FFEE", kind: .apns)
          try await legacy.register(
            token, iosAppID: "app", for: names[index % 3], server: server, realm: nil)
        }
      }
      try await group.waitForAll()
    }
    #expect(try await legacy.reach(both, server: server, realm: nil).registrations.count == 1)
    #expect(try await store.rows("SELECT COUNT(*) FROM registrations WHERE wire = 2") == [[1]])
  }

  @Test
  func `are swept in stretches: where a device has moved on, in that realm and of that kind`() async throws {
    let store = try await Store()
    let legacy = legacy(store)
    let server = try await store.server().server
    let (realm, other) = (try await store.realm(of: server), try await store.realm(of: server))
    let user = try #require(LegacyUser(id: nil, uuid: UUID()))
    for number in 0..<20 {
      try await legacy.register(
        try PushToken("token-\(number)", kind: .fcm), iosAppID: nil, for: user, server: server.id,
        realm: number < 10 ? realm : number < 15 ? other : nil)
    }
    for number in 0..<20 where number.isMultiple(of: 2) {
      try await store.registrations.register(
        try PushToken("token-\(number)", kind: .fcm), iosAppID: nil, realm: realm.id, bouncerKey: "key")
    }
    var (last, removed, steps): (Int64?, Int, Int) = (0, 0, 0)
    while let row = last {
      let result = try await legacy.sweep(after: row, limit: 3)
      removed += result.removed
      last = result.last
      steps += 1
    }
    #expect(removed == 5)
    #expect(steps == 11)
    #expect(try await store.rows("SELECT COUNT(*) FROM registrations WHERE wire = 2") == [[15]])
    #expect(
      try await store.rows("SELECT COUNT(*) FROM registrations WHERE wire = 2 AND realm_id = \(realm.id)")
        == [[5]])
  }

  @Test
  func `that a provider has declared dead go with the older ones of that token and app, and stay if renewed`()
    async throws
  {
    let store = try await Store()
    let legacy = legacy(store)
    let token = try PushToken("c0ffee", kind: .apns)
    let servers = [
      try await store.server("a.example.org").server.id, try await store.server("b.example.org").server.id,
    ]
    let user = try #require(LegacyUser(id: 10, uuid: nil))
    for (server, app) in [(servers[0], "app"), (servers[1], "app")] {
      try await legacy.register(token, iosAppID: app, for: user, server: server, realm: nil)
      store.clock.advance(1)
    }
    let older = try #require(try await legacy.find(token, of: user, server: servers[0]))
    let newer = try #require(try await legacy.find(token, of: user, server: servers[1]))
    let failure = RegistrationStore.Failure(older.reference, reason: "Unregistered")
    #expect(try await store.registrations.end([failure]) == [older.reference])
    #expect(try await store.registrations.living([older.reference, newer.reference]) == [newer.reference.id])

    try await legacy.register(token, iosAppID: "app", for: user, server: servers[1], realm: nil)
    let late = RegistrationStore.Failure(newer.reference, reason: "Unregistered")
    #expect(try await store.registrations.end([late]).isEmpty)
    try await store.registrations.note([late])
    #expect(try await store.rows("SELECT failure FROM registrations WHERE wire = 2") == [[.null]])
    let renewed = try #require(try await legacy.find(token, of: user, server: servers[1]))
    try await store.registrations.note([.init(renewed.reference, reason: "BadDeviceToken")])
    #expect(
      try await store.rows("SELECT failure FROM registrations WHERE wire = 2") == [[.text("BadDeviceToken")]])
  }

  @Test
  func `that a provider has declared dead go wherever they were registered before it was asked`() async throws
  {
    let store = try await Store()
    let legacy = legacy(store)
    let user = try #require(LegacyUser(id: 10, uuid: nil))
    let token = try PushToken("fcm:token", kind: .fcm)
    var found: [RegistrationReference] = []
    var asked = Date.distantPast
    for (index, name) in ["a", "b", "c"].enumerated() {
      let server = try await store.server("\(name).example.org").server.id
      if index == 2 { asked = store.clock.now }
      try await legacy.register(token, iosAppID: nil, for: user, server: server, realm: nil)
      store.clock.advance(1)
      found.append(try #require(try await legacy.find(token, of: user, server: server)).reference)
    }
    // The third registered when the notification for the first was on its way.
    let failure = RegistrationStore.Failure(found[0], reason: "UNREGISTERED", holdsBefore: asked)
    #expect(try await store.registrations.end([failure]) == [found[0]])
    #expect(try await store.registrations.living(found) == [found[2].id])
  }
  @Test(arguments: [RegistrationStore.reaching, RegistrationStore.doubles])
  func `are found without reading all of a server or of a realm`(_ sql: String) async throws {
    let store = try await Store()
    guard store.database.engine == .sqlite else { return }
    let arguments = (1...4).prefix { sql.contains("$\($0)") }.map { Value.integer(Int64($0)) }
    let explain = Statement("EXPLAIN QUERY PLAN " + sql, arguments: arguments)
    let steps = try await store.database.query(explain).map { try $0.text(3) }.joined(separator: "\n")
    #expect(steps.contains("registrations_by_token"), "\(steps)")
    for slow in ["registrations_by_server", "registrations_by_realm", "SCAN"] {
      #expect(!steps.contains(slow), "\(steps)")
    }
  }
}
