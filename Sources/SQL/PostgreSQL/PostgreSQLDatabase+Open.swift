import Dispatch

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
    package var patience = 10.0
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
  ///   ``Options/patience``.
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
