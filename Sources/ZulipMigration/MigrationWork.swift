internal import SQL

/// One start of a migration: the tables one after the other.
struct MigrationWork: Sendable {
  let migration: ZulipImport
  let origin: any ZulipOrigin
  let target: RegistrationImport
  let meter: MigrationMeter

  var journal: MigrationJournal { migration.journal }

  /// A batch that has only to be stored.
  struct Ready<Row: Sendable>: Sendable {
    var rows: [Row] = []
    var rejects: [MigrationJournal.Reject] = []
  }

  /// What storing a batch has come to.
  struct Stored {
    var counts = MigrationCounts()
    var rejects: [MigrationJournal.Reject] = []
  }

  /// Whether all of it is done; otherwise it was stopped.
  func bringAll() async throws -> Bool {
    for phase in [bringServers, bringRealms, bringDevices, bringTokens, foldUserIDs] {
      guard try await phase() else { return false }
    }
    return true
  }

  /// Brings the rest of a table in. The next batch is read, checked and sealed while one is stored.
  ///
  /// - Parameters:
  ///   - prepare: makes a batch ready, outside of a transaction.
  ///   - store: stores it; may be run more than once.
  /// - Returns: whether it came to the end.
  func bring<Row: Sendable>(
    _ table: ZulipTable, prepare: @escaping @Sendable (SourceBatch) async throws -> Ready<Row>,
    store: @escaping @Sendable ([Row], any Connection) throws -> Stored
  ) async throws -> Bool {
    guard origin.has(table) else { return true }
    var progress = try await journal.progress()[table] ?? .init()
    let source = try await origin.rows(of: table, after: progress.position, batch: migration.batch)
    @Sendable func next() async throws -> (SourceBatch, Ready<Row>)? {
      guard let batch = try await source.next() else { return nil }
      return (batch, try await prepare(batch))
    }
    var present = try await next()
    while let (batch, ready) = present {
      if Task.isCancelled { return false }
      async let following = next()
      progress = try await commit(batch, ready, in: table, from: progress, store)
      meter.advance(table, rows: progress.counts.read, by: batch.size)
      present = try await following
    }
    return true
  }

  private func commit<Row: Sendable>(
    _ batch: SourceBatch, _ ready: Ready<Row>, in table: ZulipTable, from before: MigrationJournal.Progress,
    _ store: @escaping @Sendable ([Row], any Connection) throws -> Stored
  ) async throws -> MigrationJournal.Progress {
    let engine = migration.database.engine
    return try await migration.database.write { connection in
      try RegistrationImport.preferIndexes(engine, on: connection)
      let stored = try store(ready.rows, connection)
      let rejects = ready.rejects + stored.rejects
      var after = before
      after.position = batch.position
      after.counts += stored.counts
      after.counts.read += batch.rows.count
      for reject in rejects { after.counts.refused[reject.reason, default: 0] += 1 }
      try MigrationJournal.note(rejects, in: table, on: connection)
      try MigrationJournal.advance(table, from: before, to: after, on: connection)
      return after
    }
  }

  /// Folds the legacy registrations by user number into those by UUID, when all of them are here.
  private func foldUserIDs() async throws -> Bool {
    guard var progress = try await journal.progress()[.tokens] else { return true }
    let engine = migration.database.engine
    let (first, size) = (target.firstLegacyID, Int64(migration.batch))
    let end = try await migration.database.read { try RegistrationImport.nextLegacyID(on: $0) }
    for start in stride(from: first, to: end, by: Int(size)) {
      if Task.isCancelled { return false }
      let before = progress
      progress = try await migration.database.write { connection in
        try RegistrationImport.preferIndexes(engine, on: connection)
        var after = before
        let folded = try target.foldUserIDs(in: start...start + size - 1, on: connection)
        guard folded > 0 else { return before }
        after.counts.foldedUserIDs += folded
        after.counts.imported -= folded
        try MigrationJournal.advance(.tokens, from: before, to: after, on: connection)
        return after
      }
    }
    return true
  }
}
