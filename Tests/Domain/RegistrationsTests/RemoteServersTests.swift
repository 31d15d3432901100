import Foundation
import Providers
package import SQL
import Sealing
import TestDatabase
import TestStore
import TestSupport
import Testing
import ZulipBouncer

@testable import Basics
@testable import HTTPClient
@testable import Platform
@testable import Registrations

@Suite("Remote servers")
struct RemoteServersTests {
  private let store: Store

  init() async throws {
    store = try await Store()
  }

  @Test
  func `are added with a key that is kept only as a hash`() async throws {
    let (server, key) = try await store.server("Chat.Example.org")
    #expect(key.count == 64)
    #expect(server.hostname == "chat.example.org")
    #expect(server.lastRequestAt == nil)
    #expect(try await store.servers.find(uuid: server.uuid) == server)
    #expect(try await store.servers.find(hostname: "chat.EXAMPLE.org") == server)
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: key) == .authenticated(server))
    let row = try await store.rows("SELECT * FROM remote_servers")[0]
    #expect(!row.contains(.text(key)) && !row.contains(.bytes(Array(key.utf8))))
  }

  @Test
  func `are told why they are not let in`() async throws {
    let (server, key) = try await store.server()
    #expect(try await store.servers.authenticate(uuid: UUID(), key: key) == .unknown)
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: key + "x") == .wrongKey)
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: "") == .wrongKey)
    try await store.servers.setDeactivated(server.id, true)
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: "x") == .wrongKey)
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: key) == .deactivated)
    try await store.servers.setDeactivated(server.id, false)
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: key) == .authenticated(server))
    #expect(
      try await store.rows("SELECT event_type FROM remote_server_audit_log ORDER BY id")
        == [[.integer(10215)], [.integer(10201)], [.integer(10202)]])
  }

  /// As after a move by logical replication. The database itself brings it forward (``RetryingDatabase``); this one does not.
  @Test(.needsPostgreSQL)
  func `are not taken for others because a sequence is behind`() async throws {
    guard store.database.engine == .postgreSQL else { return }
    let (server, key) = try await store.server()
    try await store.database.write { connection in
      _ = try connection.query(Statement("SELECT setval('remote_servers_id_seq', 1, false)"))
    }
    let application = RemoteServers.Application(
      uuid: UUID(), key: "k", hostname: try Hostname("new.example.org"), contactEmail: "a@b.org")
    let error = await #expect(throws: DatabaseError.self) {
      try await store.servers.register(application, mayCreate: true)
    }
    #expect(error?.code == .uniqueViolation && error?.constraint == "remote_servers_pkey")
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: key) == .authenticated(server))
    let node = RemoteServers(
      database: RetryingDatabase(store.database), storageKey: store.storageKey,
      now: { [clock = store.clock] in clock.now })
    #expect(try await node.register(application, mayCreate: true))
  }

  @Test
  func `that register twice at once are one`() async throws {
    let application = RemoteServers.Application(
      uuid: UUID(), key: "k", hostname: try Hostname("new.example.org"), contactEmail: "a@b.org")
    let answers = try await withThrowingTaskGroup(of: Bool.self) { [store] group in
      for _ in 0..<8 {
        group.addTask { try await store.servers.register(application, mayCreate: true) }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(answers.count(where: \.self) == 1)
  }

  @Test
  func `have a hostname that no other has, in any case`() async throws {
    _ = try await store.server("chat.example.org")
    let (other, otherKey) = try await store.server("other.example.org")
    let before = try await store.rows("SELECT * FROM remote_servers ORDER BY id")
    await #expect(throws: RemoteServers.RegistrationError.hostnameTaken) {
      try await store.server("CHAT.example.org")
    }
    await #expect(throws: RemoteServers.RegistrationError.hostnameTaken) {
      try await store.servers.register(
        .init(uuid: UUID(), key: "k", hostname: try Hostname("Chat.example.org"), contactEmail: "a@b.org"),
        mayCreate: true)
    }
    await #expect(throws: RemoteServers.RegistrationError.hostnameTaken) {
      try await store.servers.register(
        .init(
          uuid: other.uuid, key: otherKey, hostname: try Hostname("chat.example.ORG"),
          contactEmail: "a@b.org",
          newKey: String(repeating: "n", count: 64)),
        mayCreate: true)
    }
    await #expect(throws: RemoteServers.RegistrationError.alreadyThere) {
      try await store.servers.add(
        hostname: try Hostname("third.example.org"), uuid: other.uuid, contactEmail: "a@b.org")
    }
    #expect(try await store.rows("SELECT * FROM remote_servers ORDER BY id") == before)
  }

  @Test
  func `take the hostname of one that has deactivated itself, which stays so, without it`() async throws {
    let name = try Hostname("chat.example.org")
    let (first, _) = try await store.server(name.text)
    try await store.servers.setDeactivated(first.id, true, byItself: true)
    let application = RemoteServers.Application(
      uuid: UUID(), key: "k", hostname: name, contactEmail: "a@b.org")
    await #expect(throws: RemoteServers.RegistrationError.closed) {
      try await store.servers.register(application, mayCreate: false)
    }
    await #expect(throws: RemoteServers.RegistrationError.unprovenHostname) {
      try await store.servers.register(application, mayCreate: true, mustProve: true)
    }
    #expect(try await store.servers.find(hostname: name)?.id == first.id)

    #expect(try await store.servers.register(application, mayCreate: true))
    let second = try #require(try await store.servers.find(hostname: name))
    #expect(second.uuid == application.uuid)
    let old = try #require(try await store.servers.find(id: first.id))
    #expect(old.isDeactivated)
    #expect(old.hostname == "chat.example.org.\(first.uuid.canonical).invalid")

    try await store.servers.setDeactivated(second.id, true, byItself: true)
    let (third, _) = try await store.server(name.text)
    try await store.servers.setDeactivated(third.id, true, byItself: true)
    let (other, otherKey) = try await store.server("other.example.org")
    let isNew = try await store.servers.register(
      .init(uuid: other.uuid, key: otherKey, hostname: name, contactEmail: "a@b.org"), mayCreate: false)
    #expect(!isNew)
    #expect(try await store.servers.find(hostname: name)?.id == other.id)
    // Who has lost the hostname meanwhile cannot have proved it.
    #expect(try await store.servers.transfer(third) == nil)
    #expect(try await store.servers.find(id: third.id)?.isDeactivated == true)
  }

  @Test
  func `keep the hostname that the operator has switched off, until the operator gives it away`() async throws
  {
    let name = try Hostname("chat.example.org")
    let (server, key) = try await store.server(name.text)
    let (other, otherKey) = try await store.server("other.example.org")
    // Whichever comes first, the operator's word stays.
    try await store.servers.setDeactivated(server.id, true, byItself: true)
    try await store.servers.setDeactivated(server.id, true)
    try await store.servers.setDeactivated(server.id, true, byItself: true)
    let before = try await store.rows("SELECT * FROM remote_servers ORDER BY id")
    await #expect(throws: RemoteServers.RegistrationError.deactivated) {
      try await store.servers.transfer(server)
    }
    for (uuid, key) in [(UUID(), "k"), (other.uuid, otherKey)] {
      await #expect(throws: RemoteServers.RegistrationError.hostnameTaken) {
        try await store.servers.register(
          .init(uuid: uuid, key: key, hostname: name, contactEmail: "a@b.org"), mayCreate: true)
      }
    }
    #expect(try await store.rows("SELECT * FROM remote_servers ORDER BY id") == before)
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: key) == .deactivated)

    let (added, _) = try await store.servers.add(hostname: name, contactEmail: "")
    #expect(try await store.servers.find(hostname: name)?.id == added.id)
    #expect(try await store.servers.find(id: server.id)?.isDeactivatedByOperator == true)
    // Switched on again, it may deactivate itself as any.
    try await store.servers.setDeactivated(server.id, false)
    try await store.servers.setDeactivated(server.id, true, byItself: true)
    #expect(try await store.servers.find(id: server.id)?.isDeactivatedByItself == true)
  }

  @Test
  func `may change the case of their own hostname`() async throws {
    let (server, key) = try await store.server("chat.example.org")
    let isNew = try await store.servers.register(
      .init(
        uuid: server.uuid, key: key, hostname: try Hostname("CHAT.example.org"), contactEmail: "new@b.org"),
      mayCreate: false)
    #expect(!isNew)
    let updated = try #require(try await store.servers.find(uuid: server.uuid))
    #expect(updated.hostname == "chat.example.org")
    #expect(updated.contactEmail == "new@b.org")
    #expect(updated.lastRequestAt == Date(timeIntervalSince1970: 1_790_000_000.123))
  }

  @Test
  func `come in by themselves only where that is allowed`() async throws {
    let application = RemoteServers.Application(
      uuid: UUID(), key: String(repeating: "k", count: 64), hostname: try Hostname("new.example.org"),
      contactEmail: "a@b.org")
    await #expect(throws: RemoteServers.RegistrationError.closed) {
      try await store.servers.register(application, mayCreate: false)
    }
    #expect(try await store.rows("SELECT id FROM remote_servers").isEmpty)
    #expect(try await store.servers.register(application, mayCreate: true))
    #expect(try await !store.servers.register(application, mayCreate: false))
  }

  @Test
  func `keep their previous key for ten minutes after a rotation, whoever reads the database`() async throws {
    let (server, first) = try await store.server()
    let second = try #require(try await store.servers.rotateKey(server.id))
    let reopened = RemoteServers(
      database: store.database, storageKey: store.storageKey, now: { [clock = store.clock] in clock.now })
    #expect(try await reopened.authenticate(uuid: server.uuid, key: first) == .inGrace(server))
    store.clock.advance(599.9)
    #expect(try await reopened.authenticate(uuid: server.uuid, key: first) == .inGrace(server))
    store.clock.advance(0.2)
    #expect(try await reopened.authenticate(uuid: server.uuid, key: first) == .wrongKey)
    #expect(try await reopened.authenticate(uuid: server.uuid, key: second) == .authenticated(server))
  }

  @Test
  func `have a key elsewhere that only answers to this key decide, after a change that may have failed`()
    async throws
  {
    let server = try await store.server().server.id
    let links = UpstreamLinks(database: store.database, storageKey: store.storageKey) {
      [clock = store.clock] in clock.now
    }
    func keys() async throws -> [String?] {
      let link = try #require(try await links.link(of: server))
      return [link.key, link.nextKey]
    }
    try await links.enable(server)
    try await links.keep("old", of: server)
    try await links.prepare("new", of: server, within: 8)
    let link = try #require(try await links.link(of: server))
    // The change may still be on its way.
    try await links.confirmKey(link)
    #expect(try await keys() == ["old", "new"])
    try await links.swapKeys(link)
    // Later answers to the former key say nothing any more.
    try await links.confirmKey(link)
    try await links.swapKeys(link)
    #expect(try await keys() == ["new", "old"])
    // The former one was refused, so the change has ended.
    try await links.confirmKey(try #require(try await links.link(of: server)))
    #expect(try await keys() == ["new", nil])
    try await links.swapKeys(link)
    #expect(try await keys() == ["new", nil])
  }

  @Test
  func `have no link to the upstream bouncer from the moment on that it is switched off`() async throws {
    let server = try await store.server().server.id
    let links = UpstreamLinks(database: store.database, storageKey: store.storageKey) {
      [clock = store.clock] in clock.now
    }
    try await links.enable(server)
    #expect(try await links.link(of: server) != nil)
    #expect(try await links.disable(server) == 0)
    #expect(try await links.link(of: server) == nil)
  }

  /// As long as another process's change may be unknown here.
  @Test
  func `are looked up again 200 ms after they were read`() {
    let cache = ReadCache<Int, Int>(maximum: 9)
    cache.keep(1, for: 1, readAt: .now - .milliseconds(200))
    #expect(cache[1] == nil)
  }

  /// Else a change would be unknown here for as long again, to the very caller that made it.
  @Test
  func `are not kept as they were read before a change`() {
    let cache = ReadCache<Int, Int>(maximum: 9)
    let readAt = ContinuousClock.now
    cache.clear()
    cache.keep(1, for: 1, readAt: readAt)
    #expect(cache[1] == nil)
    cache.keep(2, for: 1, readAt: .now + .seconds(60))
    #expect(cache[1] == 2)
  }

  @Test
  func `are known again for a moment by what they showed, and from where`() async throws {
    let (server, key) = try await store.server()
    let shown = RemoteServers.Credentials("right", from: 1)
    func authenticate(_ key: String) async throws -> RemoteServers.Authentication {
      try await store.servers.authenticate(uuid: server.uuid, key: key, as: shown)
    }
    /// A moment may be over before the next line.
    func isKnown() async throws {
      try await eventually {
        guard try await authenticate(key) == .authenticated(server) else { return false }
        return store.servers.server(shown) == server
      }
    }
    #expect(try await authenticate("wrong") == .wrongKey)
    #expect(store.servers.server(shown) == nil)
    try await isKnown()
    #expect(store.servers.server(RemoteServers.Credentials("right", from: 2)) == nil)
    #expect(store.servers.server(RemoteServers.Credentials("other", from: 1)) == nil)
    await eventually { store.servers.server(shown) == nil }
    try await isKnown()
    try await store.servers.setDeactivated(server.id, true)
    #expect(store.servers.server(shown) == nil)
    #expect(try await authenticate(key) == .deactivated)
    #expect(store.servers.server(shown) == nil)
    try await store.servers.setDeactivated(server.id, false)
    try await isKnown()
    _ = try await store.servers.rotateKey(server.id)
    #expect(store.servers.server(shown) == nil)
    // The previous key ends at any moment: it is looked at each time.
    #expect(try await authenticate(key) == .inGrace(server))
    #expect(store.servers.server(shown) == nil)
  }

  @Test
  func `have no longer grace by a clock that was wrong, when the key was replaced or since`() async throws {
    let (server, key) = try await store.server()
    func isAccepted() async throws -> Bool {
      try await store.servers.authenticate(uuid: server.uuid, key: key) == .inGrace(server)
    }
    store.clock.advance(25 * 3600)
    _ = try #require(try await store.servers.rotateKey(server.id))
    #expect(try await isAccepted())
    store.clock.advance(-25 * 3600)
    #expect(try await !isAccepted())
    store.clock.advance(25 * 3600 + 599)
    #expect(try await isAccepted())
    store.clock.advance(1)
    #expect(try await !isAccepted())
    // Put back to before the rotation: what was over stays over.
    store.clock.advance(-6 * 3600)
    #expect(try await !isAccepted())
  }

  @Test
  func `have the same grace when they change their key themselves`() async throws {
    let (server, first) = try await store.server()
    let second = String(repeating: "2", count: 64)
    let third = String(repeating: "3", count: 64)
    func register(_ key: String, _ newKey: String?) async throws {
      _ = try await store.servers.register(
        .init(
          uuid: server.uuid, key: key, hostname: try Hostname(server.hostname), contactEmail: "a@b.org",
          newKey: newKey),
        mayCreate: false)
    }
    func standing(_ key: String) async throws -> RemoteServers.Authentication {
      switch try await store.servers.authenticate(uuid: server.uuid, key: key) {
      case .authenticated: .authenticated(server)
      case .inGrace: .inGrace(server)
      case let other: other
      }
    }
    try await register(first, second)
    #expect(try await standing(first) == .inGrace(server))
    #expect(try await standing(second) == .authenticated(server))
    // Setting the key that is set already is no rotation, whichever of both asks for it.
    for key in [second, first] { try await register(key, second) }
    await #expect(throws: RemoteServers.RegistrationError.replacedKey) { try await register(first, third) }
    #expect(try await standing(first) == .inGrace(server))
    #expect(try await standing(second) == .authenticated(server))
    try await register(second, third)
    #expect(try await standing(first) == .wrongKey)
    #expect(try await standing(second) == .inGrace(server))
    #expect(try await standing(third) == .authenticated(server))
    store.clock.advance(601)
    #expect(try await standing(second) == .wrongKey)
    await #expect(throws: RemoteServers.RegistrationError.wrongKey) { try await register(second, first) }
  }

  @Test
  func `lose the old keys at once where the operator says so`() async throws {
    let (server, first) = try await store.server()
    let second = try #require(try await store.servers.rotateKey(server.id))
    let third = try #require(try await store.servers.rotateKey(server.id, atOnce: true))
    for key in [first, second] {
      #expect(try await store.servers.authenticate(uuid: server.uuid, key: key) == .wrongKey)
    }
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: third) == .authenticated(server))
  }

  @Test
  func `lose the old key at once when the key is transferred`() async throws {
    let (server, first) = try await store.server()
    let second = try #require(try await store.servers.transfer(server))
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: first) == .wrongKey)
    #expect(try await store.servers.authenticate(uuid: server.uuid, key: second) == .authenticated(server))
    #expect(
      try await store.rows("SELECT COUNT(*) FROM remote_server_audit_log WHERE event_type = 10216") == [[1]])
    #expect(try await store.servers.rotateKey(999) == nil)
  }

  @Test
  func `are noted in memory and written down together`() async throws {
    let (server, _) = try await store.server()
    let realm = try await store.realm(of: server)
    let times = RequestTimes(database: store.database, now: { [clock = store.clock] in clock.now })
    times.record(server: server.id)
    store.clock.advance(5)
    times.record(server: server.id)
    times.record(realm: realm.id)
    #expect(try await store.servers.find(uuid: server.uuid)?.lastRequestAt == nil)
    try await times.flush()
    #expect(
      try await store.servers.find(uuid: server.uuid)?.lastRequestAt
        == Date(timeIntervalSince1970: 1_790_000_005.123))
    #expect(
      try await store.rows("SELECT last_request_at FROM remote_realms") == [[.integer(1_790_000_005_123)]])
  }

  @Test
  func `write down what was noted when the service ends`() async throws {
    let (server, _) = try await store.server()
    let times = RequestTimes(database: store.database, now: { [clock = store.clock] in clock.now })
    let running = Task { await times.run(every: .seconds(3600)) }
    times.record(server: server.id)
    running.cancel()
    await running.value
    #expect(try await store.servers.find(uuid: server.uuid)?.lastRequestAt != nil)
  }

  @Test
  func `are listed with what they have`() async throws {
    let (server, _) = try await store.server("b.example.org")
    let (empty, _) = try await store.server("a.example.org")
    let realm = try await store.realm(of: server)
    try await store.registrations.register(
      try PushToken("c0ffee", kind: .apns), iosAppID: "app", realm: realm.id, bouncerKey: "key")
    let all = try await store.servers.all()
    #expect(all.map(\.server.id) == [empty.id, server.id])
    #expect(all.map(\.realms) == [0, 1])
    #expect(all.map(\.registrations) == [0, 1])
  }
}

@Suite("The storage key")
struct StorageSealTests {
  @Test
  func `marks a new database and is the only one that opens it again`() async throws {
    let store = try await Store()
    try await StorageSeal.verify(store.storageKey, of: store.database)
    try await StorageSeal.verify(store.storageKey, of: store.database)
    await #expect(throws: StorageSeal.WrongKey.self) {
      try await StorageSeal.verify(StorageKey(bytes: [UInt8](repeating: 8, count: 32)), of: store.database)
    }
    try await StorageSeal.verify(store.storageKey, of: store.database)
  }
}

extension Value: ExpressibleByIntegerLiteral {
  /// An integer.
  package init(integerLiteral value: Int64) { self = .integer(value) }
}
