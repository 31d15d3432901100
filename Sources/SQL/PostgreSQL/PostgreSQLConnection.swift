/// A connection inside a transaction or a snapshot, which begins with the first statement: both are
/// sent together.
final class PostgreSQLConnection: Connection {
  private let handle: PostgreSQLHandle
  private let begin: StaticString
  private var hasBegun = false

  /// What ended the transaction. PostgreSQL runs nothing after a statement that failed; here too
  /// everything after it fails, even if the body thinks nothing of it.
  private(set) var failure: DatabaseError?

  /// Whether the server may have committed.
  private(set) var isCommitting = false

  init(_ handle: PostgreSQLHandle, begin: StaticString) {
    self.handle = handle
    self.begin = begin
  }

  func query(_ statement: Statement) throws -> [Row] { try output(of: statement).rows }

  @discardableResult
  func run(_ statement: Statement) throws -> Int { try output(of: statement).changedRows }

  func runScript(_ sql: String) throws {
    try inTransaction { () throws(DatabaseError) in
      if !hasBegun {
        hasBegun = true
        if let failure = try handle.exchange([.text(begin)]).failure { throw failure }
      }
      try handle.runScript(sql)
    }
  }

  func lockSchema() throws {
    // The number is of no meaning but to be the same in every one of these programs. A migration
    // may take its time, and so may others that wait for it.
    handle.longestSilence = nil
    try runScript("SET LOCAL statement_timeout = '1h'; SELECT pg_advisory_xact_lock(8102661155420761709)")
  }

  /// Makes what was written durable.
  func commit() throws(DatabaseError) {
    guard hasBegun else { return }
    isCommitting = true
    if let failure = try handle.exchange([.text("COMMIT")]).failure { throw failure }
  }

  /// Ends what has not been committed, without waiting for the answer. A connection that breaks in
  /// this moment ends it too.
  func end() {
    if handle.isInTransaction { try? handle.send([.text("ROLLBACK")]) }
  }

  private func output(of statement: Statement) throws(DatabaseError) -> PostgreSQLHandle.Output {
    let statement = try PostgreSQLStatement(statement)
    return try inTransaction { () throws(DatabaseError) in
      defer { hasBegun = true }
      return try handle.output(of: statement, after: hasBegun ? nil : begin)
    }
  }

  private func inTransaction<Result>(
    _ work: () throws(DatabaseError) -> Result
  ) throws(DatabaseError) -> Result {
    if let failure { throw failure }
    do throws(DatabaseError) {
      let result = try work()
      guard handle.isInTransaction else {
        throw DatabaseError(.other, "a statement ended the transaction that it ran in")
      }
      return result
    } catch {
      failure = error
      throw error
    }
  }
}
