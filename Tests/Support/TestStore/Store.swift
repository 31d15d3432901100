import Basics
package import Foundation
import HTTPClient
package import Registrations
package import SQL
package import Sealing
import Synchronization
import TestDatabase
package import TestSupport

/// A database of a test's own with the stores on it, and a clock that the test sets.
package final class Store: Sendable {
  package let database: any Database
  package let storageKey: StorageKey
  package let clock = TestClock(Date(timeIntervalSince1970: 1_790_000_000.123))
  package let servers: RemoteServers
  package let realms: RemoteRealms
  package let registrations: RegistrationStore
  private let test: TestDatabase

  package init(storageKey: StorageKey = StorageKey(bytes: [UInt8](repeating: 7, count: 32))) async throws {
    test = try await TestDatabase()
    database = test.database
    self.storageKey = storageKey
    let now: @Sendable () -> Date = { [clock] in clock.now }
    servers = RemoteServers(database: database, storageKey: storageKey, now: now)
    realms = RemoteRealms(database: database)
    registrations = RegistrationStore(database: database, storageKey: storageKey, now: now)
  }

  /// The rows of a query.
  package func rows(_ sql: String) async throws -> [[Value]] {
    try await database.read { try $0.query(Statement(sql)).map(\.values) }
  }

  /// Everything in the database as it is kept.
  package func contents() async throws -> Data { try await test.contents() }

  /// A server of this hostname and its key.
  package func server(_ hostname: String = "chat.example.org") async throws -> (
    server: RemoteServer, key: String
  ) {
    try await servers.add(hostname: try Hostname(hostname), contactEmail: "admin@example.org")
  }

  /// Stores a server's list of its realms.
  @discardableResult
  package func take(_ realms: [RealmDescription], of server: RemoteServer) async throws
    -> [RealmSync.Takeover]
  {
    let sync = RealmSync(storageKey: storageKey, now: { [clock] in clock.now })
    return try await database.write { try sync.apply(realms, server: server.id, on: $0) }
  }

  /// A realm of this server.
  package func realm(of server: RemoteServer, uuid: UUID = UUID()) async throws -> RemoteRealm {
    try await take([.sample(uuid: uuid)], of: server)
    guard let realm = try await realms.find(uuid: uuid) else { throw CocoaError(.fileNoSuchFile) }
    return realm
  }
}

extension RealmDescription {
  package static func sample(uuid: UUID = UUID()) -> RealmDescription {
    RealmDescription(
      realmID: 2, uuid: uuid, ownerSecret: "zuliprealm_secret", host: "chat.example.org", name: "Example",
      orgType: 10,
      dateCreated: Date(timeIntervalSince1970: 1_600_000_000), isDeactivated: false, isSystemBotRealm: false,
      authenticationMethods: #"{"Email":true}"#)
  }
}
