/// A relational database as the repositories see it: one SQL, whichever engine runs it.
///
/// Statements are written in what SQLite 3.40 and PostgreSQL 15 share, with numbered
/// parameters (`$1`, `$2`, ...). Times are integers, milliseconds since 1970 UTC; flags are the
/// integers 0 and 1; byte strings are BLOB or BYTEA. A sum is `CAST(sum(x) AS BIGINT)`, because
/// PostgreSQL's is of a type of its own. Constraints are immediate: a deferred one would be
/// checked only by the commit that several callers share.
///
/// Every write that has returned is durable: it survives `kill -9` and power loss. A read that
/// begins after a write has returned sees it. Cancelling a task does not withdraw what it has
/// asked of the database. Errors are ``DatabaseError``, or what a body threw.
package protocol Database: Sendable {
  /// Only what a migration is made of, and how its catalog is asked, depends on it.
  var engine: DatabaseEngine { get }

  /// Runs `work` in a transaction, or in a snapshot that can only be read; see ``read(_:)`` and ``write(_:)``.
  func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws

  /// Runs one reading statement in a snapshot of its own; cheaper than ``read(_:)``.
  func query(_ statement: Statement) async throws -> [Row]

  /// The rows of one `SELECT` by a key, if they can be had here and now; nil where that could take long, and where it
  /// fails. For ``lookUp(_:)``.
  func rowsAtOnce(_ statement: Statement) -> [Row]?

  /// Runs one writing statement in a transaction of its own; cheaper than ``write(_:)``.
  func execute(_ statement: Statement) async throws -> [Row]

  /// Finishes what has begun and closes. Later calls throw ``DatabaseError/Code/closed``; closing again does nothing.
  func close() async
}

extension Database {
  /// Runs `body` in a read-only snapshot, beside other readers and the writer.
  package func read<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    try await result(.read, body)
  }

  /// Runs `body` in a transaction, as though no other were running. What it throws rolls back what
  /// it wrote, and nothing else.
  ///
  /// `body` keeps other writers waiting, so it does no I/O of its own. It may be run more than once,
  /// each time as though for the first, so it has no effects but on the connection. It has no need
  /// of `BEGIN`, `COMMIT` or `ROLLBACK`, which would fail it together with others.
  package func write<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    try await result(.write, body)
  }

  /// The rows of one `SELECT` that finds a few by their keys, which is done before another thread could be told of it:
  /// it runs on the caller's where the engine can do that.
  package func lookUp(_ statement: Statement) async throws -> [Row] {
    // Many keys take long enough to be looked up elsewhere.
    if statement.arguments.count < 100, let rows = rowsAtOnce(statement) { return rows }
    return try await query(statement)
  }

  /// The rows that a `SELECT` with `IN ($list)` finds by their keys: one statement, unless there are more keys than one
  /// can have.
  package func lookUp(_ sql: String, _ arguments: Value..., list: [Value]) async throws -> [Row] {
    // A power of two, as lists are padded.
    let size = 16_384
    if list.count <= size { return try await lookUp(Statement(sql, arguments, list: list)) }
    var rows: [Row] = []
    for start in stride(from: 0, to: list.count, by: size) {
      let part = Array(list[start..<min(start + size, list.count)])
      rows += try await lookUp(Statement(sql, arguments, list: part))
    }
    return rows
  }

  private func result<Result: Sendable>(
    _ kind: TransactionKind, _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    let result = Kept<Result>()
    try await transaction(kind) { result.value = try body($0) }
    // A transaction that went well has run the body to its end.
    return result.value!
  }
}

package enum TransactionKind: Sendable {
  /// Only reads: it is a snapshot.
  case read
  case write

  /// What waiting for one is observed as.
  var operation: DatabaseOperation {
    switch self {
    case .read: .read
    case .write: .write
    }
  }
}

package enum DatabaseEngine: String, Sendable, CaseIterable {
  /// SQLite, from 3.40.
  case sqlite = "SQLite"
  /// PostgreSQL, from 15.
  case postgreSQL = "PostgreSQL"
}

/// What a transaction or a snapshot can run. After a statement that has failed, a transaction runs
/// nothing more.
package protocol Connection {
  /// Runs a statement and returns its rows: those of a `SELECT` or of a `RETURNING`.
  func query(_ statement: Statement) throws -> [Row]

  /// Runs a statement and returns how many rows it changed.
  @discardableResult
  func run(_ statement: Statement) throws -> Int

  /// Runs any number of statements without parameters, one after the other, and keeps none of
  /// them prepared: what migrations are made of.
  func runScript(_ sql: String) throws

  /// Keeps other programs from changing the schema until the transaction ends.
  func lockSchema() throws
}

/// What a ``DatabaseObserver`` is told the duration of.
package enum DatabaseOperation: String, Sendable, CaseIterable {
  /// A call of ``Database/read(_:)`` or ``Database/query(_:)``, from asking to answer.
  case read
  /// A call of ``Database/write(_:)`` or ``Database/execute(_:)``, from asking to durable.
  case write
  /// One commit, of everything that had gathered.
  case commit
}

/// Told how long each operation took, whether it failed or not. Called on the database's own
/// threads, so it must be quick.
package typealias DatabaseObserver = @Sendable (DatabaseOperation, Duration) -> Void

/// Tells an observer how long a commit takes.
func observingCommit<Result>(_ observer: DatabaseObserver?, _ commit: () throws -> Result) rethrows -> Result
{
  let start = ContinuousClock.now
  defer { observer?(.commit, .now - start) }
  return try commit()
}
