/// Runs one caller's statements in a transaction or a snapshot.
package final class SQLiteConnection: Connection {
  private let handle: SQLiteHandle

  /// The first failure, after which all statements fail, as on PostgreSQL. SQLite would continue, and after
  /// it has rolled back by itself, as on a full disk, it would commit each further statement alone.
  private var failure: DatabaseError?

  package init(_ handle: SQLiteHandle) {
    self.handle = handle
  }

  /// Runs the caller's `body`. Throws a statement's failure even if `body` ignores it.
  package func run(_ body: (any Connection) throws -> Void) throws {
    try body(self)
    if let failure { throw failure }
  }

  package func query(_ statement: Statement) throws(DatabaseError) -> [Row] {
    try inTransaction { () throws(DatabaseError) in try handle.query(statement) }
  }

  @discardableResult
  package func run(_ statement: Statement) throws(DatabaseError) -> Int {
    try inTransaction { () throws(DatabaseError) in try handle.run(statement) }
  }

  package func runScript(_ sql: String) throws(DatabaseError) {
    try inTransaction { () throws(DatabaseError) in try handle.runScript(sql) }
  }

  /// Nothing to do, since SQLite has one writer at a time.
  package func lockSchema() {}

  private func inTransaction<Result>(_ work: () throws(DatabaseError) -> Result) throws(DatabaseError)
    -> Result
  {
    if let failure { throw failure }
    do throws(DatabaseError) {
      let result = try work()
      if !handle.isInTransaction {
        throw DatabaseError(.other, "a statement ended the transaction that it ran in")
      }
      return result
    } catch {
      failure = error
      throw error
    }
  }
}
