/// A connection inside a transaction or a snapshot.
package final class SQLiteConnection: Connection {
  private let handle: SQLiteHandle

  /// What ended the transaction before its time. SQLite rolls it back by itself when the disk is
  /// full, on I/O errors and when memory runs out. A statement after that would be committed at once and
  /// alone, so none is run.
  private(set) var lost: DatabaseError?

  /// What went wrong in the body that is running. SQLite would go on after it; PostgreSQL does not.
  private var failure: DatabaseError?
  /// Whether what fails now is of one body, which is undone then.
  private var isOneBody = false

  /// What runs in the transaction that `handle` has begun.
  package init(_ handle: SQLiteHandle) {
    self.handle = handle
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

  /// Runs `body`, which has the transaction for itself: what it throws is to undo all of it.
  package func alone(_ body: () throws -> Void) throws {
    isOneBody = true
    try body()
    if let failure { throw failure }
  }

  /// Runs `body` so that what it throws undoes what it wrote, and nothing else.
  func savepoint(_ body: () throws -> Void) throws {
    try run(Self.begin)
    isOneBody = true
    do {
      try body()
      if let failure { throw failure }
      isOneBody = false
      try run(Self.release)
    } catch {
      isOneBody = false
      failure = nil
      if lost == nil { try undo() }
      throw error
    }
  }

  private func undo() throws(DatabaseError) {
    do throws(DatabaseError) {
      try run(Self.undo)
      try run(Self.release)
    } catch {
      // What cannot be undone must not be committed.
      lost = error
      throw error
    }
  }

  private static let begin = Statement("SAVEPOINT body")
  private static let release = Statement("RELEASE body")
  private static let undo = Statement("ROLLBACK TO body")

  private func inTransaction<Result>(_ work: () throws(DatabaseError) -> Result) throws(DatabaseError)
    -> Result
  {
    if let failure = lost ?? failure { throw failure }
    do throws(DatabaseError) {
      let result = try work()
      if !handle.isInTransaction {
        throw DatabaseError(.other, "a statement ended the transaction that it ran in")
      }
      return result
    } catch {
      if !handle.isInTransaction { lost = error }
      if isOneBody { failure = error }
      throw error
    }
  }
}
