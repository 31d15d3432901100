import Basics
package import Delivery
package import Foundation
import HTTP
import Logging
import Migrations
package import Operator
import Platform
import Providers
package import Registrations
package import SQL
package import Sealing
package import ZulipBouncer
package import ZulipServer

/// The database and its storage key, shared by commands and the service.
package struct Store {
  package let database: any Database
  package let storageKey: StorageKey
  package let now: @Sendable () -> Date
  /// Whether anything may expire now: false while the clock is doubted.
  let isClockTrusted: @Sendable () -> Bool
  package let upstreamLinks: UpstreamLinks
  /// The processes that use the database, this one among them.
  let nodes: Nodes

  /// Opens and migrates the database, checks that it was sealed with the folder's key, and adds this process to
  /// its nodes.
  ///
  /// - Parameters:
  ///   - migrations: those of this program, or of a made-up one, for tests.
  ///   - making: whether to create a missing database or key; otherwise a missing one is an error.
  static func open(
    _ configuration: Configuration, migrations: (DatabaseEngine) -> [Migration] = Schema.migrations,
    making: Bool, now: @escaping @Sendable () -> Date = { Date() },
    isClockTrusted: @escaping @Sendable () -> Bool = { true },
    sqlite options: SQLiteDatabase.Options = .init(),
    observer: DatabaseObserver? = nil, logger: Logger? = nil
  ) async throws -> Store {
    let url = configuration.database.url
    let database = try await openMigrated(
      url, migrations: migrations, making: making, sqlite: options, observer: observer, logger: logger)
    return try await closing(database, onlyOnError: true) {
      let storageKey = try await storageKey(configuration, of: database, making: making)
      let nodes = Nodes(database: database, schema: migrations(database.engine).count, now: now)
      do { try await nodes.join(storageKey) } catch let error as DatabaseError { throw Fault(error, of: url) }
      return Store(
        database: database, storageKey: storageKey, now: now, isClockTrusted: isClockTrusted,
        upstreamLinks: UpstreamLinks(database: database, storageKey: storageKey, now: now), nodes: nodes)
    }
  }

  private static func openMigrated(
    _ url: DatabaseURL, migrations: (DatabaseEngine) -> [Migration] = Schema.migrations, making: Bool,
    sqlite options: SQLiteDatabase.Options = .init(), observer: DatabaseObserver? = nil, logger: Logger? = nil
  ) async throws -> RetryingDatabase {
    if !making, let path = url.sqlitePath, !FileManager.default.fileExists(atPath: path) {
      throw MissingStoreError.database("there is no database \(url)")
    }
    let database: RetryingDatabase
    do {
      database = RetryingDatabase(try await openDatabase(url: url, sqlite: options, observer: observer)) {
        Self.tell(logger, ofSequences: $0)
      }
    } catch let error as DatabaseError {
      throw Fault(error, of: url)
    }
    return try await closing(database, onlyOnError: true) {
      do {
        if try await Migrator.version(of: database) > 0 {
          try await DatabaseCopy.checkIsWhole(database, url)
        } else if !making {
          throw MissingStoreError.database("\(url) holds no database of push-bouncer")
        }
        try await Nodes(database: database).migrate(migrations(database.engine)) { rows in
          logger?.notice(
            "seeing whether older nodes are alive, which a migration would cut off",
            metadata: ["nodes": .stringConvertible(rows), "within": "\(Nodes.watch)"])
        }
        let tables = try await database.bringSequencesForward(of: Schema.tables)
        if !tables.isEmpty { tell(logger, ofSequences: tables) }
      } catch let error as DatabaseError {
        throw Fault(error, of: url)
      }
      return database
    }
  }

  private static func tell(_ logger: Logger?, ofSequences tables: [String]) {
    logger?.notice(
      """
      sequences of the database were behind their tables, as after a move by logical replication; they were brought forward
      """, metadata: ["tables": "\(tables.joined(separator: ", "))"])
  }

  /// Replaces the storage key, with the service stopped.
  ///
  /// - Parameters:
  ///   - timeout: how long to wait for the end of processes that use the database.
  ///   - silence: a process without a heartbeat for this long counts as dead.
  ///   - report: is called with each step, in sentences.
  package static func rotateStorageKey(
    _ configuration: Configuration, timeout: Duration, silence: Duration,
    report: @escaping @Sendable (String) -> Void
  ) async throws -> Resealing.Count {
    let database = try await openMigrated(configuration.database.url, making: false)
    return try await closing(database) {
      _ = try await storageKey(configuration, of: database, making: false)
      return try await StorageKeyRotation(
        directory: configuration.keys.directory, database: database, timeout: timeout, silence: silence,
        report: report
      ).run()
    }
  }

  /// Runs `body` and closes the database, even if `body` throws.
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

  /// Reads the storage key from the folder. No key is created if the database was sealed with another one.
  private static func storageKey(
    _ configuration: Configuration, of database: any Database, making: Bool
  ) async throws -> StorageKey {
    // Checked before the file is read: if several processes start at once, one of them creates the key and
    // then seals the database with it.
    let isSealed = try await StorageSeal.isSealed(database)
    let directory = configuration.keys.directory
    if let key = try KeyFolder.existingStorageKey(in: directory) {
      if !isSealed { try KeyFolder.syncNames(in: directory) }
      return key
    }
    guard !isSealed else {
      throw MissingStoreError(fault: Fault(missingStorageKeyOf: configuration.database.url, in: directory))
    }
    guard making else {
      throw MissingStoreError(
        fault: Fault(
          source: "\(directory)/storage.key", "is missing", advice: "push-bouncer init or serve makes it"))
    }
    return try KeyFolder.storageKey(in: directory)
  }

  /// The database or the key does not exist and must not be created. Errors show it together with the place
  /// that was searched.
  package struct MissingStoreError: Readable {
    let fault: Fault

    /// What is missing and what to do about it.
    package var description: String { "\(fault)" }

    static func database(_ problem: String) -> MissingStoreError {
      MissingStoreError(
        fault: Fault(
          problem,
          advice: "run this where the service runs, or name its configuration with --config; "
            + "push-bouncer init or serve makes a new one"))
    }
  }

  /// Opens the store for one command, and closes it afterwards.
  ///
  /// - Parameter making: whether to create a missing database or key; otherwise a missing one is an error.
  package static func with<Result>(
    _ configuration: Configuration, making: Bool = false, sqlite options: SQLiteDatabase.Options = .init(),
    _ body: (Store) async throws -> Result
  ) async throws -> Result {
    let store = try await open(configuration, making: making, sqlite: options)
    return try await closing(store.database) {
      // This task is cancelled at the end of the scope, which waits for it.
      async let _: Void? = try? store.nodes.stay(store.storageKey, isServing: false)
      return try await body(store)
    }
  }

  package var servers: RemoteServers { RemoteServers(database: database, storageKey: storageKey, now: now) }
  package var accounts: AccountStore { AccountStore(database: database, storageKey: storageKey, now: now) }
  package var realms: RemoteRealms { RemoteRealms(database: database) }
  package var registrations: RegistrationStore {
    RegistrationStore(database: database, storageKey: storageKey, now: now, isClockTrusted: isClockTrusted)
  }
  package var hourlyCounts: HourlyCounts { HourlyCounts(database: database, now: now) }
  package var outbox: OutboxContents { OutboxContents(database: database) }

  /// Gives a chat server a new random key and returns it, first at the upstream bouncer if it has a link there.
  ///
  /// - Parameters:
  ///   - email: its administrator's address from now on; nil: as it was.
  ///   - atOnce: whether the old key ends at once.
  package func rotateKey(
    of server: RemoteServer, email: String? = nil, atOnce: Bool = false, _ configuration: Configuration
  ) async throws -> String? {
    if let email { try await servers.setContact(email, of: server.id) }
    let key = RandomText.alphanumeric(RemoteServers.keyLength)
    var settings = PushProviders.Configuration(configuration)
    settings.upstream = upstreamLinks.provider(at: configuration.upstream.url)
    let providers = try PushProviders(configuration: settings)
    if let sender = providers.upstream {
      let upstream = UpstreamBouncer(
        sender, links: upstreamLinks, now: now, logger: Logger(label: "push-bouncer"))
      do {
        try await upstream.rotate(
          server, from: nil, to: key, hostname: server.hostname, contactEmail: email ?? server.contactEmail)
      } catch let error as APIError {
        throw Fault(error.message)
      }
    }
    await providers.shutdown(within: .zero)
    return try await servers.rotateKey(server.id, to: key, atOnce: atOnce)
  }

  /// The devices of users, for commands. A running service is not notified of changes made through it.
  package func devices() async throws -> Devices {
    let server = try await servers.find(hostname: RemoteServers.builtInHostname)?.id
    return Devices(database: database, storageKey: storageKey, localServer: server, now: now) { _ in }
  }
}
