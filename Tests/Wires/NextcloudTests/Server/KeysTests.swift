import Foundation
import HTTP
import Registrations
import SQL
import Sealing
import Server
import TestDatabase
import TestService
import TestSupport
import Testing
import ZulipServer

@testable import NextcloudServer

/// `Documentation/Protocols/Nextcloud.md` 5.3, `Documentation/Decisions` 0015.
@Suite(.instance) struct KeysTests {
  private let instance = Fixture<Instance>.current

  @Test func `fifty first uses on two nodes make one key pair`() async throws {
    let app = try await instance.user()
    let other = NextcloudKeys(
      database: instance.database, storageKey: instance.storageKey, now: { Date() })
    let keys = try await withThrowingTaskGroup(of: RSAPublicKey.self) { group in
      for number in 0..<50 {
        group.addTask { try await (number % 2 == 0 ? instance.keys : other).key(of: app.user.id).publicKey }
      }
      return try await group.reduce(into: Set<RSAPublicKey>()) { $0.insert($1) }
    }
    #expect(keys.count == 1)
    #expect(try await instance.keys.publicKey(of: app.user.id, making: true) == keys.first?.pem)
  }

  @Test func `the private half is kept sealed, and goes with its user`() async throws {
    let app = try await instance.user()
    let key = try await instance.keys.key(of: app.user.id)
    let contents = try await instance.test.contents()
    #expect(contents.range(of: Data("PUBLIC KEY".utf8)) != nil)
    #expect(contents.range(of: Data("PRIVATE KEY".utf8)) == nil)
    #expect(key.publicKey.bits == 2048)
    try await instance.test.service.store.devices().remove(user: app.user.id)
    await #expect(throws: DatabaseError.self) { try await instance.keys.key(of: app.user.id) }
  }

  @Test func `a key that does not open is an error and is not replaced`() async throws {
    let app = try await instance.user()
    let pem = try await instance.keys.publicKey(of: app.user.id, making: true)
    let wrong = NextcloudKeys(
      database: instance.database, storageKey: StorageKey(bytes: [UInt8](repeating: 6, count: 32)),
      now: { Date() })
    await #expect(throws: DatabaseError.self) { try await wrong.key(of: app.user.id) }
    #expect(try await instance.keys.publicKey(of: app.user.id, making: true) == pem)
  }

  @Test func `of notifications the newest are kept, so long`() async throws {
    let app = try await instance.user()
    let notifications = instance.notifications
    for nid in Int64(1)...1002 {
      instance.clock.advance(0.001)
      try await notifications.keep(
        .init(nid: nid, app: "app\(nid)", subject: "Hello", type: "chat", id: "room"), user: app.user.id)
    }
    #expect(
      try await notifications.apps(of: [1, 2, 3, 1002, 5000], user: app.user.id)
        == [3: "app3", 1002: "app1002"])
    let sentAt = instance.clock.now
    #expect(try await notifications.removeOld(before: sentAt, limit: 600) == 600)
    #expect(try await notifications.removeOld(before: sentAt, limit: 600) == 399)
    #expect(try await notifications.apps(of: [1001, 1002], user: app.user.id) == [1002: "app1002"])
    #expect(try await notifications.removeOld(before: sentAt + 0.001, limit: 600) == 1)
    #expect(try await notifications.hasAny(user: app.user.id) == false)
  }
}
