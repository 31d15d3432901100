package import Foundation
import Migrations
import Registrations
package import SQL
package import Sealing

/// Imports servers, realms and registrations from an existing Zulip bouncer.
///
/// Each run reads the whole source, in batches with a transaction each, and inserts what is missing. So a run
/// can be stopped at any moment and another one imports the rest; repeating a complete import changes
/// nothing.
package struct ImportRun: Sendable {
  /// Progress of a run.
  package struct Progress: Sendable, Hashable {
    package let table: ZulipTable
    /// Number of the table's rows that are done.
    package let rows: Int
    /// Fraction of the source that is done, from 0 to 1.
    package let share: Double
  }

  let database: any Database
  let storageKey: StorageKey
  /// Rows that are read at a time and stored in one transaction.
  let batch: Int
  let now: @Sendable () -> Date

  /// - Parameter batch: rows in a transaction. By default many on SQLite, which writes each changed page once
  ///   per transaction, but no more than take about a second, because a service on the same file has to wait;
  ///   fewer on PostgreSQL, where large transactions hinder others.
  package init(
    database: any Database, storageKey: StorageKey, batch: Int? = nil,
    now: @escaping @Sendable () -> Date = { Date() }
  ) {
    self.database = database
    self.storageKey = storageKey
    self.batch = batch ?? (database.engine == .sqlite ? 10_000 : 2000)
    self.now = now
  }

  /// Imports everything. Cancelling the task stops it after the present batch; the report then says that it
  /// is not complete.
  ///
  /// - Parameter rejects: gets CSV with every refused row: table, id and reason, never a token.
  /// - Throws: ``ZulipSourceError``, or a database's error. What was imported stays.
  package func run(
    from source: ZulipSource, rejects: FileHandle? = nil,
    progress: @escaping @Sendable (Progress) -> Void = { _ in }
  ) async throws -> ImportReport {
    try await source.open { origin in
      var work = try await ImportWork(self, origin, rejects: rejects, progress)
      let isComplete = try await work.importAll()
      return ImportReport(
        tables: work.counts, missing: Set(ZulipTable.allCases.filter { !origin.has($0) }),
        isComplete: isComplete)
    }
  }
}

extension ImportRun {
  /// Runs `body` with an import into a temporary database: the same work and the same counts, but nothing
  /// else is changed.
  ///
  /// The database starts with a copy of the tables of `target` that an import reads, so that the rows of an
  /// earlier run are reported as already there.
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
        try await DatabaseCopy(from: target, to: database, tables: Schema.tables).copy([
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
