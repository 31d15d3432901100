import CSQLite

extension Value {
  /// Binds a copy of the value to a parameter, the first being 1.
  ///
  /// - Returns: SQLite's result code.
  func bind(to statement: OpaquePointer, at index: CInt) throws(DatabaseError) -> CInt {
    switch self {
    case .null:
      return sqlite3_bind_null(statement, index)
    case .integer(let integer):
      return sqlite3_bind_int64(statement, index, integer)
    case .bytes(let bytes) where bytes.isEmpty:
      // A nil address would bind NULL.
      return sqlite3_bind_zeroblob(statement, index, 0)
    case .bytes(let bytes):
      return bytes.withUnsafeBytes { csqlite_bind_bytes(statement, index, $0.baseAddress, UInt64($0.count)) }
    case .text(let text) where text.isEmpty:
      return csqlite_bind_text(statement, index, "", 0)
    case .text(var text):
      guard !text.utf8.contains(0) else {
        throw DatabaseError(.invalidArgument, "the text in argument \(index) holds U+0000")
      }
      return text.withUTF8 { bytes in
        bytes.withMemoryRebound(to: CChar.self) {
          csqlite_bind_text(statement, index, $0.baseAddress, UInt64($0.count))
        }
      }
    }
  }

  /// The value in a column of the current row.
  fileprivate init(_ statement: OpaquePointer, _ column: CInt) {
    // SQLite calls this value unprotected: no other thread uses the connection meanwhile.
    let value = sqlite3_column_value(statement, column)
    switch sqlite3_value_type(value) {
    case SQLITE_NULL:
      self = .null
    case SQLITE_INTEGER:
      self = .integer(sqlite3_value_int64(value))
    case SQLITE_BLOB:
      let start = sqlite3_value_blob(value)
      let count = Int(sqlite3_value_bytes(value))
      self = .bytes(Array(UnsafeRawBufferPointer(start: start, count: count)))
    default:
      // Text, or a floating-point number, which is read as text because ``Value`` has none. The pointer has
      // to be read before the count, because that converts the value.
      let start = sqlite3_value_text(value)
      let count = Int(sqlite3_value_bytes(value))
      self = .text(String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self))
    }
  }
}

extension Columns {
  /// The columns of a prepared statement.
  convenience init(statement: OpaquePointer) {
    self.init(
      (0..<sqlite3_column_count(statement)).map { String(cString: sqlite3_column_name(statement, $0)) })
  }
}

extension Row {
  /// The current row.
  init(_ columns: Columns, _ statement: OpaquePointer) {
    self.init(columns, values: (0..<sqlite3_column_count(statement)).map { Value(statement, $0) })
  }
}

extension DatabaseError {
  /// The error for an SQLite result code.
  ///
  /// - Parameters:
  ///   - code: the extended result code.
  ///   - connection: the connection, for its message; nil if it could not be allocated.
  init(sqlite code: CInt, _ connection: OpaquePointer?) {
    // The message names tables and columns, never the arguments.
    let message = String(cString: connection.flatMap(sqlite3_errmsg) ?? sqlite3_errstr(code))
    self.init(Code(sqlite: code), message, constraint: Self.constraint(in: message))
  }

  /// `UNIQUE constraint failed: servers.hostname` names `servers.hostname`.
  private static func constraint(in message: String) -> String? {
    guard let range = message.firstRange(of: " constraint failed: ") else { return nil }
    return String(message[range.upperBound...])
  }
}

extension DatabaseError.Code {
  fileprivate init(sqlite code: CInt) {
    self =
      switch code {
      case CSQLITE_CONSTRAINT_UNIQUE, CSQLITE_CONSTRAINT_PRIMARYKEY, CSQLITE_CONSTRAINT_ROWID:
        .uniqueViolation
      case CSQLITE_CONSTRAINT_FOREIGNKEY: .foreignKeyViolation
      case CSQLITE_CONSTRAINT_NOTNULL: .notNullViolation
      // CSQLITE_CONSTRAINT_DATATYPE: a value of the wrong type for a column of a STRICT table.
      case CSQLITE_CONSTRAINT_CHECK, CSQLITE_CONSTRAINT_DATATYPE: .checkViolation
      case CSQLITE_BUSY_SNAPSHOT: .serializationFailure
      default:
        // The primary result code.
        switch code & 0xFF {
        case SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL: .busy
        case SQLITE_FULL: .full
        case SQLITE_READONLY: .readOnly
        case SQLITE_IOERR, SQLITE_CANTOPEN, SQLITE_NOMEM: .io
        case SQLITE_CORRUPT, SQLITE_NOTADB: .corrupt
        default: .other
        }
      }
  }
}
