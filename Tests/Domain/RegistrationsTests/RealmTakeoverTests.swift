import Foundation
import Providers
import Registrations
import SQL
import Sealing
import TestStore
import TestSupport
import Testing

@Suite("A realm")
struct RealmTakeoverTests {
  private struct Stage {
    let store: Store
    let owner: RemoteServer
    let other: RemoteServer
    var realm = RealmDescription.sample()
    let token: PushToken
    let user: LegacyUser
    let numbered: LegacyUser

    init() async throws {
      store = try await Store()
      owner = try await store.server("old.example.org").server
      other = try await store.server("new.example.org").server
      token = try PushToken("c0ffee", kind: .apns)
      user = try #require(LegacyUser(id: nil, uuid: UUID()))
      numbered = try #require(LegacyUser(id: 10, uuid: nil))
      try await upload(realm, by: owner)
      let row = try #require(try await store.realms.find(uuid: realm.uuid))
      try await store.registrations.register(token, iosAppID: "app", realm: row.id, bouncerKey: "key")
      for (name, user) in [("one", user), ("two", user), ("three", numbered)] {
        try await store.registrations.register(
          try PushToken(name, kind: .fcm), iosAppID: nil, for: user, server: owner.id, realm: row)
      }
    }

    @discardableResult
    func upload(_ realm: RealmDescription, by server: RemoteServer) async throws -> [RealmSync.Takeover] {
      try await store.take([realm], of: server)
    }

    func changed(_ change: (inout RealmDescription) -> Void) -> RealmDescription {
      var realm = realm
      change(&realm)
      return realm
    }

    /// A server proves its hostname.
    func prove(_ server: RemoteServer) async throws {
      _ = try await store.servers.transfer(server)
    }

    /// Checks that it is the other server's now, with what there is of its registrations.
    func expectMoved(keeping isKept: Bool, numbers keepsNumbers: Bool = false) async throws {
      let row = try #require(try await store.realms.find(uuid: realm.uuid))
      #expect(try await store.realms.find(uuid: realm.uuid, server: other.id) == .owned(row))
      #expect(
        try await RemoteRealms(database: store.database).find(uuid: realm.uuid, server: owner.id)
          == .anothersRealm)
      let found = try await store.registrations.lookup(realm: row.id, tokenIDs: [token.id]).found.values
      #expect(found.map(\.token) == (isKept ? [token] : []))
      for server in [owner, other] {
        let legacy = try await store.registrations.recipients(of: user, server: server.id, realm: nil)
          .registrations
        #expect(
          legacy.map(\.token.text).sorted() == (isKept && server.id == other.id ? ["one", "two"] : []))
        // The number is another user's there, unless all is the same.
        let numbered = try await store.registrations.recipients(of: numbered, server: server.id, realm: nil)
          .registrations
        #expect(numbered.map(\.token.text) == (keepsNumbers && server.id == other.id ? ["three"] : []))
      }
    }
  }

  @Test
  func `stays where it is while its server wants it`() async throws {
    let stage = try await Stage()
    for realm in [stage.realm, stage.changed { $0.ownerSecret = "x" }] {
      await #expect(throws: RealmSync.DuplicateRealm.self) {
        try await stage.upload(realm, by: stage.other)
      }
    }
    // Nor does it help to call it deactivated, which is no error either: a server names what it has let go, too.
    #expect(try await stage.upload(stage.changed { $0.isDeactivated = true }, by: stage.other).isEmpty)
    // A realm that is only missing from its server's list may come back.
    try await stage.store.take([], of: stage.owner)
    await #expect(throws: RealmSync.DuplicateRealm.self) {
      try await stage.upload(stage.realm, by: stage.other)
    }
    try await stage.upload(stage.realm, by: stage.owner)
    let row = try #require(try await stage.store.realms.find(uuid: stage.realm.uuid))
    #expect(row.serverID == stage.owner.id)
    #expect(
      try await stage.store.registrations.lookup(realm: row.id, tokenIDs: [stage.token.id]).found.count == 1)
  }

  @Test
  func `that its server has deactivated goes, with its devices, to the next one that has its secret`()
    async throws
  {
    let stage = try await Stage()
    let off = stage.changed { $0.isDeactivated = true }
    try await stage.upload(off, by: stage.owner)
    let moved = stage.changed {
      $0.host = "new.example.org"
      $0.realmID = 7
    }
    // One of the phones is there already.
    try await stage.store.registrations.register(
      try PushToken("two", kind: .fcm), iosAppID: nil, for: stage.user, server: stage.other.id, realm: nil)
    let takeovers = try await stage.upload(moved, by: stage.other)
    #expect(takeovers.map(\.realm) == [stage.realm.uuid])
    #expect(takeovers.map(\.previousServer) == [stage.owner.id])
    #expect(takeovers.map(\.keepsRegistrations) == [true])
    try await stage.expectMoved(keeping: true)
    #expect(
      try await stage.store.rows("SELECT host, realm_id, is_deactivated FROM remote_realms")
        == [[.text("new.example.org"), .integer(7), .integer(0)]])
    // Its former server may go on to name it as deactivated, and may not have it back.
    #expect(try await stage.upload(off, by: stage.owner).isEmpty)
    await #expect(throws: RealmSync.DuplicateRealm.self) {
      try await stage.upload(stage.realm, by: stage.owner)
    }
    #expect(try await stage.upload(moved, by: stage.other).isEmpty)
    try await stage.expectMoved(keeping: true)
  }

  @Test
  func `whose server is deactivated goes, without its devices, to the next one with another secret`()
    async throws
  {
    let stage = try await Stage()
    // What is registered elsewhere is not touched.
    let third = try await stage.store.realm(of: stage.owner)
    try await stage.upload(stage.realm, by: stage.owner)
    try await stage.store.registrations.register(
      stage.token, iosAppID: "app", realm: third.id, bouncerKey: "key")
    try await stage.store.servers.setDeactivated(stage.owner.id, true)
    let stolen = stage.changed { $0.ownerSecret = "another" }
    #expect(try await stage.upload(stolen, by: stage.other).map(\.keepsRegistrations) == [false])
    try await stage.expectMoved(keeping: false)
    #expect(
      try await stage.store.registrations.lookup(realm: third.id, tokenIDs: [stage.token.id]).found.count == 1
    )
    // The secret is the new server's from now on.
    try await stage.store.servers.setDeactivated(stage.other.id, true)
    try await stage.store.servers.setDeactivated(stage.owner.id, false)
    #expect(try await stage.upload(stage.realm, by: stage.owner).map(\.keepsRegistrations) == [false])
  }

  @Test
  func `that the operator has let go goes to the next server within the time, and stays until then`()
    async throws
  {
    let stage = try await Stage()
    #expect(try await stage.store.realms.release(uuid: UUID(), until: .distantFuture) == nil)
    let until = stage.store.clock.now + 100
    let released = try #require(try await stage.store.realms.release(uuid: stage.realm.uuid, until: until))
    #expect(released.realm == "chat.example.org" && released.server == "old.example.org")
    try await stage.upload(stage.realm, by: stage.owner)
    #expect(
      try await stage.store.realms.find(uuid: stage.realm.uuid)?.serverID == stage.owner.id)
    stage.store.clock.advance(100)
    await #expect(throws: RealmSync.DuplicateRealm.self) {
      try await stage.upload(stage.realm, by: stage.other)
    }
    _ = try await stage.store.realms.release(uuid: stage.realm.uuid, until: until + 100)
    #expect(try await stage.upload(stage.realm, by: stage.other).map(\.keepsRegistrations) == [true])
    try await stage.expectMoved(keeping: true)
    // It is let go once.
    await #expect(throws: RealmSync.DuplicateRealm.self) {
      try await stage.upload(stage.realm, by: stage.owner)
    }
  }

  @Test
  func `goes, with all others of its server and every device, to the hostname that this has proved since`()
    async throws
  {
    let stage = try await Stage()
    let bots = RealmDescription.sample()
    let former = [stage.realm, bots].map(\.uuid)
    try await stage.store.take([stage.realm, bots], of: stage.owner)
    try await stage.store.registrations.register(
      try PushToken("one", kind: .fcm), iosAppID: nil, for: stage.user, server: stage.other.id, realm: nil)
    try await stage.prove(stage.owner)
    try await stage.prove(stage.other)
    let moved = [stage.changed { $0.host = "new.example.org" }, bots, .sample()]
    let takeovers = try await stage.store.take(moved, of: stage.other)
    #expect(takeovers.map(\.realm) == former && takeovers.allSatisfy(\.keepsRegistrations))
    try await stage.expectMoved(keeping: true, numbers: true)
    // By the same way it comes back.
    await #expect(throws: RealmSync.DuplicateRealm.self) {
      try await stage.store.take([stage.realm, bots], of: stage.owner)
    }
    try await stage.store.take(Array(moved.prefix(2)), of: stage.other)
    try await stage.prove(stage.owner)
    #expect(try await stage.store.take([stage.realm, bots], of: stage.owner).map(\.realm) == former)
  }

  @Test
  func `stays where it is if its server may be another one than that with the proved hostname`() async throws
  {
    let stage = try await Stage()
    let second = RealmDescription.sample()
    let both = [stage.realm, second]
    try await stage.store.take(both, of: stage.owner)
    func expectRefusal(of realms: [RealmDescription]) async throws {
      let before = try await stage.store.rows("SELECT * FROM remote_realms ORDER BY id")
      await #expect(throws: RealmSync.DuplicateRealm.self) {
        try await stage.store.take(realms, of: stage.other)
      }
      #expect(try await stage.store.rows("SELECT * FROM remote_realms ORDER BY id") == before)
    }
    // Without a proof.
    try await expectRefusal(of: both)
    try await stage.prove(stage.other)
    // Without all the realms, and without their secrets.
    try await expectRefusal(of: [stage.realm])
    try await expectRefusal(of: [stage.realm, .sample()])
    try await expectRefusal(of: [stage.changed { $0.ownerSecret = "another" }, second])
    var stolen = second
    stolen.ownerSecret = "another"
    try await expectRefusal(of: [stage.realm, stolen])
    // The other one has proved its hostname since.
    try await stage.prove(stage.owner)
    try await expectRefusal(of: both)
    // An hour later, and by a clock that was ahead then.
    try await stage.prove(stage.other)
    stage.store.clock.jump(3600.001)
    try await expectRefusal(of: both)
    stage.store.clock.jump(-3601)
    try await expectRefusal(of: both)
    stage.store.clock.jump(1)
    #expect(try await stage.store.take(both, of: stage.other).count == 2)
  }

  @Test
  func `that has gone is soon no longer its former server's, in every process that remembers it`()
    async throws
  {
    let stage = try await Stage()
    let elsewhere = RemoteRealms(database: stage.store.database)
    guard case .owned = try await elsewhere.find(uuid: stage.realm.uuid, server: stage.owner.id) else {
      Issue.record("not owned")
      return
    }
    try await stage.store.servers.setDeactivated(stage.owner.id, true)
    try await stage.upload(stage.realm, by: stage.other)
    guard case .owned = try await elsewhere.find(uuid: stage.realm.uuid, server: stage.other.id) else {
      Issue.record("not the other's")
      return
    }
    var ownership = RemoteRealms.Ownership.unknown
    for _ in 0..<3000 where ownership != .anothersRealm {
      ownership = try await elsewhere.find(uuid: stage.realm.uuid, server: stage.owner.id)
      if ownership != .anothersRealm { try await Task.sleep(for: .milliseconds(10)) }
    }
    #expect(ownership == .anothersRealm)
  }
}
