import Dispatch

/// A database on a PostgreSQL server, version 15 or later.
///
/// Snapshots and serializable transactions share a pool of connections. Single statements go in groups over connections of
/// their own, with one round trip for each group: writes in the order of their arguments, with one fsync, and lookups.
/// Other programs may use the same database.
package final class PostgreSQLDatabase: Database {
  package let engine = DatabaseEngine.postgreSQL

  let transactions: JobQueue<PostgreSQLTransaction>
  let lookups: JobQueue<PostgreSQLSingle>
  let writes: JobQueue<PostgreSQLSingle>
  private let met: DatabaseTrouble

  private init(_ settings: PostgreSQLSettings, _ options: Options, observer: DatabaseObserver?) {
    let repetition = Repetition()
    let watch = PrimaryWatch(settings)
    let met = DatabaseTrouble()
    self.met = met
    let makeWorker = {
      PostgreSQLWorker(
        settings, watch: watch, trouble: met, preparedStatements: options.preparedStatements, repetition,
        observer: observer)
    }
    let workers = (0..<options.connections).map { _ in makeWorker() }
    transactions = JobQueue(
      label: "PostgreSQL", workers: options.connections, maximumGroup: 1,
      maximumWaiting: options.maximumWaiting, waitLimit: .seconds(options.waitLimit), trouble: met,
      observer: observer,
      perform: { worker, jobs in for job in jobs { workers[worker].perform(job) } },
      end: { workers[$0].close() })
    let readers = (0..<options.lookupConnections).map { _ in makeWorker() }
    lookups = JobQueue(
      label: "PostgreSQL r", workers: options.lookupConnections, maximumGroup: options.maximumLookupGroup,
      maximumWaiting: options.maximumWaiting, waitLimit: .seconds(options.waitLimit), trouble: met,
      observer: observer,
      perform: { readers[$0].lookUp($1) }, end: { readers[$0].close() })
    let writer = makeWorker()
    writes = JobQueue(
      label: "PostgreSQL w", workers: 1, maximumGroup: options.maximumWriteGroup,
      maximumWaiting: options.maximumWaiting, waitLimit: .seconds(options.waitLimit), trouble: met,
      observer: observer,
      perform: { _, jobs in
        // All nodes lock in the same order, so that no two deadlock on each other's rows.
        writer.commit(jobs.sorted { $0.work.statement.comes(before: $1.work.statement) }[...])
      }, end: { _ in writer.close() })
  }

  deinit {
    transactions.finish()
    lookups.finish()
    writes.finish()
  }

  /// Runs `work` in a snapshot or a serializable transaction, and again while it conflicts with others: ten times, and
  /// more often for as long as a call waits for a connection.
  package func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await transactions.perform(
      PostgreSQLTransaction(kind: kind, body: work), observedAs: kind.operation)
  }

  package func query(_ statement: Statement) async throws -> [Row] {
    try await read { try $0.query(statement) }
  }

  package var trouble: DatabaseTrouble.Cause? { met.current }

  package func rowsByKey(_ statement: Statement) async throws -> [Row] {
    try await rows(of: statement, from: lookups, observedAs: .read)
  }

  package func execute(_ statement: Statement) async throws -> [Row] {
    try await rows(of: statement, from: writes, observedAs: .write)
  }

  private func rows(
    of statement: Statement, from queue: JobQueue<PostgreSQLSingle>, observedAs operation: DatabaseOperation
  ) async throws -> [Row] {
    let rows = Kept<[Row]>()
    try await queue.perform(
      PostgreSQLSingle(statement: try PostgreSQLStatement(statement), rows: rows), observedAs: operation)
    return rows.value ?? []
  }

  package func close() async {
    await transactions.close()
    await lookups.close()
    await writes.close()
  }
}

extension PostgreSQLDatabase {
  /// How a PostgreSQL database is used.
  package struct Options: Sendable {
    /// How many snapshots and transactions run at once. One more connection is for single writes.
    package var connections = 6
    /// How many groups of lookups run at once.
    var lookupConnections = 2
    /// Most lookups that share a round trip.
    var maximumLookupGroup = 64
    /// Most single statements that share a commit.
    package var maximumWriteGroup = 512
    /// Most calls of a kind that wait for a connection.
    var maximumWaiting = 16_384
    /// How long a call waits for a connection, in seconds.
    package var waitLimit = 10.0
    /// How long a statement may run, in milliseconds.
    var statementTimeout = 30_000
    /// How long the server may be silent, in seconds, before its connection is closed. Longer than a
    /// statement may run.
    package var longestSilence = 40.0
    /// How many prepared statements each connection keeps.
    var preparedStatements = 256

    package init() {}
  }

  /// Opens the existing database at a `postgres://` URL.
  ///
  /// libpq reads the URL, with its options, and its own environment variables and files. If none of them sets
  /// `sslmode`, connections to other machines require TLS (`require`); `verify-full` with `sslrootcert` also
  /// verifies the server.
  ///
  /// - Throws: ``DatabaseError``: ``DatabaseError/Code/invalidURL``, or why no connection was made within
  ///   ``Options/waitLimit``.
  package static func open(
    url: String, options: Options = Options(), observer: DatabaseObserver? = nil
  ) async throws -> PostgreSQLDatabase {
    let settings = try PostgreSQLSettings(
      url: url, statementTimeout: options.statementTimeout, longestSilence: .seconds(options.longestSilence))
    let database = PostgreSQLDatabase(settings, options, observer: observer)
    do {
      // Not observed, because it is no call of the program.
      try await database.transactions.perform(
        PostgreSQLTransaction(kind: .read) { _ = try $0.query(Statement("SELECT 1")) }, observedAs: nil)
      try await alone { try checkSessions(settings) }
      return database
    } catch {
      await database.close()
      // A pooler that pools single statements only ends a connection that begins a transaction.
      if (error as? DatabaseError)?.code == .connectionLost {
        do {
          try await alone { try checkSessions(settings) }
        } catch let pooled as DatabaseError where pooled.code == .pooled {
          throw pooled
        } catch {}
      }
      throw PostgreSQLSettings.unreachable(error)
    }
  }

  /// Runs a statement outside of a transaction, as `CREATE DATABASE` requires. For tests.
  package static func runAlone(_ sql: String, url: String) async throws {
    let settings = try PostgreSQLSettings(url: url, statementTimeout: Options().statementTimeout)
    try await alone { try PostgreSQLHandle(settings).runScript(sql) }
  }

  /// Runs `body`, which blocks, on a thread of its own.
  private static func alone(_ body: @escaping @Sendable () throws -> Void) async throws {
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      DispatchQueue(label: "PostgreSQL operator").async { continuation.resume(with: Result(catching: body)) }
    }
  }

  /// Throws ``DatabaseError/Code/pooled`` if two connections have the same session of the server, one after the other.
  private static func checkSessions(_ settings: PostgreSQLSettings) throws {
    let first = try PostgreSQLHandle(settings)
    let second = try PostgreSQLHandle(settings)
    // A pooler that has several sessions may give each of them another one, but not again and again.
    for _ in 0..<5 where try first.session() == second.session() {
      throw DatabaseError(.pooled, "two connections have the same session of the server")
    }
  }
}
