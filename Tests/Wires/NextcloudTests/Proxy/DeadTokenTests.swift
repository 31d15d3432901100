import Foundation
import Providers
import Registrations
import SQL
import Sealing
import TestStore
import TestSupport
import Testing

@testable import NextcloudProxy

/// Tests that a dead token ends all registrations of that token.
@Suite struct DeadTokenTests {
  private static let app = "org.example.chat"

  /// One token, registered in every way there is.
  private struct Registered {
    let store: Store
    let token: PushToken
    let app: String?
    var realms: [Int64] = []
    var servers: [Int64] = []

    init(_ token: PushToken, app: String?) async throws {
      store = try await Store()
      (self.token, self.app) = (token, app)
      for name in ["a", "b"] {
        let server = try await store.server("\(name).example.org").server
        servers.append(server.id)
        realms.append(try await store.realm(of: server).id)
      }
    }

    func registerEncrypted(_ index: Int, app: String?? = nil) async throws {
      try await store.registrations.register(
        token, iosAppID: app ?? self.app, realm: realms[index], bouncerKey: "key")
    }

    func registerLegacy(_ index: Int) async throws {
      guard let user = LegacyUser(id: 10, uuid: nil) else { return }
      try await store.registrations.register(
        token, iosAppID: app, for: user, server: servers[index], realm: nil)
    }

    func registerNextcloud(_ identifier: UInt8, target: String?) async throws {
      let devices = NextcloudDevices(
        database: store.database, storageKey: store.storageKey, now: { [store] in store.clock.now })
      try await devices.register(
        .init(
          identifier: [UInt8](repeating: identifier, count: 64), userKey: [UInt8](repeating: 1, count: 294),
          token: token.text, tokenHash: [UInt8](repeating: 9, count: 64),
          destination: .init(kind: token.kind == .fcm ? .fcm : .apns, app: "Talk", target: target)))
    }

    func encrypted(_ index: Int) async throws -> Registration? {
      try await store.registrations.lookup(realm: realms[index], tokenIDs: [token.id]).found[token.id]
    }

    func count(_ wire: Int) async throws -> Int {
      try await store.rows("SELECT id FROM registrations WHERE wire = \(wire)").count
    }

    func end(_ registration: RegistrationReference, holdsBefore: Date? = nil) async throws {
      let failure = RegistrationStore.Failure(registration, reason: "Unregistered", holdsBefore: holdsBefore)
      #expect(try await store.registrations.end([failure]) == [registration])
    }
  }

  @Test func `What had ended before keeps its reason`() async throws {
    let registered = try await Registered(try PushToken("fcm:token", kind: .fcm), app: nil)
    try await registered.registerEncrypted(0)
    let first = try #require(try await registered.encrypted(0)).reference
    #expect(
      try await registered.store.registrations.end([.init(first, reason: "upstreamDisabled")]) == [first])
    registered.store.clock.advance(10)
    try await registered.registerEncrypted(1)
    try await registered.end(try #require(try await registered.encrypted(1)).reference)
    #expect(
      try await registered.store.rows("SELECT failure FROM registrations ORDER BY id")
        == [[.text("upstreamDisabled")], [.text("Unregistered")]])
  }

  @Test(arguments: [("c0ffee", PushToken.Kind.apns, app as String?), ("fcm:token", .fcm, nil)])
  func `It ends in every realm, at every server and of every kind`(
    _ text: String, _ kind: PushToken.Kind, _ app: String?
  ) async throws {
    let registered = try await Registered(try PushToken(text, kind: kind), app: app)
    for index in 0...1 {
      try await registered.registerEncrypted(index)
      try await registered.registerLegacy(index)
    }
    try await registered.registerNextcloud(1, target: app)
    try await registered.registerNextcloud(2, target: "another.app")
    registered.store.clock.advance(10)
    let dead = try #require(try await registered.encrypted(0))
    try await registered.end(dead.reference, holdsBefore: registered.store.clock.now)
    // Their servers are told at the next notification, which asks nobody.
    for index in 0...1 { #expect(try await registered.encrypted(index) == nil) }
    #expect(try await registered.count(1) == 2)
    #expect(try await registered.count(2) == 0)
    // The other one's app is another.
    #expect(try await registered.count(3) == 1)
    #expect(try await registered.store.rows("SELECT devices FROM nextcloud_removals") == [[.integer(1)]])
  }

  @Test func `It ends for others, too, where a Nextcloud device has died`() async throws {
    let registered = try await Registered(try PushToken("C0FFEE", kind: .apns), app: Self.app)
    try await registered.registerEncrypted(0)
    try await registered.registerNextcloud(1, target: Self.app)
    try await registered.registerNextcloud(2, target: Self.app)
    let id = try #require(
      try await registered.store.rows("SELECT id, registered_at FROM registrations WHERE wire = 3").first)
    guard case .integer(let row) = id[0], case .integer(let time) = id[1] else { return }
    try await registered.end(
      .init(.nextcloud, id: row, registeredAt: Date(timeIntervalSince1970: Double(time) / 1000)))
    #expect(try await registered.encrypted(0) == nil)
    #expect(try await registered.count(3) == 0)
  }

  @Test func `What was registered after the push was sent stays, and so does what has another app`()
    async throws
  {
    let registered = try await Registered(try PushToken("c0ffee", kind: .apns), app: Self.app)
    try await registered.registerEncrypted(0)
    let dead = try #require(try await registered.encrypted(0))
    registered.store.clock.advance(1)
    let sent = registered.store.clock.now
    registered.store.clock.advance(1)
    try await registered.registerEncrypted(1)
    try await registered.registerNextcloud(1, target: Self.app)
    try await registered.end(dead.reference, holdsBefore: sent)
    #expect(try await registered.encrypted(0) == nil)
    #expect(try await registered.encrypted(1) != nil)
    #expect(try await registered.count(3) == 1)

    let other = try await Registered(try PushToken("c0ffee", kind: .apns), app: Self.app)
    try await other.registerEncrypted(0)
    try await other.registerEncrypted(1, app: "another.app")
    try await other.end(try #require(try await other.encrypted(0)).reference, holdsBefore: .distantFuture)
    #expect(try await other.encrypted(1) != nil)
  }
}
