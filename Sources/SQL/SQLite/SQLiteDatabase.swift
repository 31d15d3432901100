/// A database in one SQLite file, with its write-ahead log beside it.
///
/// Writes go through one writer, which commits everything that has gathered in one transaction
/// and answers afterwards: an fsync per group instead of one per write. Reads that gather while
/// the readers are busy share a snapshot, which spares each the way into a transaction.
///
/// Other processes may use the same file: a write waits for theirs up to the busy timeout.
package final class SQLiteDatabase: Database {
  /// Which migrations it takes.
  package let engine = DatabaseEngine.sqlite

  let writer: JobQueue<SQLiteJob>
  let readers: JobQueue<SQLiteJob>
  private let idleReaders: [SQLiteWorker]
  private let slowness = ReadSlowness()
  private let observer: DatabaseObserver?

  init(writer: SQLiteWorker, readers: [SQLiteWorker], _ options: Options, observer: DatabaseObserver?) {
    let groupWriter = GroupWriter(worker: writer, observer: observer)
    let groupReader = GroupReader(workers: readers)
    self.writer = JobQueue(
      label: "SQLite writer", workers: 1, maximumGroup: options.maximumWriteGroup, observer: observer,
      .init(perform: { groupWriter.perform($1) }, end: { _ in writer.close() }))
    self.readers = JobQueue(
      label: "SQLite reader", workers: readers.count, maximumGroup: options.maximumReadGroup,
      observer: observer,
      .init(perform: { groupReader.perform($0, $1) }, end: { readers[$0].close() }))
    idleReaders = readers
    self.observer = observer
  }

  deinit {
    readers.finish()
    writer.finish()
  }

  /// Runs `work` in a snapshot that other reads may share, or in a savepoint of a transaction that other writes
  /// may share.
  package func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    let queue = kind == .read ? readers : writer
    try await queue.perform(kind.operation) { SQLiteJob(caller: $0, work: .body(work)) }
  }

  /// Runs a statement in a snapshot that other reads may share.
  package func query(_ statement: Statement) async throws -> [Row] {
    try await rows(of: statement, .read)
  }

  /// Asks on the caller's thread over a reader's connection that is idle: a page that is in memory, as those of a
  /// database in use are, is found in less time than it takes to tell another thread.
  ///
  /// After a read that had to wait for the disk, this returns nil for a while.
  package func rowsAtOnce(_ statement: Statement) -> [Row]? {
    guard slowness.mayAsk else { return nil }
    let start = ContinuousClock.now
    for reader in idleReaders {
      guard
        let result = reader.withIdleHandle({ handle in
          Result { try handle.queryAlone(statement, mayWait: false) }
        })
      else { continue }
      let duration = ContinuousClock.now - start
      slowness.note(duration)
      observer?(.read, duration)
      return try? result.get()
    }
    return nil
  }

  /// Runs a statement in a transaction that other writes may share.
  package func execute(_ statement: Statement) async throws -> [Row] {
    try await rows(of: statement, .write)
  }

  private func rows(of statement: Statement, _ kind: TransactionKind) async throws -> [Row] {
    let rows = Kept<[Row]>()
    let queue = kind == .read ? readers : writer
    try await queue.perform(kind.operation) { SQLiteJob(caller: $0, work: .statement(statement, rows)) }
    return rows.value ?? []
  }

  /// Nothing to do: SQLite looks for the largest id itself.
  package func continueIdentity(of table: String) async throws {}

  /// Does what has been asked for, then closes the file. Closing again does nothing.
  package func close() async {
    await readers.close()
    // With the last connection the log is written back.
    await writer.close()
  }
}
