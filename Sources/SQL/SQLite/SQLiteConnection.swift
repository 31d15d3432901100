/// What one caller runs inside a transaction or a snapshot of a handle.
package final class SQLiteConnection: Connection {
  private let handle: SQLiteHandle

  /// What went wrong. SQLite would go on after it; PostgreSQL does not. Nor may it go on where SQLite has rolled the
  /// transaction back by itself, as on a full disk: a statement after that would be committed at once and alone.
  private var failure: DatabaseError?

  package init(_ handle: SQLiteHandle) {
    self.handle = handle
  }

  /// Runs all that the caller wants done; throws what failed even if `body` thinks nothing of it.
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

  /// There is one writer, whatever it writes.
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
