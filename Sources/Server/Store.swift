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

  /// Opens and migrates the database, and checks that it was sealed with the key in the folder.
  ///
  /// - Parameter making: whether a database or a key that is not there is made; else it is an error.
  static func open(
    _ configuration: Configuration, making: Bool, now: @escaping @Sendable () -> Date = { Date() },
    mayExpire: @escaping @Sendable () -> Bool = { true }, sqlite options: SQLiteDatabase.Options = .init(),
    observer: DatabaseObserver? = nil, logger: Logger? = nil
  ) async throws -> Store {
    let url = configuration.database.url
    if !making, let path = url.sqlitePath, !FileManager.default.fileExists(atPath: path) {
      throw Absence.database("there is no database \(url)")
    }
    let database: PatientDatabase
    do {
      database = PatientDatabase(try await openDatabase(url: url, sqlite: options, observer: observer))
    } catch let error as DatabaseError {
      throw Fault(error, of: url)
    }
    return try await closing(database, onlyOnError: true) {
      do {
        if !making, try await Migrator.version(of: database) == 0 {
          throw Absence.database("\(url) holds no database of push-bouncer")
        }
        try await Schema.migrate(database)
      } catch let error as DatabaseError {
        throw Fault(error, of: url)
      }
      let storageKey = try await storageKey(configuration, of: database, making: making)
      try await StorageSeal.verify(storageKey, of: database)
      let follower = StorageKeyFollower(
        directory: configuration.keys.directory, database: database, storageKey: storageKey, logger: logger)
      try await follower.begin()
      let store = Store(
        database: database, storageKey: storageKey, now: now, mayExpire: mayExpire, follower: follower)
      try await store.servers.canonicalizeHostnames()
      return store
    }
  }

  /// Closes a database after `body`, however that ends.
  private static func closing<Result>(
    _ database: any Database, onlyOnError: Bool = false, _ body: () async throws -> Result
  ) async throws -> Result {
    do {
      let result = try await body()
      if !onlyOnError { await database.close() }
      return result
    } catch {
      await database.close()
      throw error
    }
  }

  /// The key in the folder. A new one is never made beside a database that was sealed with another.
  private static func storageKey(
    _ configuration: Configuration, of database: any Database, making: Bool
  ) async throws -> StorageKey {
    // Asked before the file is looked for: where several start at once, one has sealed it with the key that it made.
    let isSealed = try await StorageSeal.sealingID(of: database) != nil
    let directory = configuration.keys.directory
    if let key = try KeyFolder.existingStorageKey(in: directory) { return key }
    guard !isSealed else {
      throw Absence(fault: Fault(missingStorageKeyOf: configuration.database.url, in: directory))
    }
    guard making else {
      throw Absence(
        fault: Fault(
          source: "\(directory)/storage.key", "is missing", advice: "push-bouncer init or serve makes it"))
    }
    return try KeyFolder.storageKey(in: directory)
  }

  /// What is not there and is not to be made: told together with where it was looked for.
  package struct Absence: Readable {
    let fault: Fault

    /// What is missing and what to do.
    package var description: String { "\(fault)" }

    static func database(_ problem: String) -> Absence {
      Absence(
        fault: Fault(
          problem,
          advice: "run this where the service runs, or name its configuration with --config; "
            + "push-bouncer init or serve makes a new one"))
    }
  }

  /// Opens it for one command and closes it afterwards.
  ///
  /// - Parameter making: whether a database or a key that is not there is made; else it is an error.
  package static func with<Result>(
    _ configuration: Configuration, making: Bool = false, sqlite options: SQLiteDatabase.Options = .init(),
    _ body: (Store) async throws -> Result
  ) async throws -> Result {
    let store = try await open(configuration, making: making, sqlite: options)
    return try await closing(store.database) {
      // Ends with the scope, which waits for it.
      async let _ = store.follower.run()
      return try await body(store)
    }
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
  package var outbox: OutboxContents { OutboxContents(database: database) }
  package var recorder: OutcomeRecorder {
    OutcomeRecorder(database: database, now: now, mayExpire: mayExpire)
  }

  /// The devices of users, for a command; a running service is not told of what it changes.
  package func devices() async throws -> Devices {
    let server = try await servers.find(hostname: RemoteServers.builtInHostname)?.id
    return Devices(database: database, storageKey: storageKey, localServer: server, now: now) { _ in }
  }
}
