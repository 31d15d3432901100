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
  private let waitLimit: Duration

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
    waitLimit = .seconds(options.waitLimit)
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
      PostgreSQLTransaction(caller: $0, kind: kind, deadline: $0.start + waitLimit, work: work)
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
      PostgreSQLWrite(caller: $0, statement: statement, rows: rows, deadline: $0.start + waitLimit)
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

extension PostgreSQLDatabase {
  /// How a PostgreSQL database is used.
  package struct Options: Sendable {
    /// How many snapshots and transactions run beside each other; one more connection is for single
    /// statements.
    package var connections = 8
    /// How many single statements share a commit at most.
    package var maximumWriteGroup = 512
    /// How many calls of a kind wait for a connection at most.
    var maximumWaiting = 16_384
    /// How long a call waits for a connection, in seconds.
    package var waitLimit = 10.0
    /// How long a statement may run, in milliseconds.
    var statementTimeout = 30_000
    /// How long the server may say nothing, in seconds, before its connection is given up: longer than a
    /// statement may run.
    package var longestSilence = 40.0
    /// How many statements each connection keeps prepared.
    var preparedStatements = 256

    /// The defaults.
    package init() {}
  }

  /// Opens the database that a `postgres://` URL names, which has to exist.
  ///
  /// libpq reads the URL, its options and its own environment variables and files. Where they do
  /// not say how far to trust the network (`sslmode`), a server that is not on this machine has to
  /// speak TLS (`require`); say `verify-full`, with `sslrootcert`, to have it prove who it is.
  ///
  /// - Throws: ``DatabaseError``: ``DatabaseError/Code/invalidURL``, or why there is no connection within
  ///   ``Options/waitLimit``.
  package static func open(
    url: String, options: Options = Options(), observer: DatabaseObserver? = nil
  ) async throws -> PostgreSQLDatabase {
    let settings = try PostgreSQLSettings(
      url: url, statementTimeout: options.statementTimeout, longestSilence: .seconds(options.longestSilence))
    let database = PostgreSQLDatabase(settings, options, observer: observer)
    do {
      try await database.transaction(.read, observed: nil) { _ = try $0.query(Statement("SELECT 1")) }
      return database
    } catch {
      await database.close()
      guard let lost = error as? DatabaseError, lost.code == .connectionLost else { throw error }
      throw await settings.obstacle()
    }
  }

  /// Runs a statement outside of a transaction, as `CREATE DATABASE` wants to be: for tests.
  package static func runAlone(_ sql: String, url: String) async throws {
    let settings = try PostgreSQLSettings(url: url, statementTimeout: Options().statementTimeout)
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      DispatchQueue(label: "PostgreSQL operator").async {
        continuation.resume(
          with: Result { try PostgreSQLHandle(settings, preparedStatements: 1).runScript(sql) })
      }
    }
  }
}
