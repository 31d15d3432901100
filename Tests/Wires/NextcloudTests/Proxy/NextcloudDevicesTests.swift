import Foundation
import Providers
import Registrations
import SQL
import Sealing
import TestStore
import TestSupport
import Testing

@testable import NextcloudProxy

@Suite struct NextcloudDevicesTests {
  private let store: Store
  private let devices: NextcloudDevices

  init() async throws {
    store = try await Store()
    devices = Self.makeDevices(store)
  }

  private func registration(
    _ identifier: UInt8, key: UInt8 = 1, token: String = "token", hash: UInt8 = 9,
    _ destination: NextcloudDevice.Destination = .init(kind: .fcm, app: "Talk for Android", target: nil)
  ) -> NextcloudDevice.Registration {
    .init(
      identifier: [UInt8](repeating: identifier, count: 64), userKey: [UInt8](repeating: key, count: 294),
      token: token, tokenHash: [UInt8](repeating: hash, count: 64), destination: destination)
  }

  private static func makeDevices(_ store: Store) -> NextcloudDevices {
    NextcloudDevices(database: store.database, storageKey: store.storageKey, now: { store.clock.now })
  }

  @Test func `What was registered is found, its token sealed`() async throws {
    let first = registration(
      1, token: "A1B2 C3D4", .init(kind: .apns, app: "Talk for iOS", target: "com.nextcloud.Talk"))
    let second = registration(2, token: "secret-token")
    for registration in [first, second] { try await devices.register(registration) }
    let found = try await devices.lookup([first.identifier, second.identifier, registration(3).identifier])
    #expect(found.count == 2)
    for registration in [first, second] {
      let device = try #require(found.first { $0.identifier == registration.identifier })
      #expect(device.userKey == registration.userKey)
      #expect(device.token == registration.token)
      #expect(device.tokenHash == registration.tokenHash)
      #expect(device.destination == registration.destination)
      #expect(device.reference.wire == .nextcloud)
      #expect(device.reference.registeredAt == Date(timeIntervalSince1970: 1_790_000_000.123))
      #expect(try await store.contents().range(of: Data(registration.token.utf8)) == nil)
    }
    #expect(try await devices.lookup([]).isEmpty)
  }

  private func keys() async throws -> [UInt8] {
    try await devices.lookup([registration(1).identifier]).compactMap(\.userKey.first).sorted()
  }

  /// Registers a key with a token of its own from a network, later than those before.
  private func register(_ key: UInt8, from network: Int64, address: Int64? = nil)
    async throws
  {
    store.clock.advance(1)
    try await devices.register(
      registration(1, key: key, token: "token \(key)", hash: key),
      of: .address(address ?? Int64(key), in: network))
  }

  private static let (phone, stranger, other): (Int64, Int64, Int64) = (100, 200, 300)

  private func use(_ keys: UInt8...) async throws {
    let found = try await devices.lookup([registration(1).identifier])
    for key in keys {
      let device = try #require(found.first { $0.userKey.first == key })
      try await devices.recordUse([.init(device: device, namesToken: true)])
    }
  }

  @Test func `Each key has a row of its own, and an address with many displaces nobody else's`() async throws
  {
    try await register(1, from: Self.phone)
    for key: UInt8 in 2...40 { try await register(key, from: Self.stranger) }
    #expect(try await keys() == [1] + Array(26...40))
    // To come back is to be younger.
    try await register(26, from: Self.stranger)
    try await register(41, from: Self.stranger)
    #expect(try await keys() == [1, 26] + Array(28...41))
    // Who comes last displaces one of the address that has most.
    try await register(42, from: Self.other)
    #expect(try await keys() == [1, 26] + Array(29...42))
    let first = try #require(
      try await devices.lookup([registration(1).identifier]).first { $0.userKey.first == 1 })
    #expect(first.token == "token 1")
  }

  @Test func `Of as many addresses as there are rows the oldest gives way, and a phone that moves stays`()
    async throws
  {
    try await register(1, from: Self.phone)
    for key: UInt8 in 2...16 { try await register(key, from: Int64(key)) }
    try await register(1, from: Self.other)
    try await register(17, from: 17)
    #expect(try await keys() == [1] + Array(3...17))
    // Several that are of one network now, wherever they came from first.
    try await register(3, from: Self.other)
    try await register(18, from: 18)
    #expect(try await keys() == Array(3...18))
  }

  @Test func `An address displaces its own before others of its network`() async throws {
    try await register(1, from: Self.phone, address: 1)
    for key: UInt8 in 2...15 { try await register(key, from: Self.stranger) }
    for key: UInt8 in 16...18 { try await register(key, from: Self.phone, address: 2) }
    #expect(try await keys() == Array(1...15) + [18])
  }

  @Test func `A row that was used stays whatever comes, and four at most have been`() async throws {
    try await register(1, from: Self.phone)
    try await use(1)
    for key: UInt8 in 2...5 {
      try await register(key, from: Self.stranger)
      try await use(key)
    }
    // The fifth is sent to, but is not safe.
    let used = try await store.rows("SELECT user_key FROM registrations WHERE is_used = 1").count
    #expect(used == 4)
    for key: UInt8 in 6...40 { try await register(key, from: Self.stranger) }
    #expect(try await keys() == Array(1...4) + Array(25...40))
    store.clock.advance(2 * 86_400)
    let last = try #require(
      try await devices.lookup([registration(1).identifier]).first { $0.userKey.first == 40 })
    try await devices.recordUse([.init(device: last, namesToken: true)])
    #expect(
      try await store.rows("SELECT is_used, seen_at FROM registrations WHERE id = \(last.id)")
        == [[.integer(0), .integer(store.clock.now.milliseconds)]])
  }

  @Test func `A new key with the same token takes the row, and nobody else's`() async throws {
    let other = registration(2, key: 1)
    for registration in [registration(1, key: 1), other] { try await devices.register(registration) }
    let old = try #require(try await devices.lookup([registration(1).identifier]).first)
    try await devices.recordUse([.init(device: old, namesToken: true)])
    store.clock.advance(1)
    try await devices.register(registration(1, key: 2))
    // The same row, so that what waits in the outbox for the phone goes to it; the key has yet to sign.
    let new = try #require(try await devices.lookup([registration(1).identifier]).first)
    #expect(new.id == old.id && new.userKey == registration(1, key: 2).userKey && !new.isUsed)
    #expect(try await store.registrations.living([old.reference.id]) == [old.reference.id])
    #expect(try await store.registrations.end([.init(old.reference, reason: "Unregistered")]).isEmpty)
    #expect(try await devices.lookup([other.identifier]).count == 1)
    // One of two rows of a phone that has a token again.
    try await devices.register(registration(1, key: 3, token: "next", hash: 8))
    try await devices.register(registration(1, key: 3))
    let last = try await devices.lookup([registration(1).identifier])
    #expect(last.map(\.userKey) == [registration(1, key: 3).userKey])
    #expect(last.first?.token == "token")
    #expect(try await devices.lookup([other.identifier]).count == 1)
  }

  @Test func `The id of a device that is gone is given to no other`() async throws {
    try await devices.register(registration(1))
    let gone = try #require(try await devices.lookup([registration(1).identifier]).first)
    #expect(try await devices.remove(identifier: gone.identifier, userKey: gone.userKey))
    try await devices.register(registration(2))
    #expect(try await store.registrations.living([gone.reference.id]).isEmpty)
  }

  @Test func `That a device is in use is written once a day`() async throws {
    try await devices.register(registration(1))
    func find() async throws -> NextcloudDevice {
      try #require(try await devices.lookup([registration(1).identifier]).first)
    }
    let start = store.clock.now
    for (days, seen) in [(0.0, 0.0), (0.9, 0), (1, 1), (1.5, 1), (2.5, 2.5)] {
      store.clock.advance(start.addingTimeInterval(days * 86_400).timeIntervalSince(store.clock.now))
      try await devices.recordUse([.init(device: try await find(), namesToken: true)])
      #expect(try await find().isUsed)
      #expect(abs(try await find().seenAt.timeIntervalSince(start) - seen * 86_400) < 1, "\(days)")
    }
  }

  @Test func `Since when another token is named is known, until a registration or the right token`()
    async throws
  {
    try await devices.register(registration(1))
    func note(_ namesToken: Bool) async throws {
      try await devices.recordUse([.init(device: try await find(), namesToken: namesToken)])
    }
    func find() async throws -> NextcloudDevice {
      try #require(try await devices.lookup([registration(1).identifier]).first)
    }
    #expect(try await find().tokenDiffersSince == nil)
    let first = store.clock.now
    for _ in 0..<3 {
      try await note(false)
      #expect(try await find().tokenDiffersSince == first)
      store.clock.advance(1000)
    }
    try await note(true)
    #expect(try await find().tokenDiffersSince == nil)
    try await note(false)
    let before = try await find()
    #expect(before.tokenDiffersSince == store.clock.now)
    store.clock.advance(1)
    for hash: UInt8 in [9, 8] {
      try await devices.register(registration(1, hash: hash))
      #expect(try await find().tokenDiffersSince == nil)
      // What was read before the registration says nothing about it.
      try await devices.recordUse([.init(device: before, namesToken: false)])
      #expect(try await find().tokenDiffersSince == nil)
    }
  }

  @Test func `What nobody uses goes, a bounded number at a time`() async throws {
    for number: UInt8 in 1...5 { try await devices.register(registration(number)) }
    let used = try #require(try await devices.lookup([registration(1).identifier]).first)
    store.clock.advance(200 * 86_400)
    try await devices.recordUse([.init(device: used, namesToken: true)])
    try await devices.register(registration(2))
    let limit = store.clock.now - 100 * 86_400
    func remove() async throws -> Int {
      try await devices.removeUnused(since: limit, neverUsedSince: limit, limit: 2)
    }
    #expect(try await remove() == 2)
    #expect(try await remove() == 1)
    #expect(try await remove() == 0)
    #expect(
      Set(try await store.rows("SELECT device_identifier FROM registrations WHERE wire = 3"))
        == [[.bytes(registration(1).identifier)], [.bytes(registration(2).identifier)]])
  }

  @Test func `What was never used goes sooner, unless it is renewed`() async throws {
    for number: UInt8 in 1...3 { try await devices.register(registration(number)) }
    let used = try #require(try await devices.lookup([registration(1).identifier]).first)
    try await devices.recordUse([.init(device: used, namesToken: true)])
    store.clock.advance(20 * 86_400)
    try await devices.register(registration(2))
    store.clock.advance(20 * 86_400)
    let now = store.clock.now
    func remove() async throws -> Int {
      try await devices.removeUnused(
        since: now - 400 * 86_400, neverUsedSince: now - RegistrationRoom.trial, limit: 10)
    }
    #expect(try await remove() == 1)
    #expect(try await remove() == 0)
    #expect(
      Set(try await store.rows("SELECT device_identifier FROM registrations WHERE wire = 3"))
        == [[.bytes(registration(1).identifier)], [.bytes(registration(2).identifier)]])
  }

  @Test func `Registering again renews the row and clears its failure`() async throws {
    try await devices.register(registration(1))
    let before = try #require(try await devices.lookup([registration(1).identifier]).first)
    try await store.registrations.recordFailures([.init(before.reference, reason: "TooBig")])
    #expect(try await store.rows("SELECT failure FROM registrations WHERE wire = 3") == [[.text("TooBig")]])
    store.clock.advance(60)
    let renewed = registration(1, token: "new", hash: 8, .init(kind: .pushKit, app: "Talk", target: "t"))
    try await devices.register(renewed)
    let after = try #require(try await devices.lookup([renewed.identifier]).first)
    #expect(after.id == before.id && after.token == "new" && after.tokenHash == renewed.tokenHash)
    #expect(after.destination == renewed.destination)
    #expect(after.reference.registeredAt == before.reference.registeredAt + 60)
    #expect(
      try await store.rows("SELECT failure, failed_at FROM registrations WHERE wire = 3") == [[.null, .null]])
    // A provider's word about what was there before ends nothing any more.
    #expect(try await store.registrations.end([.init(before.reference, reason: "Unregistered")]).isEmpty)
    #expect(
      try await store.registrations.end([.init(after.reference, reason: "Unregistered")]) == [after.reference]
    )
    #expect(try await devices.lookup([renewed.identifier]).isEmpty)
  }

  @Test func `Only the owner removes a device`() async throws {
    let mine = registration(1)
    try await devices.register(mine)
    #expect(
      !(try await devices.remove(identifier: mine.identifier, userKey: registration(1, key: 2).userKey)))
    #expect(!(try await devices.remove(identifier: registration(2).identifier, userKey: mine.userKey)))
    #expect(try await devices.remove(identifier: mine.identifier, userKey: mine.userKey))
    #expect(!(try await devices.remove(identifier: mine.identifier, userKey: mine.userKey)))
  }

  @Test func `A damaged token is no token, and spoils no other device`() async throws {
    for number: UInt8 in [1, 2] { try await devices.register(registration(number)) }
    _ = try await store.database.execute(
      Statement(
        "UPDATE registrations SET token = $1 WHERE device_identifier = $2", .bytes([1, 2, 3]),
        .bytes(registration(1).identifier)))
    let found = try await devices.lookup([registration(1).identifier, registration(2).identifier])
    #expect(Set(found.map(\.token)) == [nil, "token"])
  }

  @Test func `More identifiers than a statement can have are looked up all the same`() async throws {
    try await devices.register(registration(1))
    let others = (0..<20_000).map { number in
      [UInt8(truncatingIfNeeded: number), UInt8(truncatingIfNeeded: number >> 8)]
        + [UInt8](repeating: 0, count: 62)
    }
    #expect(try await devices.lookup(others + [registration(1).identifier]).count == 1)
  }

  @Test func `Apps are counted with the reasons why they fail`() async throws {
    #expect(try await devices.counts().isEmpty)
    for number: UInt8 in 1...3 { try await devices.register(registration(number)) }
    let apns = NextcloudDevice.Destination(kind: .apns, app: "Files for iOS", target: "it.twsweb.Nextcloud")
    try await devices.register(registration(4, apns))
    // One of Zulip's is no device of an app.
    let server = try await store.server().server
    try await store.registrations.register(
      PushToken("zulip", kind: .fcm), iosAppID: nil, for: try #require(LegacyUser(id: 1, uuid: nil)),
      server: server.id, realm: nil)
    let failing = try await devices.lookup([registration(1).identifier, registration(2).identifier])
    try await store.registrations.recordFailures(failing.map { .init($0.reference, reason: "unconfigured") })
    let counts = try await devices.counts()
    #expect(counts.map(\.app) == ["Files for iOS", "Talk for Android"])
    #expect(counts.map(\.kind) == [.apns, .fcm])
    #expect(counts.map(\.devices) == [1, 3])
    #expect(counts.map(\.failures) == [[:], ["unconfigured": 2]])
    // What was delivered since then shows that it works again.
    try await store.database.execute(
      "UPDATE registrations SET delivered_at = failed_at + 1 WHERE id = $1", .integer(failing[0].reference.id)
    )
    #expect(try await devices.counts().map(\.failures) == [[:], ["unconfigured": 1]])
    #expect(NextcloudDevice.Destination.Kind.allCases.map(\.name) == ["apns", "fcm", "pushkit"])
  }

  @Test func `A store has an id of its own and keeps it`() async throws {
    let first = try await store.database.storeState()
    #expect(first.id.count == 16 && first.devices == 0)
    try await devices.register(registration(1))
    let second = try await store.database.storeState()
    #expect(second.id == first.id && second.devices == 1)
    let other = try await Store()
    #expect(try await other.database.storeState().id != first.id)
  }
}
