import Foundation
import Registrations
import SQL
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import HTTPClient
@testable import Operator
@testable import Platform

extension StorageKeyRotationTests {
  /// A value that several tasks look at.
  final class Shared<Content: Sendable>: Sendable {
    private let content: Mutex<Content>
    init(_ content: Content) { self.content = Mutex(content) }
    var value: Content {
      get { content.withLock { $0 } }
      set { content.withLock { $0 = newValue } }
    }
  }

  /// A database with a key folder, as one process after the other finds them.
  final class Stage: Sendable {
    let test: TestDatabase
    let folder: URL
    let server: RemoteServer
    let serverKey: String
    let realm: Int64
    /// Seconds by which the leases' clock is ahead.
    let ahead = Mutex<TimeInterval>(0)

    var database: any Database { test.database }

    init(_ folder: URL) async throws {
      self.folder = folder
      test = try await TestDatabase()
      let key = try KeyFolder.storageKey(in: folder.path)
      try await StorageSeal.verify(key, of: test.database)
      let servers = RemoteServers(database: test.database, storageKey: key, now: { Date() })
      (server, serverKey) = try await servers.add(
        hostname: try Hostname("chat.example.org"), contactEmail: "admin@example.org")
      let uuid = UUID()
      let list = [
        RealmDescription(
          realmID: 2, uuid: uuid, ownerSecret: "secret", host: "chat.example.org", name: "Example",
          orgType: 10, dateCreated: Date(timeIntervalSince1970: 1_600_000_000), isDeactivated: false,
          isSystemBotRealm: false, authenticationMethods: "{}")
      ]
      let sync = RealmSync(storageKey: key, now: { Date() })
      _ = try await test.database.write { [server] in try sync.apply(list, server: server.id, on: $0) }
      realm = try #require(try await RemoteRealms(database: test.database).find(uuid: uuid)).id
    }

    static func run(_ body: (Stage) async throws -> Void) async throws {
      try await withTemporaryFolder { folder in
        let stage = try await Stage(folder)
        try await body(stage)
        await stage.database.close()
      }
    }

    /// The key as a process finds it that starts now.
    func key() async throws -> StorageKey {
      let key = try KeyFolder.storageKey(in: folder.path)
      try await StorageSeal.verify(key, of: database)
      return key
    }

    func registrations(_ key: StorageKey) -> RegistrationStore {
      RegistrationStore(database: database, storageKey: key, now: { Date() })
    }

    func register(_ names: Range<Int>, _ key: StorageKey) async throws {
      for name in names {
        try await registrations(key).register(
          try PushToken("token \(name)", kind: .fcm), iosAppID: nil, realm: realm, bouncerKey: "key")
      }
    }

    func found(_ names: Range<Int>, _ key: StorageKey) async throws -> Int {
      let ids = try names.map { try PushToken("token \($0)", kind: .fcm).id }
      return try await registrations(key).lookup(realm: realm, tokenIDs: ids).found.count
    }

    func rotation(
      _ key: StorageKey? = nil, silence: Duration = .seconds(600), writes: Duration = .milliseconds(100),
      _ report: @escaping @Sendable (String) -> Void = { _ in }
    ) async throws -> StorageKeyRotation {
      let key = if let key { key } else { try await self.key() }
      let now = Date() + ahead.withLock { $0 }
      return StorageKeyRotation(
        directory: folder.path, database: database, storageKey: key,
        lease: MaintenanceLease("rotate-storage", database: database, now: { now }), silence: silence,
        writes: writes, report: report)
    }

    func text() throws -> String {
      try String(contentsOf: folder.appending(path: "storage.key"), encoding: .utf8)
    }

    /// That everything opens with what the file holds now, that nothing does with what it held, and that the hashes are
    /// what they were.
    func expectChanged(from old: String, _ names: Range<Int>) async throws {
      let key = try await key()
      #expect(key.ids.count == 1)
      #expect(try await found(names, key) == names.count)
      #expect(try #require(StorageKeyFile(try text())).ids != (try #require(StorageKeyFile(old))).ids)
      let formerly = StorageKey(try #require(StorageKeyFile(old)))
      #expect(try await found(names, formerly) == 0)
      #expect(try await StorageSeal.matches(formerly, in: database) == false)
      await #expect(throws: StorageSeal.WrongKey.self) {
        try await StorageSeal.verify(formerly, of: database)
      }
      let servers = RemoteServers(database: database, storageKey: key, now: { Date() })
      guard case .authenticated = try await servers.authenticate(uuid: server.uuid, key: serverKey) else {
        Issue.record("the server's key is no longer known")
        return
      }
      #expect(try await Resealing(database: database, storageKey: key).isComplete)
      #expect(PrivateFile.isExposed(folder.appending(path: "storage.key").path) == false)
    }
  }
}
