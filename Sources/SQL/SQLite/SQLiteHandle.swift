import CSQLite

/// A connection to an SQLite file, used by one thread at a time, with the statements that it has prepared.
final class SQLiteHandle {
  private let connection: OpaquePointer

  /// By their texts as the program has them, which are few.
  private var statements: [String: OpaquePointer] = [:]

  /// Opens a file that is there.
  ///
  /// - Parameter busyTimeout: how long it waits for others who hold the file, in seconds.
  init(path: String, busyTimeout: Double) throws(DatabaseError) {
    var opened: OpaquePointer?
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
    let code = sqlite3_open_v2(path, &opened, flags, nil)
    guard code == SQLITE_OK, let opened else {
      defer { sqlite3_close_v2(opened) }
      throw DatabaseError(sqlite: code, opened)
    }
    connection = opened
    sqlite3_busy_timeout(connection, CInt(busyTimeout * 1000))
  }

  deinit {
    for statement in statements.values { sqlite3_finalize(statement) }
    sqlite3_close_v2(connection)
  }

  /// Whether a transaction is open. SQLite ends one by itself after some errors.
  var isInTransaction: Bool { sqlite3_get_autocommit(connection) == 0 }

  /// Runs a statement and returns its rows.
  func query(_ statement: Statement) throws(DatabaseError) -> [Row] {
    var rows: [Row] = []
    try step(statement.sql, statement.arguments) { rows.append(Row($0)) }
    return rows
  }

  /// Runs a statement and returns how many rows it changed.
  @discardableResult
  func run(_ statement: Statement) throws(DatabaseError) -> Int {
    // The number of changed rows stays what it was after a statement that changes none.
    let before = sqlite3_total_changes64(connection)
    try step(statement.sql, statement.arguments) { _ in }
    return sqlite3_total_changes64(connection) == before ? 0 : Int(sqlite3_changes64(connection))
  }

  /// Runs a statement without parameters or rows.
  func run(_ sql: String) throws(DatabaseError) {
    try step(sql, []) { _ in }
  }

  /// Runs any number of statements without parameters, and keeps none of them.
  func runScript(_ sql: String) throws(DatabaseError) {
    let code = sqlite3_exec(connection, sql, nil, nil, nil)
    guard code == SQLITE_OK else { throw error(code) }
  }

  private func step(
    _ sql: String, _ arguments: [Value], _ row: (OpaquePointer) -> Void
  ) throws(DatabaseError) {
    let statement = try prepared(sql)
    defer {
      // An idle statement keeps neither a read mark in the WAL nor a copy of what was bound.
      sqlite3_reset(statement)
      sqlite3_clear_bindings(statement)
    }
    try bind(arguments, to: statement)
    while true {
      let code = sqlite3_step(statement)
      if code == SQLITE_DONE { return }
      guard code == SQLITE_ROW else { throw error(code) }
      row(statement)
    }
  }

  private func bind(_ arguments: [Value], to statement: OpaquePointer) throws(DatabaseError) {
    let count = Int(sqlite3_bind_parameter_count(statement))
    guard arguments.count == count else {
      throw DatabaseError(
        .invalidArgument, "\(arguments.count) arguments for a statement with \(count) parameters")
    }
    for (index, argument) in arguments.enumerated() {
      let code = try argument.bind(to: statement, at: CInt(index + 1))
      guard code == SQLITE_OK else { throw error(code) }
    }
  }

  private func prepared(_ sql: String) throws(DatabaseError) -> OpaquePointer {
    if let known = statements[sql] { return known }
    var statement: OpaquePointer?
    var rest: UnsafePointer<CChar>?
    let text = SQLText.withQuestionMarks(Statement.writingOutSkipLocked(in: sql, as: ""))
    let (code, isWhole) = text.withCString { start in
      let code = sqlite3_prepare_v3(
        connection, start, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &statement, &rest)
      return (code, rest.map { String(cString: $0).allSatisfy(\.isWhitespace) } ?? true)
    }
    guard code == SQLITE_OK else { throw error(code) }
    guard let statement, isWhole else {
      sqlite3_finalize(statement)
      throw DatabaseError(.invalidArgument, "a text that is not one statement")
    }
    statements[sql] = statement
    return statement
  }

  private func error(_ code: CInt) -> DatabaseError { DatabaseError(sqlite: code, connection) }
}
