import Foundation
import Registrations
import SQL
import Testing

@Suite struct NextcloudDevicesTests {
  private func registration(
    _ identifier: UInt8, key: UInt8 = 1, token: String = "token", hash: UInt8 = 9,
    _ destination: NextcloudDevice.Destination = .init(.fcm, app: "Talk for Android", target: nil)
  ) -> NextcloudDevice.Registration {
    .init(
      identifier: [UInt8](repeating: identifier, count: 64), userKey: [UInt8](repeating: key, count: 294),
      token: token, tokenHash: [UInt8](repeating: hash, count: 64), destination: destination)
  }

  private func devices(_ store: Store) -> NextcloudDevices {
    NextcloudDevices(database: store.database, storageKey: store.storageKey, now: { store.clock.now })
  }

  @Test func `What was registered is found, its token sealed`() async throws {
    let store = try await Store()
    let devices = devices(store)
    let first = registration(
      1, token: "A1B2 C3D4", .init(.apns, app: "Talk for iOS", target: "com.nextcloud.Talk"))
    let second = registration(2, token: "secret-token")
    for registration in [first, second] { #expect(try await devices.register(registration)) }
    let found = try await devices.lookup([first.identifier, second.identifier, registration(3).identifier])
    #expect(found.count == 2)
    for registration in [first, second] {
      let device = try #require(found.first { $0.identifier == registration.identifier })
      #expect(device.userKey == registration.userKey)
      #expect(device.token == registration.token)
      #expect(device.tokenHash == registration.tokenHash)
      #expect(device.destination == registration.destination)
      #expect(device.registeredAt == Date(timeIntervalSince1970: 1_790_000_000.123))
      #expect(device.reference == .init(.nextcloud, id: device.id, registeredAt: device.registeredAt))
      #expect(try await store.contents().range(of: Data(registration.token.utf8)) == nil)
    }
    #expect(try await devices.lookup([]).isEmpty)
  }

  @Test func `An identifier belongs to the first key, unless another is proven`() async throws {
    let store = try await Store()
    let devices = devices(store)
    #expect(try await devices.register(registration(1, key: 1, token: "first")))
    #expect(!(try await devices.register(registration(1, key: 2, token: "second"))))
    #expect(try await devices.lookup([registration(1).identifier]).first?.token == "first")
    #expect(try await devices.register(registration(1, key: 2, token: "second"), isProven: true))
    #expect(try await devices.lookup([registration(1).identifier]).first?.token == "second")
    #expect(!(try await devices.register(registration(1, key: 1, token: "first"))))
    #expect(try await store.rows("SELECT COUNT(*) FROM nextcloud_devices") == [[.integer(1)]])
  }

  @Test func `Registering again renews the row and clears its failure`() async throws {
    let store = try await Store()
    let devices = devices(store)
    #expect(try await devices.register(registration(1)))
    let before = try #require(try await devices.lookup([registration(1).identifier]).first)
    try await store.book.note([.init(before.reference, reason: "TooBig")])
    #expect(try await store.rows("SELECT failure FROM nextcloud_devices") == [[.text("TooBig")]])
    store.clock.advance(60)
    let renewed = registration(1, token: "new", hash: 8, .init(.pushKit, app: "Talk", target: "t"))
    #expect(try await devices.register(renewed))
    let after = try #require(try await devices.lookup([renewed.identifier]).first)
    #expect(after.id == before.id && after.token == "new" && after.tokenHash == renewed.tokenHash)
    #expect(after.destination == renewed.destination)
    #expect(after.registeredAt == before.registeredAt + 60)
    #expect(try await store.rows("SELECT failure, failed_at FROM nextcloud_devices") == [[.null, .null]])
    // A provider's word about what was there before ends nothing any more.
    #expect(try await store.book.end([.init(before.reference, reason: "Unregistered")]).isEmpty)
    #expect(try await store.book.end([.init(after.reference, reason: "Unregistered")]) == [after.reference])
    #expect(try await devices.lookup([renewed.identifier]).isEmpty)
  }

  @Test func `Only the owner removes a device`() async throws {
    let store = try await Store()
    let devices = devices(store)
    let mine = registration(1)
    #expect(try await devices.register(mine))
    #expect(
      !(try await devices.remove(identifier: mine.identifier, userKey: registration(1, key: 2).userKey)))
    #expect(!(try await devices.remove(identifier: registration(2).identifier, userKey: mine.userKey)))
    #expect(try await devices.remove(identifier: mine.identifier, userKey: mine.userKey))
    #expect(!(try await devices.remove(identifier: mine.identifier, userKey: mine.userKey)))
  }

  @Test func `A damaged token is no token, and spoils no other device`() async throws {
    let store = try await Store()
    let devices = devices(store)
    for number: UInt8 in [1, 2] { #expect(try await devices.register(registration(number))) }
    _ = try await store.database.execute(
      Statement(
        "UPDATE nextcloud_devices SET token = $1 WHERE device_identifier = $2", .bytes([1, 2, 3]),
        .bytes(registration(1).identifier)))
    let found = try await devices.lookup([registration(1).identifier, registration(2).identifier])
    #expect(Set(found.map(\.token)) == [nil, "token"])
  }

  @Test func `More identifiers than a statement can have are looked up all the same`() async throws {
    let store = try await Store()
    let devices = devices(store)
    #expect(try await devices.register(registration(1)))
    let others = (0..<20_000).map { number in
      [UInt8(truncatingIfNeeded: number), UInt8(truncatingIfNeeded: number >> 8)]
        + [UInt8](repeating: 0, count: 62)
    }
    #expect(try await devices.lookup(others + [registration(1).identifier]).count == 1)
  }

  @Test func `Apps are counted with the reasons why they fail`() async throws {
    let store = try await Store()
    let devices = devices(store)
    #expect(try await devices.counts().isEmpty)
    for number: UInt8 in 1...3 { #expect(try await devices.register(registration(number))) }
    let apns = NextcloudDevice.Destination(.apns, app: "Files for iOS", target: "it.twsweb.Nextcloud")
    #expect(try await devices.register(registration(4, apns)))
    let failing = try await devices.lookup([registration(1).identifier, registration(2).identifier])
    try await store.book.note(failing.map { .init($0.reference, reason: "unconfigured") })
    let counts = try await devices.counts()
    #expect(counts.map(\.app) == ["Files for iOS", "Talk for Android"])
    #expect(counts.map(\.kind) == [.apns, .fcm])
    #expect(counts.map(\.devices) == [1, 3])
    #expect(counts.map(\.failures) == [[:], ["unconfigured": 2]])
  }

  @Test func `A store has an id of its own and keeps it`() async throws {
    let store = try await Store()
    let devices = devices(store)
    let first = try await devices.storeState()
    #expect(first.id.count == 16 && first.devices == 0)
    #expect(try await devices.register(registration(1)))
    #expect(try await devices.storeState() == .init(id: first.id, devices: 1))
    let other = try await Store()
    #expect(try await self.devices(other).storeState().id != first.id)
  }
}
