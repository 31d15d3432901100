package import Foundation
package import SQL
package import Sealing

/// Brings servers, realms and registrations in from an existing Zulip bouncer.
///
/// It goes through the source's tables in the order of their keys, a batch and a transaction at a time, and
/// writes down in the same transaction how far it is. So it can be stopped and started again at any moment
/// and ends as though it had not been. A source is read as it is when a run is started: rows that come
/// later have higher ids and are still found by the next start; rows that were changed or deleted behind it
/// in the meantime stay as they were read.
///
/// What is here is never overwritten, so a run over a source that was brought in already changes nothing;
/// it brings what came since.
package struct ZulipImport: Sendable {
  /// How far it is.
  package struct Progress: Sendable, Hashable {
    /// What is being read.
    package let table: ZulipTable
    /// Rows of it that are done.
    package let rows: Int
    /// How much of what this start has to do is done, from 0 to 1.
    package let share: Double
  }

  /// Rows that are read at a time.
  static let batch = 2000
  /// How much text of rows a transaction takes at most, in bytes.
  static let transaction = 12 << 20

  let journal: MigrationJournal
  let database: any Database
  let storageKey: StorageKey
  let batch: Int
  let transaction: Int
  private let now: @Sendable () -> Date

  /// A migration into `database`, whose secrets are sealed under `storageKey`.
  package init(
    database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date = { Date() }
  ) {
    self.init(
      database: database, storageKey: storageKey, now: now, batch: Self.batch, transaction: Self.transaction)
  }

  init(
    database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date, batch: Int,
    transaction: Int
  ) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
    self.batch = batch
    self.transaction = transaction
    journal = MigrationJournal(database: database)
  }

  /// Brings everything in, or as much as there is time for: cancelling the task stops it after the batch
  /// that is under way, and the report says that it is not complete.
  ///
  /// - Throws: ``ZulipSourceError``, or a database's error. What has been brought in stays, and another
  ///   run goes on.
  package func run(
    from source: ZulipSource, progress: @escaping @Sendable (Progress) -> Void = { _ in }
  ) async throws -> MigrationReport {
    try await source.open { origin in try await run(from: origin, progress) }
  }

  private func run(
    from origin: any ZulipOrigin, _ progress: @escaping @Sendable (Progress) -> Void
  ) async throws -> MigrationReport {
    let run = try await journal.begin(origin.identity, now: now())
    let target = RegistrationImport(
      storageKey: storageKey, engine: database.engine, startedAt: run.startedAt,
      firstLegacyID: run.firstLegacyID)
    let work = MigrationWork(
      migration: self, origin: origin, target: target,
      meter: try await MigrationMeter(origin, journal.progress(), progress))
    let isComplete = try await work.bringAll()
    let report = MigrationReport(
      tables: try await journal.progress().mapValues(\.counts),
      missing: Set(ZulipTable.allCases.filter { !origin.has($0) }), isComplete: isComplete)
    if isComplete { try await journal.finish(now: now()) }
    return report
  }
}
