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
  private let patience: Duration

  init(_ settings: PostgreSQLSettings, _ options: Options, observer: DatabaseObserver?) {
    let makeWorker = { PostgreSQLWorker(settings, preparedStatements: options.preparedStatements) }
    let retry = SerializationRetry()
    let workers = (0..<options.connections).map { _ in makeWorker() }
    transactions = JobQueue(
      label: "PostgreSQL", workers: options.connections, maximumGroup: 1,
      maximumWaiting: options.maximumWaiting, observer: observer,
      .init(
        perform: { worker, jobs in
          for job in jobs { job.perform(on: workers[worker], retry, observer: observer) }
        },
        end: { workers[$0].close() }))
    let writer = makeWorker()
    let groupWriter = PostgreSQLGroupWriter(worker: writer, retry: retry, observer: observer)
    writes = JobQueue(
      label: "PostgreSQL w", workers: 1, maximumGroup: options.maximumWriteGroup,
      maximumWaiting: options.maximumWaiting, observer: observer,
      .init(perform: { groupWriter.perform($1) }, end: { _ in writer.close() }))
    patience = .seconds(options.patience)
  }

  deinit {
    transactions.finish()
    writes.finish()
  }

  /// Runs `work` in a snapshot, or in a serializable transaction; up to ten times if others get in the way.
  package func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await transaction(kind, observed: kind.operation, work)
  }

  /// - Parameter operation: what the call is observed as, if it is.
  func transaction(
    _ kind: TransactionKind, observed operation: DatabaseOperation?,
    _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await transactions.perform(operation) {
      PostgreSQLTransaction(caller: $0, kind: kind, deadline: $0.start + patience, work: work)
    }
  }

  /// Runs a statement in a snapshot of its own.
  package func query(_ statement: Statement) async throws -> [Row] {
    try await read { try $0.query(statement) }
  }

  /// A server is always waited for.
  package func rowsAtOnce(_ statement: Statement) -> [Row]? { nil }

  /// Runs a statement in a transaction that other such statements may share.
  package func execute(_ statement: Statement) async throws -> [Row] {
    let statement = try PostgreSQLStatement(statement)
    let rows = Kept<[Row]>()
    try await writes.perform(.write) {
      PostgreSQLWrite(caller: $0, statement: statement, rows: rows, deadline: $0.start + patience)
    }
    return rows.value ?? []
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
  }
}
