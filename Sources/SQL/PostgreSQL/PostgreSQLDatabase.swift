import Dispatch

/// A database on a PostgreSQL server, of version 15 or later.
///
/// Reads are snapshots, transactions are serializable, both on a pool of connections that is shared
/// by turns; single statements are committed together on a connection of their own, which costs
/// one round trip and one fsync for all that have gathered. Other programs may use the same
/// database.
package final class PostgreSQLDatabase: Database {
  package let engine = DatabaseEngine.postgreSQL

  let transactions: JobQueue<PostgreSQLTransaction>
  let writes: JobQueue<PostgreSQLWrite>

  private init(_ settings: PostgreSQLSettings, _ options: Options, observer: DatabaseObserver?) {
    let repetition = Repetition()
    let makeWorker = {
      PostgreSQLWorker(
        settings, preparedStatements: options.preparedStatements, repetition, observer: observer)
    }
    let workers = (0..<options.connections).map { _ in makeWorker() }
    transactions = JobQueue(
      label: "PostgreSQL", workers: options.connections, maximumGroup: 1,
      maximumWaiting: options.maximumWaiting, waitLimit: .seconds(options.waitLimit), observer: observer,
      perform: { worker, jobs in for job in jobs { workers[worker].perform(job) } },
      end: { workers[$0].close() })
    let writer = makeWorker()
    writes = JobQueue(
      label: "PostgreSQL w", workers: 1, maximumGroup: options.maximumWriteGroup,
      maximumWaiting: options.maximumWaiting, waitLimit: .seconds(options.waitLimit), observer: observer,
      perform: { writer.commit($1[...]) }, end: { _ in writer.close() })
  }

  deinit {
    transactions.finish()
    writes.finish()
  }

  /// Runs `work` in a snapshot, or in a serializable transaction; up to ten times if others get in the way.
  package func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await transactions.perform(
      PostgreSQLTransaction(kind: kind, body: work), observedAs: kind.operation)
  }

  package func query(_ statement: Statement) async throws -> [Row] {
    try await read { try $0.query(statement) }
  }

  /// A server is always waited for.
  package func rowsAtOnce(_ statement: Statement) -> [Row]? { nil }

  package func execute(_ statement: Statement) async throws -> [Row] {
    let rows = Kept<[Row]>()
    try await writes.perform(
      PostgreSQLWrite(statement: try PostgreSQLStatement(statement), rows: rows), observedAs: .write)
    return rows.value ?? []
  }

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
      // Not observed: it is no call of the program's.
      try await database.transactions.perform(
        PostgreSQLTransaction(kind: .read) { _ = try $0.query(Statement("SELECT 1")) }, observedAs: nil)
      return database
    } catch {
      await database.close()
      throw PostgreSQLSettings.unreachable(error)
    }
  }

  /// Runs a statement outside of a transaction, as `CREATE DATABASE` wants to be: for tests.
  package static func runAlone(_ sql: String, url: String) async throws {
    let settings = try PostgreSQLSettings(url: url, statementTimeout: Options().statementTimeout)
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      DispatchQueue(label: "PostgreSQL operator").async {
        continuation.resume(
          with: Result { try PostgreSQLHandle(settings).runScript(sql) })
      }
    }
  }
}
