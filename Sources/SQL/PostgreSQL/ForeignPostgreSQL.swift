import Dispatch
import Synchronization

/// The PostgreSQL database of another program, as it is at one moment: a repeatable-read snapshot that
/// can only be read, on one connection with a thread of its own.
///
/// Results are streamed with the server's cursors, so memory does not grow with the tables. Columns are
/// of the types that ``Row`` knows; of others ask for `column::text`. Times are then in ISO 8601 and UTC.
package final class ForeignPostgreSQL: Sendable {
  private let queue = DispatchQueue(label: "Foreign PostgreSQL")
  private let cursors = Atomic(0)
  /// Locked by the queue only, hence never waited for.
  private let handle = Mutex<PostgreSQLHandle?>(nil)

  private init() {}

  /// Runs `body` with a snapshot of the database that a `postgres://` URL names, and closes it.
  ///
  /// - Throws: ``DatabaseError``: ``DatabaseError/Code/invalidURL`` if the URL names another engine,
  ///   or why there is no connection; or what `body` threw.
  package static func snapshot<Result>(
    of url: DatabaseURL, _ body: (ForeignPostgreSQL) async throws -> Result
  ) async throws -> Result {
    guard case .postgreSQL(let text) = url.target else {
      throw DatabaseError(.invalidURL, "a snapshot is read from postgres://USER:PASSWORD@HOST:PORT/NAME")
    }
    let snapshot = ForeignPostgreSQL()
    let settings = try PostgreSQLSettings(url: text, statementTimeout: 0)
    do {
      try await snapshot.begin(settings)
    } catch {
      throw PostgreSQLSettings.unreachable(error)
    }
    do {
      let result = try await body(snapshot)
      await snapshot.close()
      return result
    } catch {
      await snapshot.close()
      throw error
    }
  }

  /// The rows of a statement that has few.
  package func query(_ statement: Statement) async throws -> [Row] {
    let statement = try PostgreSQLStatement(statement)
    return try await onQueue { try $0?.output(of: statement).rows } ?? []
  }

  /// Begins to read the rows of a `SELECT`, which may have any number.
  ///
  /// - Parameter batch: how many rows the cursor gives at a time.
  package func cursor(_ statement: Statement, batch: Int) async throws -> Cursor {
    let name = "foreign_\(cursors.add(1, ordering: .relaxed).newValue)"
    _ = try await query(
      Statement("DECLARE \(name) NO SCROLL CURSOR FOR \(statement.sql)", arguments: statement.arguments))
    return Cursor(database: self, fetch: Statement("FETCH \(batch) FROM \(name)"))
  }

  /// Rows that are fetched as they are asked for.
  package struct Cursor: Sendable {
    fileprivate let database: ForeignPostgreSQL
    fileprivate let fetch: Statement

    /// The next rows; none at the end.
    package func next() async throws -> [Row] { try await database.query(fetch) }
  }

  private func begin(_ settings: PostgreSQLSettings) async throws {
    try await onQueue { held in
      let handle = try PostgreSQLHandle(settings)
      // Who reads on may have waited for a disk of its own for long.
      try handle.runScript(
        """
        BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;
        SET LOCAL idle_in_transaction_session_timeout = 0;
        SET LOCAL TimeZone = 'UTC';
        SET LOCAL DateStyle = 'ISO, YMD';
        """)
      held = handle
    }
  }

  private func close() async {
    // Ends the transaction too. There is nothing to keep, so nothing can fail.
    try? await onQueue { $0 = nil }
  }

  private func onQueue<Result: Sendable>(
    _ body: @escaping @Sendable (inout PostgreSQLHandle?) throws -> Result
  ) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
      queue.async {
        continuation.resume(with: Swift.Result { try self.handle.withLock { try body(&$0) } })
      }
    }
  }
}
