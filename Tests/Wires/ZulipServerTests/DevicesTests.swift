import Foundation
import HTTP
import Providers
import SQL
import Sealing
import Synchronization
import TestStore
import TestSupport
import Testing

@testable import Registrations
@testable import ZulipServer

@Suite struct DevicesTests {
  private let stage: Stage

  init() async throws {
    stage = try await Stage()
  }

  private struct Stage {
    let store: Store
    let accounts: AccountStore
    let devices: Devices
    let user: User
    let rings: Rings

    init(localServer: Int64? = nil) async throws {
      let store = try await Store()
      let now: @Sendable () -> Date = { [clock = store.clock] in clock.now }
      let rings = Rings()
      accounts = AccountStore(database: store.database, storageKey: store.storageKey, now: now)
      devices = Devices(
        database: store.database, storageKey: store.storageKey, localServer: localServer, now: now,
        changed: rings.ring)
      let realm = try await accounts.put(
        realm: UUID(), name: "Example", url: "https://chat.example.org", requiresE2EE: nil
      ).realm
      user = try await accounts.put(.init(email: "iago@example.org"), userID: 10, realm: realm.uuid).user
      self.store = store
      self.rings = rings
    }

    func events(after number: Int64 = 0) async throws -> [JSON] {
      let queue = try await devices.openQueue(user: user.id, followsDevices: true)
      return try #require(try await devices.events(queue: queue.id, user: user.id, after: number))
    }

    func device(_ id: Int64) async throws -> Device {
      try #require(try await devices.snapshot(user: user.id).devices.first { $0.id == id })
    }

    func register(_ device: Int64, _ token: String, key: PushKey? = .generate()) async throws -> Bool {
      try await devices.register(
        .init(key: key.map { .init(id: 1, key: $0) }, token: registration(token)), device: device,
        user: user.id)
    }

    func registration(_ token: String) -> DeviceRegistration.Token {
      .init(kind: .fcm, id: TokenID(token: token), bouncerPublicKey: "public", sealed: "sealed \(token)")
    }
  }

  private final class Rings: Sendable {
    private let users = Mutex<[Int64]>([])
    var count: Int { users.withLock { $0.count } }
    @Sendable func ring(_ user: Int64) { users.withLock { $0.append(user) } }
  }

  @Test func `Each change is an event, numbered without gaps, with what changed and nothing else`()
    async throws
  {
    let id = try await stage.devices.add(user: stage.user.id)
    #expect(try await stage.register(id, "a"))
    let job = try #require(try await stage.devices.leaseJobs(limit: 10, for: 30).first)
    try await stage.devices.finish(job)
    try await stage.devices.removeTokens([TokenID(token: "a"), TokenID(token: "b")], user: stage.user.id)
    try await stage.devices.remove(id, user: stage.user.id)
    let events = try await stage.events()
    func event(_ operation: JSON, _ number: Int64, _ members: JSON.Object = [:]) -> JSON {
      .object(
        JSON.Object(
          [
            .init("type", "device"), .init("op", operation), .init("device_id", .integer(id)),
            .init("id", .integer(number)),
          ] + members.members))
    }
    let token = JSON.string(TokenID(token: "a").base64)
    #expect(
      events == [
        event("add", 1),
        event(
          "update", 2,
          [
            "push_key_id": 1, "pending_push_token_id": token,
            "push_token_last_updated_timestamp": 1_790_000_000, "push_registration_error_code": nil,
          ]), event("update", 3, ["push_token_id": token, "pending_push_token_id": nil]),
        event("update", 4, ["push_token_id": nil]), event("remove", 5),
      ])
    #expect(stage.rings.count == 5)
    #expect(try await stage.events(after: 3) == Array(events.suffix(2)))
  }

  @Test func `Fifty registrations of one device at once leave one state, one job and one event`() async throws
  {
    let id = try await stage.devices.add(user: stage.user.id)
    let taken = try await withThrowingTaskGroup(of: String?.self) { group in
      for number in 0..<50 {
        group.addTask {
          do {
            return try await stage.register(id, "\(number)") ? "\(number)" : nil
          } catch DeviceError.inProgress {
            return nil
          }
        }
      }
      return try await group.reduce(into: [String]()) { if let taken = $1 { $0.append(taken) } }
    }
    let winner = try #require(taken.first)
    #expect(taken.count == 1)
    #expect(try await stage.device(id).state.pendingTokenID == TokenID(token: winner))
    let jobs = try await stage.devices.leaseJobs(limit: 10, for: 30)
    #expect(jobs.map(\.sealed) == ["sealed \(winner)"])
    #expect(try await stage.events().count == 2)
  }

  @Test func `Keys that rotate at once leave a key that goes with its id`() async throws {
    let id = try await stage.devices.add(user: stage.user.id)
    _ = try await stage.register(id, "a")
    let keys = (0..<50).map { _ in PushKey.generate() }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (index, key) in keys.enumerated() {
        group.addTask {
          _ = try await stage.devices.register(
            .init(key: .init(id: UInt32(index), key: key), token: nil), device: id, user: stage.user.id)
          let device = try await stage.device(id)
          let keyID = try #require(device.state.pushKeyID)
          #expect(device.pushKey == keys[Int(keyID)])
        }
      }
      try await group.waitForAll()
    }
    #expect(try await stage.events().count == 52)
  }

  @Test func `A device is its user's alone, and its id is never given again`() async throws {
    let other = try await stage.accounts.put(
      .init(email: "desdemona@example.org"), userID: 11, realm: stage.user.realm.uuid
    ).user
    let id = try await stage.devices.add(user: stage.user.id)
    await #expect(throws: DeviceError.unknownDevice) { try await stage.devices.remove(id, user: other.id) }
    await #expect(throws: DeviceError.unknownDevice) {
      try await stage.devices.register(.init(key: nil, token: nil), device: id, user: other.id)
    }
    try await stage.devices.remove(id, user: stage.user.id)
    #expect(try await stage.devices.add(user: stage.user.id) > id)
    #expect(try await stage.devices.snapshot(user: other.id).devices.isEmpty)
  }

  @Test func `A refused call changes nothing and tells nobody`() async throws {
    let id = try await stage.devices.add(user: stage.user.id)
    await #expect(throws: DeviceError.noKeyForToken) { try await stage.register(id, "a", key: nil) }
    #expect(try await stage.events().count == 1)
    #expect(stage.rings.count == 1)
    #expect(try await stage.devices.jobs.count() == 0)
  }

  @Test func `A job is taken by one, and by another when its lease is over`() async throws {
    let id = try await stage.devices.add(user: stage.user.id)
    _ = try await stage.register(id, "a")
    let first = try #require(try await stage.devices.leaseJobs(limit: 10, for: 30).first)
    #expect(first.lease.attempts == 1 && first.realm == stage.user.realm.uuid && first.user == stage.user.id)
    #expect(try await stage.devices.leaseJobs(limit: 10, for: 30).isEmpty)
    stage.store.clock.advance(31)
    let second = try #require(try await stage.devices.leaseJobs(limit: 10, for: 30).first)
    #expect(second.lease.attempts == 2)
    // The first one's word about the time counts no more; its word about the token does.
    try await stage.devices.jobs.postpone([first.lease], until: stage.store.clock.now)
    #expect(try await stage.devices.leaseJobs(limit: 10, for: 30).isEmpty)
    try await stage.devices.finish(first)
    #expect(try await stage.device(id).state.tokenID == TokenID(token: "a"))
    try await stage.devices.finish(second, with: .badRequest)
    #expect(try await stage.device(id).state.error == nil)
    #expect(try await stage.devices.jobs.count() == 0)
  }

  @Test func `An answer about a token that is no longer wanted leaves the next one alone`() async throws {
    let id = try await stage.devices.add(user: stage.user.id)
    _ = try await stage.register(id, "a")
    let first = try #require(try await stage.devices.leaseJobs(limit: 10, for: 30).first)
    try await stage.devices.finish(first, with: .badRequest)
    _ = try await stage.register(id, "b")
    try await stage.devices.finish(first)
    #expect(try await stage.device(id).state.pendingTokenID == TokenID(token: "b"))
    #expect(try await stage.devices.leaseJobs(limit: 10, for: 30).map(\.sealed) == ["sealed b"])
  }

  @Test func `What no device has any more goes at this program's own bouncer too`() async throws {
    let server = try await Store().server().server.id
    let stage = try await Stage(localServer: server)
    let (local, _) = try await stage.store.server()
    #expect(local.id == server)
    let realm = stage.user.realm.uuid
    try await stage.store.take([.sample(uuid: realm)], of: local)
    let remote = try #require(try await stage.store.realms.find(uuid: realm))
    func known() async throws -> Set<String> {
      let ids = ["a", "b", "c"].map { TokenID(token: $0) }
      return Set(
        try await stage.store.registrations.lookup(realm: remote.id, tokenIDs: ids).found.values.map(
          \.token.text))
    }
    for token in ["a", "b", "c"] {
      try await stage.store.registrations.register(
        try PushToken(token, kind: .fcm), iosAppID: nil, realm: remote.id, bouncerKey: "key")
    }
    var ids: [Int64] = []
    for token in ["a", "b", "a"] {
      let id = try await stage.devices.add(user: stage.user.id)
      _ = try await stage.register(id, token)
      ids.append(id)
    }
    // Another device has the same token.
    try await stage.devices.remove(ids[0], user: stage.user.id)
    #expect(try await known() == ["a", "b", "c"])
    try await stage.devices.remove(ids[2], user: stage.user.id)
    #expect(try await known() == ["b", "c"])
    // Its job is under way when the device goes: the bouncer has accepted, and forgets again.
    let job = try #require(try await stage.devices.leaseJobs(limit: 10, for: 30).first)
    try await stage.devices.remove(user: stage.user.id)
    #expect(try await known() == ["c"])
    try await stage.devices.finish(job)
    #expect(try await stage.accounts.find(stage.user.id) == nil)
  }

  @Test func `A push key is sealed at rest`() async throws {
    let id = try await stage.devices.add(user: stage.user.id)
    let key = PushKey.generate()
    _ = try await stage.register(id, "a", key: key)
    let rows = try await stage.store.rows("SELECT push_key FROM devices")
    guard case .bytes(let sealed)? = rows.first?.first else {
      Issue.record("no key")
      return
    }
    #expect(sealed.count == 33 + 44)
    key.withBytes { bytes in #expect(!sealed.contains(bytes)) }
    #expect(try await stage.device(id).pushKey == key)
  }

  @Test func `A queue that nobody asks for goes, one that is asked for stays`() async throws {
    _ = try await stage.devices.add(user: stage.user.id)
    let user = stage.user.id
    let asked = try await stage.devices.openQueue(user: user, followsDevices: true).id
    let silent = try await stage.devices.openQueue(user: user, followsDevices: true).id
    for _ in 0..<5 {
      stage.store.clock.advance(Devices.queueLifetime / 4)
      #expect(try await stage.devices.events(queue: asked, user: user, after: 0)?.count == 1)
    }
    #expect(try await stage.devices.events(queue: silent, user: user, after: 0) == nil)
    #expect(try await stage.devices.events(queue: asked, user: user + 1, after: 0) == nil)
    _ = try await stage.devices.removeOldEvents()
    #expect(try await stage.store.rows("SELECT COUNT(*) FROM event_queues") == [[.integer(1)]])
    stage.store.clock.advance(Devices.eventLifetime + 1)
    #expect(try await stage.devices.removeOldEvents() == 1)
    #expect(try await stage.store.rows("SELECT COUNT(*) FROM event_queues") == [[.integer(0)]])
  }

  @Test func `A client that does not follow devices hears nothing of them`() async throws {
    let queue = try await stage.devices.openQueue(user: stage.user.id, followsDevices: false).id
    _ = try await stage.devices.add(user: stage.user.id)
    #expect(try await stage.devices.events(queue: queue, user: stage.user.id, after: 0) == [])
  }
}
