import Foundation
import Registrations
import SQL
import Sealing
import TestStore
import TestSupport
import Testing

@Suite("E2EE registrations")
struct E2EERegistrationsTests {
  @Test
  func `are found by realm and token id, their token sealed at rest`() async throws {
    let store = try await Store()
    let realm = try await store.realm(of: store.server().server)
    let apns = try PushToken("C0FFEE", kind: .apns)
    let fcm = try PushToken("android-token", kind: .fcm)
    try await store.registrations.register(apns, iosAppID: "example.app", realm: realm.id, bouncerKey: "key")
    try await store.registrations.register(fcm, iosAppID: nil, realm: realm.id, bouncerKey: "key")
    let found = try await store.registrations.lookup(
      realm: realm.id, tokenIDs: [apns.id, fcm.id, TokenID(storage: 1), apns.id]
    ).found
    #expect(Set(found.map(\.token)) == [apns, fcm])
    #expect(found.first { $0.token == apns }?.iosAppID == "example.app")
    #expect(found.first { $0.token == fcm }?.iosAppID == nil)
    #expect(found.allSatisfy { $0.registeredAt == Date(timeIntervalSince1970: 1_790_000_000.123) })
    #expect(try await store.registrations.lookup(realm: realm.id + 1, tokenIDs: [apns.id]).found.isEmpty)
    #expect(try await store.registrations.lookup(realm: realm.id, tokenIDs: []).found.isEmpty)
    for row in try await store.rows("SELECT token FROM registrations WHERE wire = 1") {
      guard case .bytes(let sealed) = row[0] else { continue }
      #expect(!String(decoding: sealed, as: UTF8.self).contains("C0FFEE"))
      #expect(sealed.count <= 44 + 13)
    }
  }

  @Test
  func `of one token and realm are one, whoever registers it at once`() async throws {
    let store = try await Store()
    let realm = try await store.realm(of: store.server().server)
    let token = try PushToken("c0ffee", kind: .apns)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<50 {
        group.addTask {
          try await store.registrations.register(token, iosAppID: "app", realm: realm.id, bouncerKey: "key")
        }
      }
      try await group.waitForAll()
    }
    #expect(try await store.rows("SELECT COUNT(*) FROM registrations WHERE wire = 1") == [[1]])
    #expect(try await store.rows("SELECT COUNT(*) FROM bouncer_keys") == [[1]])
  }

  @Test
  func `live again when they are registered again, with everything fresh`() async throws {
    let store = try await Store()
    let realm = try await store.realm(of: store.server().server)
    let token = try PushToken("c0ffee", kind: .apns)
    try await store.registrations.register(token, iosAppID: "old.app", realm: realm.id, bouncerKey: "old")
    let first = try #require(
      try await store.registrations.lookup(realm: realm.id, tokenIDs: [token.id]).found.first)
    let failure = RegistrationStore.Failure(first.reference, reason: "Unregistered")
    #expect(try await store.registrations.end([failure]) == [first.reference])
    #expect(try await store.registrations.lookup(realm: realm.id, tokenIDs: [token.id]).found.isEmpty)
    #expect(
      try await store.rows("SELECT failure FROM registrations WHERE wire = 1") == [[.text("Unregistered")]])

    store.clock.advance(60)
    let asFCM = try PushToken("c0ffee", kind: .fcm)
    try await store.registrations.register(asFCM, iosAppID: nil, realm: realm.id, bouncerKey: "new")
    let second = try #require(
      try await store.registrations.lookup(realm: realm.id, tokenIDs: [token.id]).found.first)
    #expect(second.id == first.id)
    #expect(second.token == asFCM)
    #expect(second.iosAppID == nil)
    #expect(second.registeredAt == first.registeredAt + 60)
    #expect(
      try await store.rows(
        """
        SELECT e.ended_at, e.failure, e.failed_at, k.public_key
        FROM registrations e JOIN bouncer_keys k ON k.id = e.bouncer_key_id
        """) == [[.null, .null, .null, .text("new")]])
  }

  @Test
  func `that were registered again meanwhile do not die of an older answer`() async throws {
    let store = try await Store()
    let realm = try await store.realm(of: store.server().server)
    let token = try PushToken("c0ffee", kind: .apns)
    try await store.registrations.register(token, iosAppID: "app", realm: realm.id, bouncerKey: "key")
    let met = try #require(
      try await store.registrations.lookup(realm: realm.id, tokenIDs: [token.id]).found.first)
    store.clock.advance(0.001)
    try await store.registrations.register(token, iosAppID: "app", realm: realm.id, bouncerKey: "key")
    let failure = RegistrationStore.Failure(met.reference, reason: "Unregistered")
    #expect(try await store.registrations.end([failure]).isEmpty)
    try await store.registrations.note([failure])
    #expect(try await store.registrations.lookup(realm: realm.id, tokenIDs: [token.id]).found.count == 1)
    #expect(try await store.rows("SELECT failure FROM registrations WHERE wire = 1") == [[.null]])
  }

  @Test
  func `of the same device in another case have one hash and two ids`() async throws {
    let store = try await Store()
    let realm = try await store.realm(of: store.server().server)
    for text in ["c0ffee", "C0FFEE"] {
      try await store.registrations.register(
        try PushToken(text, kind: .apns), iosAppID: "app", realm: realm.id, bouncerKey: "key")
      try await store.registrations.register(
        try PushToken("fcm-" + text, kind: .fcm), iosAppID: nil, realm: realm.id, bouncerKey: "key")
    }
    #expect(
      try await store.rows(
        "SELECT kind, COUNT(*), COUNT(DISTINCT token_hash) FROM registrations WHERE wire = 1 GROUP BY kind ORDER BY kind"
      )
        == [[1, 2, 1], [2, 2, 2]])
  }

  @Test
  func `that expired long ago are removed`() async throws {
    let store = try await Store()
    let realm = try await store.realm(of: store.server().server)
    let tokens = try (0..<5).map { try PushToken("token-\($0)", kind: .fcm) }
    for token in tokens {
      try await store.registrations.register(token, iosAppID: nil, realm: realm.id, bouncerKey: "key")
    }
    let found = try await store.registrations.lookup(realm: realm.id, tokenIDs: tokens.prefix(3).map(\.id))
      .found
    _ = try await store.registrations.end(found.map { .init($0.reference, reason: "UNREGISTERED") })
    #expect(
      try await store.registrations.counts().map { [$0.live, $0.ended] } == [[0, 0], [2, 3], [0, 0], [0, 0]])
    #expect(try await store.registrations.removeEnded(before: store.clock.now) == 0)
    store.clock.advance(1)
    #expect(try await store.registrations.removeEnded(before: store.clock.now, limit: 2) == 2)
    #expect(try await store.registrations.removeEnded(before: store.clock.now, limit: 2) == 1)
    #expect(try await store.rows("SELECT COUNT(*) FROM registrations WHERE wire = 1") == [[2]])
  }

  @Test
  func `are counted by the key that they were sealed to`() async throws {
    let store = try await Store()
    let realm = try await store.realm(of: store.server().server)
    func register(_ text: String, _ key: String) async throws {
      try await store.registrations.register(
        try PushToken(text, kind: .fcm), iosAppID: nil, realm: realm.id, bouncerKey: key)
    }
    try await register("a", "old")
    try await register("b", "old")
    store.clock.advance(31 * 86_400)
    try await register("b", "new")
    let now = store.clock.now
    let usage = try await store.registrations.keyUsage()
    #expect(usage.map(\.publicKey) == ["new", "old"])
    #expect(usage.map(\.registrations) == [1, 1])
    #expect(usage.map(\.recentRegistrations) == [1, 0])
    #expect(usage.map(\.lastUsedAt) == [now, now - 31 * 86_400])
  }

  @Test
  func `are all found in one batch of thousands`() async throws {
    let store = try await Store()
    let realm = try await store.realm(of: store.server().server)
    let tokens = try (0..<3000).map { try PushToken("token-\($0)", kind: .fcm) }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for token in tokens {
        group.addTask {
          try await store.registrations.register(token, iosAppID: nil, realm: realm.id, bouncerKey: "key")
        }
      }
      try await group.waitForAll()
    }
    let found = try await store.registrations.lookup(realm: realm.id, tokenIDs: tokens.map(\.id)).found
    #expect(Set(found.map(\.token)) == Set(tokens))
  }
}
