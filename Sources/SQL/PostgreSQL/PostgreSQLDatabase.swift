import Dispatch

/// A database on a PostgreSQL server, of version 15 or later.
///
/// Reads are snapshots, transactions are serializable, both on a pool of connections that is shared
/// by turns; single statements are committed together on a connection of their own, which costs
/// one round trip and one fsync for all that have gathered. Other programs may use the same
/// database.
package final class PostgreSQLDatabase: Database {
  /// Which migrations it takes.
  package let engine = DatabaseEngine.postgreSQL

  let transactions: JobQueue<PostgreSQLTransaction>
  let writes: JobQueue<PostgreSQLWrite>
  private let workers: [PostgreSQLWorker]
  private let patience: Duration
  private let observer: DatabaseObserver?

  /// Runs `body` in a snapshot, as often as ``write(_:)`` does.
  package func read<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    try await observed(.read) { try await transaction(.read, body) }
  }

  /// A server is always waited for.
  package func rowsAtOnce(_ statement: Statement) -> [Row]? { nil }

  /// Runs `body` in a serializable transaction; up to ten times if others get in the way.
  package func write<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    try await observed(.write) { try await transaction(.write, body) }
  }

  /// Runs a statement in a transaction that other such statements may share.
  package func execute(_ statement: Statement) async throws -> [Row] {
    try await observed(.write) {
      let statement = try PostgreSQLStatement(statement)
      return try await withCheckedThrowingContinuation {
        writes.submit(PostgreSQLWrite($0, statement, deadline: .now + patience))
      }
    }
  }

  /// Sets the sequence behind the column `id`.
  package func continueIdentity(of table: String) async throws {
    _ = try await execute(
      Statement(
        """
        SELECT setval(pg_get_serial_sequence('\(table)', 'id'), GREATEST(MAX(id), 1), MAX(id) IS NOT NULL)
        FROM \(table)
        """))
  }

  /// Does what has been asked for, then closes the connections. Closing again does nothing.
  package func close() async {
    await transactions.close()
    await writes.close()
    await withCheckedContinuation { continuation in
      DispatchQueue(label: "PostgreSQL close").async { [workers] in
        for worker in workers { worker.close() }
        continuation.resume()
      }
    }
  }

  init(_ settings: PostgreSQLSettings, _ options: Options, observer: DatabaseObserver?) {
    // The last one is for the single statements.
    let workers = (0...options.connections).map { _ in
      PostgreSQLWorker(settings, preparedStatements: options.preparedStatements)
    }
    let retry = SerializationRetry()
    transactions = JobQueue(
      label: "PostgreSQL", workers: options.connections, maximumGroup: 1,
      maximumWaiting: options.maximumWaiting
    ) { worker, jobs in
      for job in jobs { job.perform(on: workers[worker], retry, observer: observer) }
    }
    let groupWriter = PostgreSQLGroupWriter(
      worker: workers[options.connections], retry: retry, observer: observer)
    writes = JobQueue(
      label: "PostgreSQL writer", workers: 1, maximumGroup: options.maximumWriteGroup,
      maximumWaiting: options.maximumWaiting
    ) { groupWriter.perform($1) }
    self.workers = workers
    patience = .seconds(options.patience)
    self.observer = observer
  }

  func transaction<Result: Sendable>(
    _ kind: PostgreSQLTransaction.Kind, _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    try await withCheckedThrowingContinuation {
      transactions.submit(PostgreSQLTransaction($0, kind, deadline: .now + patience, body))
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
