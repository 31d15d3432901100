import GRDB
import GRDBSQLite

/// Runs a prepared statement and gives its rows by position.
///
/// It binds by itself because GRDB cuts text at U+0000, which would make two different strings
/// one, and turns empty bytes into NULL; and reads by itself because GRDB's `Row` looks up the
/// columns' names for each query.
final class RowCursor: DatabaseCursor {
  typealias Element = Row

  let _statement: GRDB.Statement
  var _isDone = false

  /// Binds `arguments` to a statement that nobody else is running.
  init(_ statement: GRDB.Statement, _ arguments: [Value]) throws(DatabaseError) {
    _statement = statement
    let handle = statement.sqliteStatement
    sqlite3_reset(handle)
    let count = Int(sqlite3_bind_parameter_count(handle))
    guard arguments.count == count else {
      throw DatabaseError(
        .invalidArgument, "\(arguments.count) arguments for a statement with \(count) parameters")
    }
    for (index, argument) in arguments.enumerated() {
      try Self.bind(argument, to: handle, at: CInt(index + 1))
    }
  }

  deinit {
    // An idle statement keeps neither a read mark in the WAL nor a copy of what was bound.
    sqlite3_reset(_statement.sqliteStatement)
    sqlite3_clear_bindings(_statement.sqliteStatement)
  }

  func _element(sqliteStatement handle: SQLiteStatement) -> Row {
    Row(values: (0..<sqlite3_column_count(handle)).map { Self.value(handle, $0) })
  }

  private static func value(_ handle: SQLiteStatement, _ column: CInt) -> Value {
    switch sqlite3_column_type(handle, column) {
    case SQLITE_NULL:
      return .null
    case SQLITE_INTEGER:
      return .integer(sqlite3_column_int64(handle, column))
    case SQLITE_BLOB:
      let start = sqlite3_column_blob(handle, column)
      let count = Int(sqlite3_column_bytes(handle, column))
      return .bytes(Array(UnsafeRawBufferPointer(start: start, count: count)))
    default:
      // Text, or a floating-point number, of which ``Value`` has none: as text. The pointer is
      // asked for before the count, since that is what converts the value.
      let start = sqlite3_column_text(handle, column)
      let count = Int(sqlite3_column_bytes(handle, column))
      return .text(String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self))
    }
  }

  private static func bind(
    _ value: Value, to handle: SQLiteStatement, at index: CInt
  ) throws(DatabaseError) {
    let code: CInt
    switch value {
    case .null:
      code = sqlite3_bind_null(handle, index)
    case .integer(let integer):
      code = sqlite3_bind_int64(handle, index, integer)
    case .bytes(let bytes) where bytes.isEmpty:
      code = sqlite3_bind_zeroblob(handle, index, 0)
    case .bytes(let bytes):
      code = bytes.withUnsafeBytes {
        sqlite3_bind_blob64(handle, index, $0.baseAddress, UInt64($0.count), copied)
      }
    case .text(let text) where text.isEmpty:
      code = sqlite3_bind_text(handle, index, "", 0, copied)
    case .text(var text):
      guard !text.utf8.contains(0) else {
        throw DatabaseError(.invalidArgument, "the text in argument \(index) holds U+0000")
      }
      code = text.withUTF8 { bytes in
        bytes.withMemoryRebound(to: CChar.self) {
          sqlite3_bind_text64(
            handle, index, $0.baseAddress, UInt64($0.count), copied, UInt8(SQLITE_UTF8))
        }
      }
    }
    guard code == SQLITE_OK else {
      throw DatabaseError(GRDB.DatabaseError(resultCode: ResultCode(rawValue: code)))
    }
  }
}

/// Tells SQLite to copy what is bound before the call returns: `SQLITE_TRANSIENT`, a C macro
/// that Swift cannot import and whose value is -1 for a function's address.
private let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
