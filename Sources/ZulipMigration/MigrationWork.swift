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

  /// What is stored in one transaction.
  private struct Portion<Row: Sendable>: Sendable {
    var batches: [Ready<Row>] = []
    /// How many rows of the source it is.
    var read = 0
    /// How much text those rows have.
    var bytes = 0
    /// How much of the table they are.
    var size: Int64 = 0
    /// Where to go on after them.
    var position: Int64 = 0

    mutating func append(_ batch: SourceBatch, _ ready: Ready<Row>) {
      batches.append(ready)
      read += batch.rows.count
      bytes += batch.bytes
      size += batch.size
      position = batch.position
    }
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

  /// Brings the rest of a table in. The next rows are read, checked and sealed while others are stored.
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
    @Sendable func next(_ bytes: Int) async throws -> Portion<Row>? {
      var portion = Portion<Row>()
      repeat {
        guard !Task.isCancelled, let batch = try await source.next() else { break }
        portion.append(batch, try await prepare(batch))
      } while portion.bytes < bytes
      return portion.batches.isEmpty ? nil : portion
    }
    var pace = MigrationPace(migration.database.engine, maximum: migration.transaction)
    var portion = try await next(pace.bytes)
    while let present = portion {
      if Task.isCancelled { return false }
      let bytes = pace.bytes
      async let following = next(bytes)
      let start = ContinuousClock.now
      progress = try await commit(present, in: table, from: progress, store)
      pace.note(.now - start)
      meter.advance(table, rows: progress.counts.read, by: present.size)
      // Cut short when all of it is stopped.
      try? await Task.sleep(for: pace.pause)
      portion = try await following
    }
    return !Task.isCancelled
  }

  private func commit<Row: Sendable>(
    _ portion: Portion<Row>, in table: ZulipTable, from before: MigrationJournal.Progress,
    _ store: @escaping @Sendable ([Row], any Connection) throws -> Stored
  ) async throws -> MigrationJournal.Progress {
    try await migration.database.write { connection in
      try target.preferIndexes(on: connection)
      var after = before
      after.position = portion.position
      after.counts.read += portion.read
      for batch in portion.batches {
        let stored = try store(batch.rows, connection)
        let rejects = batch.rejects + stored.rejects
        after.counts += stored.counts
        for reject in rejects { after.counts.refused[reject.reason, default: 0] += 1 }
        try MigrationJournal.note(rejects, in: table, on: connection)
      }
      try MigrationJournal.advance(table, from: before, to: after, on: connection)
      return after
    }
  }

  /// Folds the legacy registrations by user number into those by UUID, when all of them are here.
  private func foldUserIDs() async throws -> Bool {
    guard var progress = try await journal.progress()[.tokens] else { return true }
    let (first, size) = (target.firstLegacyID, Int64(migration.batch * 10))
    let end = try await migration.database.read { try RegistrationImport.nextLegacyID(on: $0) }
    for start in stride(from: first, to: end, by: Int(size)) {
      if Task.isCancelled { return false }
      let before = progress
      progress = try await migration.database.write { connection in
        try target.preferIndexes(on: connection)
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
