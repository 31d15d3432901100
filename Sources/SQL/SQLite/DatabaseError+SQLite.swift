import CSQLite

extension DatabaseError {
  /// What SQLite has said, as every engine's callers know it.
  ///
  /// - Parameters:
  ///   - code: the extended result code.
  ///   - connection: where it happened, which knows more; nil if there was no memory for one.
  init(sqlite code: CInt, _ connection: OpaquePointer?) {
    // The message names tables and columns, never what was bound.
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
      // The latter: the column of a STRICT table given a value of another type.
      case CSQLITE_CONSTRAINT_CHECK, CSQLITE_CONSTRAINT_DATATYPE: .checkViolation
      case CSQLITE_BUSY_SNAPSHOT: .serializationFailure
      default:
        // The primary code.
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
