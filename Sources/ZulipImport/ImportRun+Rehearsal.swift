package import Foundation
import Migrations
import Registrations
package import SQL
package import Sealing

extension ImportRun {
  /// Runs `body` with an import into a database that is thrown away afterwards: the same work and the
  /// same counts, and nothing is written anywhere else.
  ///
  /// It begins with a copy of what `target` has of what an import looks at, so a run that was stopped
  /// shows as rows that are already there.
  ///
  /// - Parameter target: nil if there is none yet.
  package static func rehearse<Result>(
    target: (any Database)?, storageKey: StorageKey, now: @escaping @Sendable () -> Date = { Date() },
    _ body: (ImportRun) async throws -> Result
  ) async throws -> Result {
    let folder = FileManager.default.temporaryDirectory.appending(path: "push-bouncer-\(UUID().uuidString)")
    try FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
    defer { try? FileManager.default.removeItem(at: folder) }
    let database = try await openDatabase(
      url: DatabaseURL(sqlitePath: folder.appending(path: "rehearsal.sqlite").path), sqlite: .filling)
    do {
      try await Schema.migrate(database)
      if let target {
        try await DatabaseCopy(from: target, to: database).copy([
          "remote_servers", "remote_realms", "bouncer_keys", "registrations",
        ])
      }
      let result = try await body(ImportRun(database: database, storageKey: storageKey, now: now))
      await database.close()
      return result
    } catch {
      await database.close()
      throw error
    }
  }
}
