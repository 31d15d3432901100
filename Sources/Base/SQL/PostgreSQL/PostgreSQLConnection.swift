/// A transaction or a snapshot on a connection. `BEGIN` is sent together with the first statement.
final class PostgreSQLConnection: Connection {
  private let handle: PostgreSQLHandle
  private let begin: StaticString
  private var hasBegun = false

  private var failures = FirstFailure()

  var failure: DatabaseError? { failures.first }

  /// Whether `COMMIT` was sent, so that the server may have committed.
  private(set) var isCommitting = false

  init(_ handle: PostgreSQLHandle, begin: StaticString) {
    self.handle = handle
    self.begin = begin
  }

  func query(_ statement: Statement) throws -> [Row] { try output(of: statement).rows }

  @discardableResult
  func run(_ statement: Statement) throws -> Int { try output(of: statement).changedRows }

  func runScript(_ sql: String) throws {
    try failures.inTransaction(isOpen: handle.isInTransaction) { () throws(DatabaseError) in
      if !hasBegun {
        hasBegun = true
        if let failure = try handle.exchange([.text(begin)]).failure { throw failure }
      }
      try handle.runScript(sql)
    }
  }

  func lockSchema() throws {
    // An arbitrary number, the same in all versions of this program. Migrations, and processes that wait for
    // them, may take long.
    handle.longestSilence = nil
    try runScript(
      """
      SET LOCAL statement_timeout = '1h'; SET LOCAL lock_timeout = 0;
      SELECT pg_advisory_xact_lock(8102661155420761709);
      SET LOCAL lock_timeout = '1s'
      """)
  }

  func commit() throws(DatabaseError) {
    guard hasBegun else { return }
    isCommitting = true
    if let failure = try handle.exchange([.text("COMMIT")]).failure { throw failure }
  }

  /// Rolls back without waiting for the answer. If the connection breaks, the server rolls back as well.
  func end() {
    if handle.isInTransaction { try? handle.send([.text("ROLLBACK")]) }
  }

  private func output(of statement: Statement) throws(DatabaseError) -> PostgreSQLHandle.Output {
    let statement = try PostgreSQLStatement(statement)
    return try failures.inTransaction(isOpen: handle.isInTransaction) { () throws(DatabaseError) in
      defer { hasBegun = true }
      return try handle.output(of: statement, after: hasBegun ? nil : begin)
    }
  }
}
