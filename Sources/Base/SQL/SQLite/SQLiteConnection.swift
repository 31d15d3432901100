/// Runs one caller's statements in a transaction or a snapshot.
package final class SQLiteConnection: Connection {
  private let handle: SQLiteHandle

  private var failures = FirstFailure()

  package init(_ handle: SQLiteHandle) {
    self.handle = handle
  }

  /// Runs the caller's `body`. Throws a statement's failure even if `body` ignores it.
  package func run(_ body: (any Connection) throws -> Void) throws {
    try body(self)
    if let failure = failures.first { throw failure }
  }

  package func query(_ statement: Statement) throws(DatabaseError) -> [Row] {
    try failures.inTransaction(isOpen: handle.isInTransaction) { () throws(DatabaseError) in
      try handle.query(statement)
    }
  }

  @discardableResult
  package func run(_ statement: Statement) throws(DatabaseError) -> Int {
    try failures.inTransaction(isOpen: handle.isInTransaction) { () throws(DatabaseError) in
      try handle.run(statement)
    }
  }

  package func runScript(_ sql: String) throws(DatabaseError) {
    try failures.inTransaction(isOpen: handle.isInTransaction) { () throws(DatabaseError) in
      try handle.runScript(sql)
    }
  }

  /// Nothing to do, since SQLite has one writer at a time.
  package func lockSchema() {}
}
