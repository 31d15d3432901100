import Foundation
import Providers
import Registrations
import SQL
import Sealing
import TestDatabase
import TestSupport
import Testing

@testable import Basics
@testable import HTTPClient
@testable import Operator
@testable import Platform

extension StorageKeyRotationTests {
  /// A database with a key folder, as one process after the other finds them.
  final class Stage: Sendable {
    let test: TestDatabase
    let folder: URL
    let server: RemoteServer
    let serverKey: String
    let realm: Int64

    var database: any Database { test.database }

    init(_ folder: URL, _ engine: DatabaseEngine) async throws {
      self.folder = folder
      test = try await TestDatabase(engine)
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

    static func run(_ engine: DatabaseEngine, _ body: (Stage) async throws -> Void) async throws {
      try await withTemporaryFolder { folder in
        let stage = try await Stage(folder, engine)
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

    /// - Parameter silence: none where nobody else lives: what is in the list has been killed.
    func rotate(
      on database: (any Database)? = nil, timeout: Duration = .zero, silence: Duration = .zero,
      _ report: @escaping @Sendable (String) -> Void = { _ in }
    ) async throws -> Resealing.Count {
      try await StorageKeyRotation(
        directory: folder.path, database: database ?? self.database, timeout: timeout, silence: silence,
        report: report
      ).run()
    }

    func text() throws -> String {
      try String(contentsOf: folder.appending(path: "storage.key"), encoding: .utf8)
    }

    /// That everything opens with what the file holds now, that nothing does with what it held, and that the hashes are
    /// what they were.
    func expectChanged(from old: String, _ names: Range<Int>) async throws {
      let key = try await key()
      #expect(try await found(names, key) == names.count)
      let formerly = StorageKey(try #require(StorageKeyFile(old)))
      #expect(key.id != formerly.id && key.fingerprint == formerly.fingerprint)
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
      #expect(try await StorageSeal.nextID(of: database) == nil)
      #expect(try await Nodes(database: database).all().isEmpty)
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["storage.key"])
      #expect(PrivateFile.isExposed(folder.appending(path: "storage.key").path) == false)
    }
  }
}
