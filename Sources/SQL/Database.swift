/// A relational database as the repositories see it: one SQL, whichever engine runs it.
///
/// Statements are written in what SQLite 3.40 and PostgreSQL 15 share, with numbered
/// parameters (`$1`, `$2`, ...). Times are integers, milliseconds since 1970 UTC; flags are the
/// integers 0 and 1; byte strings are BLOB or BYTEA.
///
/// Every write that has returned is durable: it survives `kill -9` and power loss.
public protocol Database: Sendable {
  /// Runs `body` in a read-only snapshot, beside other readers and the writer.
  func read<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result

  /// Runs `body` in a transaction. What it throws rolls back what it wrote, and nothing else.
  func write<Result: Sendable>(
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) async throws -> Result

  /// Runs one writing statement in a transaction of its own; cheaper than ``write(_:)``.
  func execute(_ statement: Statement) async throws -> [Row]

  /// Finishes what has begun and closes. Later calls throw ``DatabaseError/Code/closed``.
  func close() async
}

/// What a transaction or a snapshot can run.
public protocol Connection {
  /// Runs a statement and returns its rows: those of a `SELECT` or of a `RETURNING`.
  func query(_ statement: Statement) throws -> [Row]

  /// Runs a statement and returns how many rows it changed.
  @discardableResult
  func run(_ statement: Statement) throws -> Int
}

/// SQL text with its arguments. The text is the key under which the prepared statement is kept,
/// so it is never assembled from values.
public struct Statement: Sendable {
  /// SQL with numbered parameters, `$1` being the first of ``arguments``.
  public let sql: String

  /// One value per parameter, in the order of their numbers.
  public let arguments: [Value]

  /// Pairs SQL text with its arguments.
  public init(_ sql: String, _ arguments: Value...) {
    self.init(sql, arguments: arguments)
  }

  /// Pairs SQL text with a list of arguments.
  public init(_ sql: String, arguments: [Value]) {
    self.sql = sql
    self.arguments = arguments
  }
}
