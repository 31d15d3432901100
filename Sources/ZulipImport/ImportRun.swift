package import Foundation
import Migrations
import Registrations
package import SQL
package import Sealing

/// Brings servers, realms and registrations in from an existing Zulip bouncer.
///
/// Each run reads the whole source, a batch and a transaction at a time, and puts in what is not here yet. So a run can
/// be stopped at any moment, and another one brings the rest; one over a source that was brought in already changes
/// nothing.
package struct ImportRun: Sendable {
  /// How far it is.
  package struct Progress: Sendable, Hashable {
    package let table: ZulipTable
    /// Rows of the table that are done.
    package let rows: Int
    /// How much of the source is done, from 0 to 1.
    package let share: Double
  }

  let database: any Database
  let storageKey: StorageKey
  /// Rows that are read at a time and stored in one transaction.
  let batch: Int
  let now: @Sendable () -> Date

  /// An import into `database`, whose secrets are sealed under `storageKey`.
  ///
  /// - Parameter batch: rows in a transaction. By default many on SQLite, which writes each page that a transaction has
  ///   touched, but no more than take about a second, as a service on the same file waits for it; fewer on PostgreSQL,
  ///   where large transactions get in others' way.
  package init(
    database: any Database, storageKey: StorageKey, batch: Int? = nil,
    now: @escaping @Sendable () -> Date = { Date() }
  ) {
    self.database = database
    self.storageKey = storageKey
    self.batch = batch ?? (database.engine == .sqlite ? 10_000 : 2000)
    self.now = now
  }

  /// Brings everything in, or as much as there is time for: cancelling the task stops it after the batch
  /// that is under way, and the report says that it is not complete.
  ///
  /// - Parameter rejects: gets CSV with every row that is refused: table, id and reason, never a token.
  /// - Throws: ``ZulipSourceError``, or a database's error. What has been brought in stays.
  package func run(
    from source: ZulipSource, rejects: FileHandle? = nil,
    progress: @escaping @Sendable (Progress) -> Void = { _ in }
  ) async throws -> ImportReport {
    try await source.open { origin in
      var work = try await ImportWork(self, origin, rejects: rejects, progress)
      let isComplete = try await work.bringAll()
      return ImportReport(
        tables: work.counts, missing: Set(ZulipTable.allCases.filter { !origin.has($0) }),
        isComplete: isComplete)
    }
  }
}

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
