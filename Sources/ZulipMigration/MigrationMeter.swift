internal import Synchronization

/// How much of what there was to do at the start is done.
final class MigrationMeter: Sendable {
  private let total: Int64
  private let done = Mutex<Int64>(0)
  private let report: @Sendable (ZulipImport.Progress) -> Void

  init(
    _ origin: any ZulipOrigin, _ progress: [ZulipTable: MigrationJournal.Progress],
    _ report: @escaping @Sendable (ZulipImport.Progress) -> Void
  ) async throws {
    var total: Int64 = 0
    for table in ZulipTable.allCases where origin.has(table) {
      total += try await origin.remaining(table, after: progress[table]?.position ?? 0)
    }
    self.total = total
    self.report = report
  }

  /// Notes a batch.
  func advance(_ table: ZulipTable, rows: Int, by size: Int64) {
    let done = done.withLock { done in
      done += size
      return done
    }
    report(
      ZulipImport.Progress(
        table: table, rows: rows, share: total > 0 ? min(1, Double(done) / Double(total)) : 1))
  }
}
