import Basics
package import Foundation
import HTTP
import Migrations
package import Platform
import Providers
import Registrations
import SQL
import Sealing
import ZulipBouncer

extension StartCheck {
  /// The checks that need none of the service's own parts.
  package static func basics(
    _ configuration: Configuration, descriptors: DescriptorLimit, visit: DatabaseVisit,
    now: @escaping @Sendable () -> Date
  ) -> [StartCheck] {
    let checks =
      [
        StartCheck("descriptors") {
          try descriptors.check()
          let wanted = configuration.http.maxConnections
          if let shortage = descriptors.shortage(wanted) {
            return .warning($0, shortage, advice: DescriptorLimit.advice)
          }
          return .good(
            $0, "\(descriptors) descriptors: room for \(descriptors.connections(wanted)) connections")
        },
        StartCheck("tls") {
          guard let tls = configuration.http.tls else {
            return .skipped($0, "http.tls.certificate_file is not set: TLS is up to a proxy")
          }
          _ = try tls.serverContext()
          let life = try tls.certificateLife()
          guard let expiry = CertificateExpiry(life, now: now()) else {
            return .good($0, "\(tls.certificateFile) expires on \(life.end.day)")
          }
          return .bad(
            $0, "\(tls.certificateFile) \(expiry.phrase). \(expiry.meaning)",
            advice: CertificateExpiry.advice)
        },
      ] + file("providers.ca_file", configuration.providers.caFile, now: now)
      + file("bouncer.verify_ca_file", configuration.bouncer.verifyCAFile, now: now) + [
        StartCheck("providers") {
          let providers = try PushProviders(configuration: .init(configuration))
          await providers.shutdown(within: .zero)
          return .good($0, "the settings of providers can be used")
        },
        StartCheck("storage.key") { try storageKey($0, configuration) },
        StartCheck("database") { name in
          let found = try await database(configuration, visit)
          guard let problem = try await otherDatabase(configuration, visit) else { return .good(name, found) }
          return .bad(name, problem, advice: StoreRecord.Earlier.advice)
        },
      ]
    return strength(configuration) + checks
  }

  private static func strength(_ configuration: Configuration) -> [StartCheck] {
    let weaknesses = configuration.weaknesses.map { weakness in StartCheck("strength") { _ in throw weakness }
    }
    guard weaknesses.isEmpty else { return weaknesses }
    return [
      StartCheck("strength") {
        guard let weak = configuration.weakToken else {
          return .good($0, "no token is weak, and none is missing")
        }
        return .warning($0, weak.detail, advice: weak.advice ?? "")
      }
    ]
  }

  private static func storageKey(_ name: String, _ configuration: Configuration) throws -> Finding {
    let directory = configuration.keys.directory
    guard try KeyFolder.existingStorageKey(in: directory) == nil else {
      return .good(name, "\(directory)/storage.key can be read")
    }
    if let obstacle = FileObstacle.creatingFiles(in: directory) {
      throw Fault(obstacle, of: directory, key: "keys.directory")
    }
    return .good(name, "\(directory)/storage.key is not there yet; serve makes it")
  }
}

extension StartCheck {
  /// What is wrong if the database is not the one that `store.json` knows; nil if it is, or nothing is known. It does not
  /// keep `serve` from starting.
  private static func otherDatabase(_ configuration: Configuration, _ visit: DatabaseVisit) async throws
    -> String?
  {
    let file = StoreRecord.file(in: configuration.keys.directory)
    guard let record = StoreRecord(at: file) else { return nil }
    let url = configuration.database.url
    let before = "\(file.path) knows a database that was served before"
    guard visit.mayExist else { return "\(url) is not there, and \(before)" }
    let database = try await visit.database()
    guard try await Migrator.version(of: database) > 0 else { return "\(url) is empty, and \(before)" }
    let id = try await database.storeID()
    return id == record.expectedID ? nil : "\(url) is \(id == nil ? "new" : "another one"), and \(before)"
  }

  /// Opens the database only if it exists, and does not migrate it: another version's service may be using
  /// it.
  static func database(_ configuration: Configuration, _ visit: DatabaseVisit) async throws -> String {
    let url = configuration.database.url
    if let path = url.sqlitePath {
      if !visit.mayExist {
        if let obstacle = FileObstacle.writing(path) {
          throw Fault(obstacle, of: "\(url)", key: "database.url")
        }
        try checkSpace(for: path, url)
        return "\(url) is not there yet; serve makes it"
      }
      try checkSpace(for: path, url)
    }
    do {
      return try await inspect(visit.database(), configuration)
    } catch let error as DatabaseError {
      throw Fault(error, of: url)
    }
  }

  private static func inspect(_ database: any Database, _ configuration: Configuration) async throws -> String
  {
    let url = configuration.database.url
    let directory = configuration.keys.directory
    let version = try await Migrator.version(of: database)
    guard version > 0 else {
      // Finds what would prevent the migrations, and leaves no tables.
      try await rehearse(on: database) { connection in
        for migration in Schema.migrations(for: database.engine) { try connection.runScript(migration.sql) }
      }
      return "\(url) is empty; serve fills it"
    }
    try await Migrator.check(database, Schema.migrations(for: database.engine))
    try await DatabaseCopy.checkIsWhole(database, url)
    if let key = try KeyFolder.existingStorageKey(in: directory) {
      guard try await StorageSeal.matches(key, in: database) ?? true else {
        throw Fault(
          key: "database.url",
          "names \(url), which was sealed with another storage.key than that in \(directory)",
          advice: "put the right file back, or name the right database")
      }
    } else if try await StorageSeal.isSealed(database) {
      // Without a seal, the first start was cut off before it made the key, and the next one makes it.
      throw Fault(missingStorageKeyOf: url, in: directory)
    }
    try await rehearse(on: database) { connection in
      try connection.run(
        Statement(
          """
          INSERT INTO metadata (name, value) VALUES ('write_check', $1)
          ON CONFLICT (name) DO UPDATE SET value = excluded.value
          """, .bytes([])))
    }
    return switch version {
    case ..<Schema.version: "\(url) is older; serve brings it up to date"
    case Schema.version: "\(url)"
    default: "\(url) is newer than this program, which can use it nevertheless"
    }
  }

  /// Runs `body` in a transaction that is rolled back.
  private static func rehearse(
    on database: any Database, _ body: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    struct Undone: Error {}
    do {
      try await database.write { connection in
        try body(connection)
        throw Undone()
      }
    } catch is Undone {}
  }

  /// The least free space on SQLite's disk, in bytes. Its write-ahead log alone needs that much.
  private static let leastSpace = 1 << 20

  private static func checkSpace(for path: String, _ url: DatabaseURL) throws(Fault) {
    let folder = URL(fileURLWithPath: path).deletingLastPathComponent()
    guard let attributes = try? FileManager.default.attributesOfFileSystem(forPath: folder.path),
      let free = attributes[.systemFreeSize] as? NSNumber, free.intValue < leastSpace
    else { return }
    throw Fault(
      key: "database.url", "names \(url), on a disk that is full (\(free.intValue >> 10) KiB are left)",
      advice: "free some space")
  }
}
