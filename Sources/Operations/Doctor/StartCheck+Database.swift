internal import Foundation
internal import Migrations
internal import Registrations
internal import SQL
internal import Sealing

extension StartCheck {
  /// The database is looked at only if it is there, and not migrated: a service of another version may run on it.
  static func database(_ configuration: Configuration) async throws -> String {
    let url = configuration.database.url
    if let path = url.sqlitePath {
      if !FileManager.default.fileExists(atPath: path) {
        if let obstacle = FileObstacle.writing(path) {
          throw Fault(
            key: "database.url", "names \(url), which \(obstacle.problem)", advice: obstacle.advice)
        }
        try checkSpace(for: path, url)
        return "\(url) is not there yet; serve makes it"
      }
      try checkSpace(for: path, url)
    }
    do {
      let database = try await openDatabase(url: url)
      do {
        let detail = try await look(at: database, configuration)
        await database.close()
        return detail
      } catch {
        await database.close()
        throw error
      }
    } catch let error as DatabaseError {
      throw Fault(error, of: url)
    }
  }

  private static func look(at database: any Database, _ configuration: Configuration) async throws -> String {
    let (url, directory) = (configuration.database.url, configuration.keys.directory)
    let version = try await Migrator.version(of: database)
    guard version > 0 else {
      // Finds what stands in the way of the tables, and leaves nothing.
      try await rehearse(on: database) { connection in
        for migration in Schema.migrations(for: database.engine) { try connection.runScript(migration.sql) }
      }
      return "\(url) is empty; serve fills it"
    }
    try await Migrator.check(database, Schema.migrations(for: database.engine))
    guard let key = try KeyFolder.existingStorageKey(in: directory) else {
      throw Fault(missingStorageKeyOf: url, in: directory)
    }
    guard try await StorageSeal.matches(key, in: database) ?? true else {
      throw Fault(
        key: "database.url",
        "names \(url), which was sealed with another storage.key than that in \(directory)",
        advice: "put the right file back, or name the right database")
    }
    try await rehearse(on: database) { connection in
      try connection.run(
        Statement(
          """
          INSERT INTO metadata (name, value) VALUES ('write_check', $1)
          ON CONFLICT (name) DO UPDATE SET value = excluded.value
          """, .bytes([])))
    }
    return "\(url)\(version < Schema.version ? " is older; serve brings it up to date" : "")"
  }

  private struct Undone: Error {}

  /// Runs `body` in a transaction that is rolled back.
  private static func rehearse(
    on database: any Database, _ body: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    do {
      try await database.write { connection in
        try body(connection)
        throw Undone()
      }
    } catch is Undone {}
  }

  /// Less is as good as nothing: SQLite's log alone grows by that.
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
