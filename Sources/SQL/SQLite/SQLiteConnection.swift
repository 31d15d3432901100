import GRDB

/// A connection inside a transaction or a snapshot.
final class SQLiteConnection: Connection {
  private let handle: GRDB.Database
  private let texts: SQLiteTexts

  /// What ended the transaction before its time. SQLite rolls it back by itself when the disk is
  /// full, on I/O errors and when memory runs out; a statement after that would stand alone and
  /// be committed at once, so there is none.
  private(set) var lost: DatabaseError?

  /// What went wrong in the savepoint. SQLite would go on after it; PostgreSQL does not.
  private var failure: DatabaseError?
  private var isInSavepoint = false

  init(_ handle: GRDB.Database, _ texts: SQLiteTexts) {
    self.handle = handle
    self.texts = texts
  }

  func query(_ statement: Statement) throws -> [Row] {
    try inTransaction {
      let cursor = try cursor(statement)
      var rows: [Row] = []
      while let row = try cursor.next() { rows.append(row) }
      return rows
    }
  }

  @discardableResult
  func run(_ statement: Statement) throws -> Int {
    try inTransaction {
      // The number of changed rows stays what it was after a statement that changes none.
      let before = handle.totalChangesCount
      let cursor = try cursor(statement)
      while case .some = try cursor.next() {}
      return handle.totalChangesCount == before ? 0 : handle.changesCount
    }
  }

  func runScript(_ sql: String) throws {
    try inTransaction { try handle.execute(sql: sql) }
  }

  /// There is one writer, whatever it writes.
  func lockSchema() {}

  /// Runs `body` so that what it throws undoes what it wrote, and nothing else.
  func savepoint<Result>(_ body: () throws -> Result) throws -> Result {
    try run(Self.begin)
    isInSavepoint = true
    do {
      let result = try body()
      if let failure { throw failure }
      isInSavepoint = false
      try run(Self.release)
      return result
    } catch {
      isInSavepoint = false
      failure = nil
      if lost == nil { try undo() }
      throw error
    }
  }

  private func undo() throws {
    do {
      try run(Self.undo)
      try run(Self.release)
    } catch {
      // What cannot be undone must not be committed.
      lost = DatabaseError(error)
      throw error
    }
  }

  private static let begin = Statement("SAVEPOINT body")
  private static let release = Statement("RELEASE body")
  private static let undo = Statement("ROLLBACK TO body")

  private func cursor(_ statement: Statement) throws -> RowCursor {
    try RowCursor(handle.cachedStatement(sql: texts.text(statement.sql)), statement.arguments)
  }

  private func inTransaction<Result>(_ work: () throws -> Result) throws(DatabaseError) -> Result {
    if let failure = lost ?? failure { throw failure }
    do {
      let result = try work()
      if !handle.isInsideTransaction {
        throw DatabaseError(.other, "a statement ended the transaction that it ran in")
      }
      return result
    } catch {
      let error = DatabaseError(error)
      if !handle.isInsideTransaction { lost = error }
      if isInSavepoint { failure = error }
      throw error
    }
  }
}
