import Foundation
import Providers
import SQL
import Sealing
import TestStore
import TestSupport
import Testing

@testable import Registrations

/// A server with a realm, and a user of it who has but a number.
private struct Stage {
  let store: Store
  let server: RemoteServer
  let realm: RemoteRealm
  let user: LegacyUser

  var registrations: RegistrationStore { store.registrations }

  init() async throws {
    store = try await Store()
    server = try await store.server().server
    realm = try await store.realm(of: server)
    user = try #require(LegacyUser(id: 10, uuid: nil))
  }

  func register(_ token: PushToken, app: String? = nil, key: String = "key") async throws {
    try await registrations.register(token, iosAppID: app, realm: realm.id, bouncerKey: key)
  }

  func registerLegacy(_ token: PushToken, server: Int64? = nil) async throws {
    try await registrations.register(
      token, iosAppID: nil, for: user, server: server ?? self.server.id, realm: nil)
  }

  func found(_ tokens: PushToken...) async throws -> [Registration] {
    try await registrations.lookup(realm: realm.id, tokenIDs: tokens.map(\.id))
      .found.values.sorted { $0.reference.id < $1.reference.id }
  }

  func legacy(_ token: PushToken, server: Int64) async throws -> RegistrationReference {
    try #require(try await registrations.find(token, of: user, server: server)).reference
  }
}

private func apns(_ text: String) throws -> PushToken { try PushToken(text, kind: .apns) }

private func fcm(_ text: String) throws -> PushToken { try PushToken(text, kind: .fcm) }

@Suite("E2EE registrations")
struct E2EERegistrationTests {
  private let stage: Stage

  init() async throws {
    stage = try await Stage()
  }

  @Test
  func `are found by realm and token id, their token sealed at rest`() async throws {
    let (apple, google) = (try apns("C0FFEE"), try fcm("android-token"))
    try await stage.register(apple, app: "example.app")
    try await stage.register(google)
    let found = try await stage.registrations.lookup(
      realm: stage.realm.id, tokenIDs: [apple.id, google.id, TokenID(storage: 1), apple.id]
    ).found.values
    #expect(Set(found.map(\.token)) == [apple, google])
    #expect(found.first { $0.token == apple }?.iosAppID == "example.app")
    #expect(found.first { $0.token == google }?.iosAppID == nil)
    #expect(found.allSatisfy { $0.reference.registeredAt == Date(timeIntervalSince1970: 1_790_000_000.123) })
    for (realm, ids) in [(stage.realm.id + 1, [apple.id]), (stage.realm.id, [])] {
      #expect(try await stage.registrations.lookup(realm: realm, tokenIDs: ids).found.isEmpty)
    }
    for row in try await stage.store.rows("SELECT token FROM registrations") {
      guard case .bytes(let sealed) = row[0] else { continue }
      #expect(!String(decoding: sealed, as: UTF8.self).contains("C0FFEE"))
      #expect(sealed.count <= 44 + 13)
    }
  }

  @Test
  func `of one token and realm are one, whoever registers it at once`() async throws {
    let token = try apns("c0ffee")
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<50 { group.addTask { try await stage.register(token, app: "app") } }
      try await group.waitForAll()
    }
    #expect(try await stage.store.rows("SELECT COUNT(*) FROM registrations") == [[1]])
    #expect(try await stage.store.rows("SELECT COUNT(*) FROM bouncer_keys") == [[1]])
  }

  @Test
  func `live again when they are registered again, with everything fresh`() async throws {
    let token = try apns("c0ffee")
    try await stage.register(token, app: "old.app", key: "old")
    let first = try #require(try await stage.found(token).first).reference
    #expect(try await stage.registrations.end([.init(first, reason: "Unregistered")]) == [first])
    #expect(try await stage.found(token).isEmpty)
    #expect(try await stage.store.rows("SELECT failure FROM registrations") == [[.text("Unregistered")]])

    stage.store.clock.advance(60)
    try await stage.register(fcm("c0ffee"), key: "new")
    let second = try #require(try await stage.found(token).first)
    #expect(second.reference == .init(.e2ee, id: first.id, registeredAt: first.registeredAt + 60))
    #expect(try second.token == fcm("c0ffee") && second.iosAppID == nil)
    #expect(
      try await stage.store.rows(
        """
        SELECT e.ended_at, e.failure, e.failed_at, k.public_key
        FROM registrations e JOIN bouncer_keys k ON k.id = e.bouncer_key_id
        """) == [[.null, .null, .null, .text("new")]])
  }

  @Test
  func `that were registered again meanwhile do not die of an older answer`() async throws {
    let token = try apns("c0ffee")
    try await stage.register(token, app: "app")
    let met = try #require(try await stage.found(token).first)
    stage.store.clock.advance(0.001)
    try await stage.register(token, app: "app")
    let failure = RegistrationStore.Failure(met.reference, reason: "Unregistered")
    #expect(try await stage.registrations.end([failure]).isEmpty)
    try await stage.registrations.recordFailures([failure])
    #expect(try await stage.found(token).count == 1)
    #expect(try await stage.store.rows("SELECT failure FROM registrations") == [[.null]])
  }

  @Test
  func `that fail keep their last reason, however many there are`() async throws {
    var devices: [RegistrationReference] = []
    for number in 0..<250 {
      let token = try apns(String(format: "%04x", number))
      try await stage.registerLegacy(token)
      devices.append(try await stage.legacy(token, server: stage.server.id))
    }
    let failures = ["TooBig", "timeout"].flatMap { reason in
      devices.map { RegistrationStore.Failure($0, reason: reason) }
    }
    try await stage.registrations.recordFailures(failures)
    #expect(
      try await stage.store.rows("SELECT failure, COUNT(*) FROM registrations GROUP BY failure")
        == [[.text("timeout"), 250]])
  }

  @Test
  func `of the same device in another case have one hash and two ids`() async throws {
    for text in ["c0ffee", "C0FFEE"] {
      try await stage.register(apns(text), app: "app")
      try await stage.register(fcm("fcm-" + text))
    }
    let kinds =
      "SELECT kind, COUNT(*), COUNT(DISTINCT token_hash) FROM registrations GROUP BY kind ORDER BY kind"
    #expect(try await stage.store.rows(kinds) == [[1, 2, 1], [2, 2, 2]])
  }

  @Test
  func `that expired long ago are removed`() async throws {
    let tokens = try (0..<5).map { try fcm("token-\($0)") }
    for token in tokens { try await stage.register(token) }
    let found = try await stage.found(tokens[0], tokens[1], tokens[2])
    let registrations = stage.registrations
    _ = try await registrations.end(found.map { .init($0.reference, reason: "UNREGISTERED") })
    #expect(
      try await registrations.counts().map { [$0.live, $0.ended] } == [
        [0, 0], [2, 3], [0, 0], [0, 0], [0, 0], [0, 0],
      ])
    #expect(try await registrations.removeEnded(before: stage.store.clock.now) == 0)
    stage.store.clock.advance(1)
    #expect(try await registrations.removeEnded(before: stage.store.clock.now, limit: 2) == 2)
    #expect(try await registrations.removeEnded(before: stage.store.clock.now, limit: 2) == 1)
    #expect(try await stage.store.rows("SELECT COUNT(*) FROM registrations") == [[2]])
  }

  @Test
  func `are counted by the key that they were sealed to`() async throws {
    try await stage.register(fcm("a"), key: "old")
    try await stage.register(fcm("b"), key: "old")
    stage.store.clock.advance(31 * 86_400)
    try await stage.register(fcm("b"), key: "new")
    let now = stage.store.clock.now
    let usage = try await stage.registrations.keyUsage()
    #expect(usage.map(\.publicKey) == ["new", "old"])
    #expect(usage.map(\.registrations) == [1, 1])
    #expect(usage.map(\.recentRegistrations) == [1, 0])
    #expect(usage.map(\.lastUsedAt) == [now, now - 31 * 86_400])
  }

  @Test
  func `are all found in one batch of more than a statement can name`() async throws {
    let tokens = try (0..<3000).map { try fcm("token-\($0)") }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for token in tokens { group.addTask { try await stage.register(token) } }
      try await group.waitForAll()
    }
    let others = (0..<Int64(40_000)).map { TokenID(storage: $0) }
    let found = try await stage.registrations.lookup(
      realm: stage.realm.id, tokenIDs: others + tokens.map(\.id)
    ).found.values
    #expect(Set(found.map(\.token)) == Set(tokens))
  }
}

@Suite("Legacy registrations")
struct LegacyRegistrationTests {
  private let stage: Stage

  init() async throws {
    stage = try await Stage()
  }

  @Test
  func `of one user and token are one, whoever registers it at once, under whichever name`() async throws {
    let (registrations, server, uuid) = (stage.registrations, stage.server.id, UUID())
    let names = try [(10, uuid), (10, nil), (nil, uuid)].map { try #require(LegacyUser(id: $0, uuid: $1)) }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for index in 0..<60 {
        group.addTask {
          try await registrations.register(
            apns(index.isMultiple(of: 2) ? "c0ffee" : "C0FFEE"), iosAppID: "app", for: names[index % 3],
            server: server, realm: nil)
        }
      }
      try await group.waitForAll()
    }
    #expect(
      try await registrations.recipients(of: names[0], server: server, realm: nil).registrations.count == 1)
    #expect(try await stage.store.rows("SELECT COUNT(*) FROM registrations") == [[1]])
  }

  @Test
  func `get the realm that the first notification for them names`() async throws {
    try await stage.registerLegacy(fcm("a"))
    _ = try await stage.registrations.recipients(of: stage.user, server: stage.server.id, realm: stage.realm)
    #expect(try await stage.store.rows("SELECT realm_id FROM registrations") == [[.integer(stage.realm.id)]])
  }

  @Test
  func `are swept in stretches: where a device has moved on, in that realm and of that kind`() async throws {
    let other = try await stage.store.realm(of: stage.server)
    for number in 0..<20 {
      try await stage.registrations.register(
        fcm("token-\(number)"), iosAppID: nil, for: stage.user, server: stage.server.id,
        realm: number < 10 ? stage.realm : number < 15 ? other : nil)
    }
    for number in 0..<20 where number.isMultiple(of: 2) { try await stage.register(fcm("token-\(number)")) }
    var (last, removed, steps): (Int64?, Int, Int) = (0, 0, 0)
    while let row = last {
      let result = try await stage.registrations.removeDuplicates(after: row, limit: 3)
      removed += result.removed
      last = result.last
      steps += 1
    }
    #expect(removed == 5 && steps == 11)
    let counts = "SELECT COUNT(*), COUNT(*) FILTER (WHERE realm_id = \(stage.realm.id)) FROM registrations"
    #expect(try await stage.store.rows(counts + " WHERE wire = 2") == [[15, 5]])
  }

  @Test
  func `that a provider has declared dead go with the older ones of that token and app, and stay if renewed`()
    async throws
  {
    let (registrations, token) = (stage.registrations, try apns("c0ffee"))
    let servers = [stage.server.id, try await stage.store.server("b.example.org").server.id]
    for server in servers {
      try await stage.registerLegacy(token, server: server)
      stage.store.clock.advance(1)
    }
    let older = try await stage.legacy(token, server: servers[0])
    let newer = try await stage.legacy(token, server: servers[1])
    #expect(try await registrations.end([.init(older, reason: "Unregistered")]) == [older])
    #expect(try await registrations.living([older.id, newer.id]) == [newer.id])

    try await stage.registerLegacy(token, server: servers[1])
    let late = RegistrationStore.Failure(newer, reason: "Unregistered")
    #expect(try await registrations.end([late]).isEmpty)
    try await registrations.recordFailures([late])
    #expect(try await stage.store.rows("SELECT failure FROM registrations") == [[.null]])
    let renewed = try await stage.legacy(token, server: servers[1])
    try await registrations.recordFailures([.init(renewed, reason: "BadDeviceToken")])
    #expect(try await stage.store.rows("SELECT failure FROM registrations") == [[.text("BadDeviceToken")]])
  }

  @Test
  func `that a provider has declared dead go wherever they were registered before it was asked`() async throws
  {
    let token = try fcm("fcm:token")
    var found: [RegistrationReference] = []
    var asked = Date.distantPast
    for name in ["a", "b", "c"] {
      let server = try await stage.store.server("\(name).example.org").server.id
      if name == "c" { asked = stage.store.clock.now }
      try await stage.registerLegacy(token, server: server)
      stage.store.clock.advance(1)
      found.append(try await stage.legacy(token, server: server))
    }
    // The third registered when the notification for the first was on its way.
    let failure = RegistrationStore.Failure(found[0], reason: "UNREGISTERED", holdsBefore: asked)
    #expect(try await stage.registrations.end([failure]) == [found[0]])
    #expect(try await stage.registrations.living(found.map(\.id)) == [found[2].id])
  }

  @Test(arguments: [RegistrationStore.selectRecipients, RegistrationStore.selectDuplicates])
  func `are found without reading all of a server or of a realm`(_ sql: String) async throws {
    let store = stage.store
    guard store.database.engine == .sqlite else { return }
    let arguments = (1...4).prefix { sql.contains("$\($0)") }.map { Value.integer(Int64($0)) }
    let explain = Statement("EXPLAIN QUERY PLAN " + sql, arguments: arguments)
    let steps = try await store.database.query(explain).map { try $0.text("detail") }.joined(separator: "\n")
    #expect(steps.contains("registrations_by_token"), "\(steps)")
    for slow in ["registrations_by_server", "registrations_by_realm", "SCAN"] {
      #expect(!steps.contains(slow), "\(steps)")
    }
  }
}
