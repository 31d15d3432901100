import Dispatch
import Synchronization

/// Reads the PostgreSQL database of another program in a read-only repeatable-read snapshot, over one
/// connection with its own thread.
///
/// Results are streamed with server-side cursors, so memory does not grow with the tables. Columns must have
/// types that ``Row`` supports; cast others with `column::text`. Times are then ISO 8601 in UTC.
package final class ForeignPostgreSQL: Sendable {
  private let queue = DispatchQueue(label: "Foreign PostgreSQL")
  private let cursors = Atomic(0)
  /// Locked only on the queue, so without contention.
  private let handle = Mutex<PostgreSQLHandle?>(nil)

  private init() {}

  /// Runs `body` with a snapshot of the database at a `postgres://` URL, and closes it.
  ///
  /// - Throws: ``DatabaseError/Code/invalidURL`` for another engine, another ``DatabaseError`` if connecting
  ///   fails, or what `body` threw.
  package static func snapshot<Result>(
    of url: DatabaseURL, _ body: (ForeignPostgreSQL) async throws -> Result
  ) async throws -> Result {
    guard case .postgreSQL(let text) = url.target else {
      throw DatabaseError(.invalidURL, "a snapshot is read from postgres://USER:PASSWORD@HOST:PORT/NAME")
    }
    let snapshot = ForeignPostgreSQL()
    let settings = try PostgreSQLSettings(url: text, statementTimeout: 0, mustTakeWrites: false)
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

  /// Runs a statement that returns few rows.
  package func query(_ statement: Statement) async throws -> [Row] {
    let statement = try PostgreSQLStatement(statement)
    return try await onQueue { try $0?.output(of: statement).rows } ?? []
  }

  /// Opens a cursor for a `SELECT` with any number of rows.
  ///
  /// - Parameter batch: how many rows to fetch at a time.
  package func cursor(_ statement: Statement, batch: Int) async throws -> Cursor {
    let name = "foreign_\(cursors.add(1, ordering: .relaxed).newValue)"
    _ = try await query(
      Statement("DECLARE \(name) NO SCROLL CURSOR FOR \(statement.sql)", arguments: statement.arguments))
    return Cursor(database: self, fetch: Statement("FETCH \(batch) FROM \(name)"))
  }

  /// Rows that are fetched in batches, on demand.
  package struct Cursor: Sendable {
    fileprivate let database: ForeignPostgreSQL
    fileprivate let fetch: Statement

    /// The next batch; empty at the end.
    package func next() async throws -> [Row] { try await database.query(fetch) }
  }

  private func begin(_ settings: PostgreSQLSettings) async throws {
    try await onQueue { held in
      let handle = try PostgreSQLHandle(settings)
      // The reader may pause for long between batches, for example for a slow disk.
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
    // Also ends the transaction. Nothing was written, so errors do not matter.
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
