import Dispatch

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

  private let workers: [SQLiteWorker]
  let writer: JobQueue<SQLiteJob>
  let readers: JobQueue<SQLiteJob>
  private let observer: DatabaseObserver?
  private let slowness = ReadSlowness()

  init(writer: SQLiteWorker, readers: [SQLiteWorker], _ options: Options, observer: DatabaseObserver?) {
    let groupWriter = GroupWriter(worker: writer, observer: observer)
    let groupReader = GroupReader(workers: readers)
    self.writer = JobQueue(
      label: "SQLite writer", workers: 1, maximumGroup: options.maximumWriteGroup
    ) { groupWriter.perform($1) }
    self.readers = JobQueue(
      label: "SQLite reader", workers: readers.count, maximumGroup: options.maximumReadGroup
    ) { groupReader.perform($0, $1) }
    // The writer last: with the last connection the log is written back.
    workers = readers + [writer]
    self.observer = observer
  }

  /// Runs `body` in a snapshot that other reads may share.
  package func read<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    try await observed(.read) {
      try await withCheckedThrowingContinuation {
        readers.submit(SQLiteJob($0, needsSavepoint: false, body))
      }
    }
  }

  /// Asks on the caller's thread over a reader's connection that is idle: a page that is in memory, as those of a
  /// database in use are, is found in less time than it takes to tell another thread.
  ///
  /// Of a disk that makes somebody wait nobody asks so for a while.
  package func rowsAtOnce(_ statement: Statement) -> [Row]? {
    guard slowness.mayAsk else { return nil }
    let start = ContinuousClock.now
    for worker in workers.dropLast() {
      guard let result = worker.withIdleHandle({ handle in Result { try handle.query(statement) } }) else {
        continue
      }
      let duration = ContinuousClock.now - start
      slowness.note(duration)
      observer?(.read, duration)
      return try? result.get()
    }
    return nil
  }

  /// Runs `body` in a savepoint of a transaction that other writes may share.
  package func write<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    try await observed(.write) {
      try await withCheckedThrowingContinuation {
        writer.submit(SQLiteJob($0, needsSavepoint: true, body))
      }
    }
  }

  /// Runs a statement in a transaction that other writes may share.
  package func execute(_ statement: Statement) async throws -> [Row] {
    try await observed(.write) {
      try await withCheckedThrowingContinuation {
        writer.submit(SQLiteJob($0, needsSavepoint: false) { try $0.query(statement) })
      }
    }
  }

  /// Nothing to do: SQLite looks for the largest id itself.
  package func continueIdentity(of table: String) async throws {}

  /// Does what has been asked for, then closes the file. Closing again does nothing.
  package func close() async {
    await readers.close()
    await writer.close()
    await withCheckedContinuation { continuation in
      DispatchQueue(label: "SQLite close").async { [workers] in
        for worker in workers { worker.close() }
        continuation.resume()
      }
    }
  }

  private func observed<Result>(
    _ operation: DatabaseOperation, _ work: () async throws -> Result
  ) async throws -> Result {
    guard let observer else { return try await work() }
    let start = ContinuousClock.now
    defer { observer(operation, .now - start) }
    return try await work()
  }
}
