package import Accounts
package import Delivery
package import Foundation
import Logging
import Migrations
import NextcloudProxy
import NextcloudServer
package import Operations
package import Registrations
package import SQL
package import Sealing
import Storage
package import ZulipServer

/// The database with the key that its secrets are sealed under: what commands and service share.
package struct Store {
  package let database: any Database
  package let storageKey: StorageKey
  package let now: @Sendable () -> Date
  /// Whether anything may be taken as expired now: not while the clock is doubted.
  let mayExpire: @Sendable () -> Bool
  /// Follows changes of the key in the folder and in the database, as long as it runs.
  let follower: StorageKeyFollower

  /// Opens and migrates the database, and checks that it was sealed with this key.
  static func open(
    _ configuration: Configuration, storageKey: StorageKey, now: @escaping @Sendable () -> Date = { Date() },
    mayExpire: @escaping @Sendable () -> Bool = { true }, sqlite options: SQLiteDatabase.Options = .init(),
    observer: DatabaseObserver? = nil, logger: Logger? = nil
  ) async throws -> Store {
    let database = PatientDatabase(
      try await openDatabase(url: configuration.database.url, sqlite: options, observer: observer))
    try await Schema.migrate(database)
    try await StorageSeal.verify(storageKey, of: database)
    let follower = StorageKeyFollower(
      directory: configuration.keys.directory, database: database, storageKey: storageKey, logger: logger)
    try await follower.begin()
    let store = Store(
      database: database, storageKey: storageKey, now: now, mayExpire: mayExpire, follower: follower)
    try await store.servers.canonicalizeHostnames()
    return store
  }

  /// Opens it for one command and closes it afterwards.
  package static func with<Result>(
    _ configuration: Configuration, sqlite options: SQLiteDatabase.Options = .init(),
    _ body: (Store) async throws -> Result
  ) async throws -> Result {
    let store = try await open(
      configuration, storageKey: try KeyFolder.storageKey(in: configuration.keys.directory), sqlite: options)
    do {
      let result = try await following(store, body)
      await store.database.close()
      return result
    } catch {
      await store.database.close()
      throw error
    }
  }

  private static func following<Result>(
    _ store: Store, _ body: (Store) async throws -> Result
  ) async throws -> Result {
    // Ends with the scope, which waits for it.
    async let _ = store.follower.run()
    return try await body(store)
  }

  package var servers: RemoteServers { RemoteServers(database: database, storageKey: storageKey, now: now) }
  package var accounts: AccountStore { AccountStore(database: database, storageKey: storageKey, now: now) }
  package var realms: RemoteRealms { RemoteRealms(database: database) }
  package var registrations: E2EERegistrations {
    E2EERegistrations(database: database, storageKey: storageKey, now: now)
  }

  var legacy: LegacyRegistrations {
    LegacyRegistrations(database: database, storageKey: storageKey, now: now) { [storageKey] in
      try Outbox.handOver(from: $0, to: $1, sealedUnder: storageKey, on: $2)
    }
  }
  var nextcloudNotifications: NextcloudNotifications {
    NextcloudNotifications(database: database, storageKey: storageKey, now: now)
  }
  package var hourlyCounts: HourlyCounts { HourlyCounts(database: database, now: now) }
  var nextcloudLoginFlows: NextcloudLoginFlows { NextcloudLoginFlows(accounts: accounts) }
  var nextcloudDevices: NextcloudDevices {
    NextcloudDevices(database: database, storageKey: storageKey, now: now)
  }
  package var recorder: OutcomeRecorder {
    OutcomeRecorder(database: database, now: now, mayExpire: mayExpire)
  }

  /// The devices of users, for a command; a running service is not told of what it changes.
  package func devices() async throws -> Devices {
    let server = try await servers.find(hostname: RemoteServers.builtInHostname)?.id
    return Devices(database: database, storageKey: storageKey, localServer: server, now: now) { _ in }
  }
}
