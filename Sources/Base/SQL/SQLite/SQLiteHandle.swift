import CSQLite
import Glibc

/// A connection to an SQLite file with its prepared statements, used by one thread at a time.
package final class SQLiteHandle {
  let connection: OpaquePointer

  /// How long it waits for locks of others.
  private let busyTimeout: Duration
  /// Whether it does so now.
  private var mayWait = true
  /// When the present wait began.
  private var waitingSince = ContinuousClock.now
  private let isHeldUp: (ContinuousClock.Instant) -> Void

  /// By their SQL. All are discarded if there are too many.
  private var statements: [String: Prepared] = [:]
  private static let maximumStatements = 500

  /// Longest SQL, in bytes, whose prepared statement is kept: one with a thousand parameters takes more
  /// memory than all others, and little time to prepare compared to running it.
  private static let maximumKeptLength = 4096

  /// A prepared statement with the names of its columns.
  private final class Prepared {
    let statement: OpaquePointer
    private var columns: Columns?
    /// How often SQLite had prepared it again, after a change of the schema, when the names were read.
    private var preparations: CInt = 0

    init(_ statement: OpaquePointer) { self.statement = statement }

    deinit { sqlite3_finalize(statement) }

    /// The columns of the run that has returned a row.
    func currentColumns() -> Columns {
      let now = sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_REPREPARE, 0)
      if let columns, preparations == now { return columns }
      let read = Columns(statement: statement)
      columns = read
      preparations = now
      return read
    }
  }

  /// Opens an existing file.
  ///
  /// - Parameters:
  ///   - busyTimeout: how long it waits for locks of others, in seconds.
  ///   - isHeldUp: called while it waits longer than others usually take, with the time when the wait began.
  package init(
    path: String, busyTimeout: Double, isHeldUp: @escaping (ContinuousClock.Instant) -> Void = { _ in }
  ) throws(DatabaseError) {
    var opened: OpaquePointer?
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
    let code = sqlite3_open_v2(path, &opened, flags, nil)
    guard code == SQLITE_OK, let opened else {
      defer { sqlite3_close_v2(opened) }
      throw DatabaseError(sqlite: code, opened)
    }
    connection = opened
    self.busyTimeout = .seconds(busyTimeout)
    self.isHeldUp = isHeldUp
    sqlite3_busy_handler(
      connection,
      { context, count in
        guard let context else { return 0 }
        return Unmanaged<SQLiteHandle>.fromOpaque(context).takeUnretainedValue().waitForLock(count) ? 1 : 0
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  /// Waits for a moment.
  ///
  /// - Parameter count: how often it has waited for this lock before.
  /// - Returns: whether to try again.
  private func waitForLock(_ count: CInt) -> Bool {
    let now = ContinuousClock.now
    if count == 0 { waitingSince = now }
    guard mayWait, now - waitingSince < busyTimeout else { return false }
    if now - waitingSince > .milliseconds(500) { isHeldUp(waitingSince) }
    usleep(min(1 << min(UInt32(count), 10), 25) * 1000)
    return true
  }

  deinit {
    statements = [:]
    sqlite3_close_v2(connection)
  }

  /// Whether a transaction is open. SQLite ends it by itself after some errors.
  package var isInTransaction: Bool { sqlite3_get_autocommit(connection) == 0 }

  package func query(_ statement: Statement) throws(DatabaseError) -> [Row] {
    var rows: [Row] = []
    try step(statement.sql, statement.arguments) { rows.append(Row($0, $1)) }
    return rows
  }

  /// Runs a statement outside of a transaction, so in its own snapshot.
  ///
  /// - Parameter mayWait: whether it waits for locks of others.
  func queryAlone(_ statement: Statement, mayWait: Bool) throws(DatabaseError) -> [Row] {
    self.mayWait = mayWait
    defer {
      self.mayWait = true
      // The statement may have been a BEGIN.
      if isInTransaction { try? run("ROLLBACK") }
    }
    return try query(statement)
  }

  /// Runs a statement and returns how many rows it changed.
  @discardableResult
  func run(_ statement: Statement) throws(DatabaseError) -> Int {
    // After a statement that changes nothing, SQLite still reports the previous count.
    let before = sqlite3_total_changes64(connection)
    try step(statement.sql, statement.arguments) { _, _ in }
    return sqlite3_total_changes64(connection) == before ? 0 : Int(sqlite3_changes64(connection))
  }

  package func run(_ sql: String) throws(DatabaseError) {
    try step(sql, []) { _, _ in }
  }

  /// Runs several statements without parameters, and does not keep them prepared.
  func runScript(_ sql: String) throws(DatabaseError) {
    let code = sqlite3_exec(connection, sql, nil, nil, nil)
    guard code == SQLITE_OK else { throw error(code) }
  }

  private func step(
    _ sql: String, _ arguments: [Value], _ row: (Columns, OpaquePointer) -> Void
  ) throws(DatabaseError) {
    let isKept = sql.utf8.count <= Self.maximumKeptLength
    let prepared = try isKept ? kept(sql) : prepared(sql)
    let statement = prepared.statement
    defer {
      // An idle statement must hold neither a read mark in the WAL nor copies of its arguments.
      sqlite3_reset(statement)
      sqlite3_clear_bindings(statement)
      // One that is not kept is finalized here.
      extendLifetime(prepared)
    }
    try bind(arguments, to: statement)
    var columns: Columns?
    while true {
      let code = sqlite3_step(statement)
      if code == SQLITE_DONE { return }
      guard code == SQLITE_ROW else { throw error(code) }
      let current = columns ?? prepared.currentColumns()
      columns = current
      row(current, statement)
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

  private func kept(_ sql: String) throws(DatabaseError) -> Prepared {
    if let known = statements[sql] { return known }
    let statement = try prepared(sql)
    if statements.count == Self.maximumStatements { statements = [:] }
    statements[sql] = statement
    return statement
  }

  private func prepared(_ sql: String) throws(DatabaseError) -> Prepared {
    var statement: OpaquePointer?
    var rest: UnsafePointer<CChar>?
    // SQLite takes `$1` for a named parameter and numbers it by its first occurrence; `?1` is always the
    // first. `$skip_locked` is dropped, since there is only one writer.
    let text = String(
      decoding: sql.replacing("$skip_locked", with: "").utf8.map {
        $0 == UInt8(ascii: "$") ? UInt8(ascii: "?") : $0
      }, as: UTF8.self)
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
    return Prepared(statement)
  }

  private func error(_ code: CInt) -> DatabaseError { DatabaseError(sqlite: code, connection) }
}

extension SQLiteHandle {
  /// All pages of the database, as a file would contain them.
  package func image() -> [UInt8] {
    var size: sqlite3_int64 = 0
    guard let bytes = sqlite3_serialize(connection, "main", &size, 0) else { return [] }
    defer { sqlite3_free(bytes) }
    return Array(UnsafeBufferPointer(start: bytes, count: Int(size)))
  }

  /// Replaces the database by these pages, in memory.
  package func load(_ image: [UInt8]) throws(DatabaseError) {
    let size = sqlite3_int64(image.count)
    guard let bytes = sqlite3_malloc64(UInt64(image.count)) else {
      throw DatabaseError(.io, "no memory for a database")
    }
    bytes.copyMemory(from: image, byteCount: image.count)
    let code = sqlite3_deserialize(
      connection, "main", bytes.assumingMemoryBound(to: UInt8.self), size, size,
      UInt32(SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE))
    guard code == SQLITE_OK else { throw DatabaseError(sqlite: code, connection) }
  }
}
