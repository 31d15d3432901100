/// A relational database that runs the same SQL on every engine.
///
/// Statements use what SQLite 3.40 and PostgreSQL 15 share, with numbered parameters (`$1`, `$2`, ...). Times
/// are integers, in milliseconds since 1970 UTC; flags are the integers 0 and 1; byte strings are BLOB or
/// BYTEA. Sums are `CAST(sum(x) AS BIGINT)`, because PostgreSQL's sum has another type. Constraints are
/// immediate: a deferred one would be checked only by a commit that several callers share.
///
/// A write that has returned is durable: it survives `kill -9` and power loss, and reads that begin later see
/// it. Cancelling a task does not withdraw its calls. Errors are ``DatabaseError``, or what a body threw.
package protocol Database: Sendable {
  /// Needed only for migrations and for reading the catalog.
  var engine: DatabaseEngine { get }

  /// Runs `work` in a transaction or a read-only snapshot; see ``read(_:)`` and ``write(_:)``.
  func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws

  /// Runs one reading statement in its own snapshot. Cheaper than ``read(_:)``.
  func query(_ statement: Statement) async throws -> [Row]

  /// The rows of a `SELECT` by key, read on the caller's thread; nil if that could take long, or fails. For
  /// ``lookUp(_:)``.
  func rowsAtOnce(_ statement: Statement) -> [Row]?

  /// The rows of a `SELECT` by key, which may share a round trip with other callers'. For ``lookUp(_:)``.
  func rowsByKey(_ statement: Statement) async throws -> [Row]

  /// Runs one writing statement in its own transaction. Cheaper than ``write(_:)``.
  ///
  /// It shares a commit with other callers' statements, which lock rows in the order of their arguments. So that those
  /// of other nodes do so in the same order, the first arguments are the key of the row that it writes.
  func execute(_ statement: Statement) async throws -> [Row]

  /// What keeps it from working, as far as its connections know; nil if they have met nothing, or it has passed.
  var trouble: DatabaseTrouble.Cause? { get }

  /// Throws if writes fail because the database's files are not at their paths any more, which no read shows. Takes
  /// microseconds.
  func checkFiles() throws

  /// Finishes calls under way and closes. Later calls throw ``DatabaseError/Code/closed``; closing again does
  /// nothing.
  func close() async
}

extension Database {
  package var trouble: DatabaseTrouble.Cause? { nil }

  package func rowsAtOnce(_ statement: Statement) -> [Row]? { nil }

  package func rowsByKey(_ statement: Statement) async throws -> [Row] { try await query(statement) }

  /// A server looks after its own files.
  package func checkFiles() throws {}

  /// Runs `body` in a read-only snapshot, concurrently with other readers and the writer.
  package func read<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    try await result(.read, body)
  }

  /// Runs `body` in a serializable transaction. An error rolls back what it wrote, and nothing else.
  ///
  /// Other writers wait for `body`, so it must do no I/O of its own. It may run more than once, so it must
  /// have no effect except on the database. It must not use `BEGIN`, `COMMIT` or `ROLLBACK`, because other
  /// callers may share the transaction.
  package func write<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result {
    try await result(.write, body)
  }

  package func query(_ sql: String, _ arguments: Value..., list: [Value]? = nil) async throws -> [Row] {
    try await query(Statement(sql, arguments, list: list))
  }

  @discardableResult
  package func execute(_ sql: String, _ arguments: Value..., list: [Value]? = nil) async throws -> [Row] {
    try await execute(Statement(sql, arguments, list: list))
  }

  /// Runs one writing statement and returns how many rows it changed.
  @discardableResult
  package func run(_ sql: String, _ arguments: Value..., list: [Value]? = nil) async throws -> Int {
    let statement = Statement(sql, arguments, list: list)
    return try await write { try $0.run(statement) }
  }

  package func lookUp(_ sql: String, _ arguments: Value...) async throws -> [Row] {
    try await lookUp(Statement(sql, arguments: arguments))
  }

  /// The rows of a `SELECT` that finds a few rows by key. Runs on the caller's thread if the engine can do
  /// that, since switching threads would take longer than the lookup; else together with other callers' lookups.
  package func lookUp(_ statement: Statement) async throws -> [Row] {
    // Many keys take long enough for another thread, and others would have to wait for them.
    guard statement.arguments.count < 100 else { return try await query(statement) }
    if let rows = rowsAtOnce(statement) { return rows }
    return try await rowsByKey(statement)
  }

  /// The rows that a `SELECT` with `IN ($list)` finds by key. Uses several statements if there are more keys
  /// than one can have.
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
    // A transaction that succeeded has run the body to its end.
    return result.value!
  }
}

package enum TransactionKind: Sendable {
  /// A read-only snapshot.
  case read
  case write

  /// The operation under which its duration is observed.
  var operation: DatabaseOperation { self == .read ? .read : .write }
}

package enum DatabaseEngine: String, Sendable, CaseIterable {
  /// SQLite, from 3.40.
  case sqlite = "SQLite"
  /// PostgreSQL, from 15.
  case postgreSQL = "PostgreSQL"
}

/// Runs statements in a transaction or a snapshot. After a statement has failed, all later ones fail.
package protocol Connection {
  /// Runs a statement and returns the rows of its `SELECT` or `RETURNING`.
  func query(_ statement: Statement) throws -> [Row]

  /// Runs a statement and returns how many rows it changed.
  @discardableResult
  func run(_ statement: Statement) throws -> Int

  /// Runs several statements without parameters, and does not keep them prepared. For migrations.
  func runScript(_ sql: String) throws

  /// Keeps other programs from changing the schema until the transaction ends. Whatever else it then locks it waits for a
  /// second at most, and fails with ``DatabaseError/Code/busy``, so that nobody waits long behind it.
  func lockSchema() throws
}

/// The first failure in a transaction, after which all statements fail, even if the body ignores the error. SQLite by
/// itself would continue, and after it has rolled back, as on a full disk, commit each further statement alone.
struct FirstFailure {
  private(set) var first: DatabaseError?

  /// Does the work of a statement, unless one has failed before.
  mutating func inTransaction<Result>(
    isOpen: @autoclosure () -> Bool, _ work: () throws(DatabaseError) -> Result
  ) throws(DatabaseError) -> Result {
    if let first { throw first }
    do throws(DatabaseError) {
      let result = try work()
      guard isOpen() else {
        throw DatabaseError(.other, "a statement ended the transaction that it ran in")
      }
      return result
    } catch {
      first = error
      throw error
    }
  }
}

extension Connection {
  package func query(_ sql: String, _ arguments: Value..., list: [Value]? = nil) throws -> [Row] {
    try query(Statement(sql, arguments, list: list))
  }

  @discardableResult
  package func run(_ sql: String, _ arguments: Value..., list: [Value]? = nil) throws -> Int {
    try run(Statement(sql, arguments, list: list))
  }
}

/// An operation whose duration a ``DatabaseObserver`` gets.
package enum DatabaseOperation: String, Sendable, CaseIterable {
  /// A call of ``Database/read(_:)`` or ``Database/query(_:)``, from the call to its answer.
  case read
  /// A call of ``Database/write(_:)`` or ``Database/execute(_:)``, from the call until it is durable.
  case write
  /// One commit, of all the calls that share it.
  case commit
}

/// Gets the duration of each operation, also of failed ones. Called on the database's threads, so it must be
/// fast.
package typealias DatabaseObserver = @Sendable (DatabaseOperation, Duration) -> Void

func observingCommit<Result>(_ observer: DatabaseObserver?, _ commit: () throws -> Result) rethrows -> Result
{
  let start = ContinuousClock.now
  defer { observer?(.commit, .now - start) }
  return try commit()
}
