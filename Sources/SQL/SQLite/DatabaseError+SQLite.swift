import GRDB

extension DatabaseError {
  /// What GRDB or SQLite threw, as every engine's callers know it.
  init(_ error: any Error) {
    switch error {
    case let error as DatabaseError:
      self = error
    case let error as GRDB.DatabaseError:
      // The message alone: GRDB's description may add the arguments.
      let message = error.message ?? "SQLite error \(error.extendedResultCode.rawValue)"
      self.init(Code(error), message, constraint: Self.constraint(in: message))
    default:
      self.init(.other, "\(type(of: error))")
    }
  }

  /// `UNIQUE constraint failed: servers.hostname` names `servers.hostname`.
  private static func constraint(in message: String) -> String? {
    guard let range = message.firstRange(of: " constraint failed: ") else { return nil }
    return String(message[range.upperBound...])
  }
}

extension DatabaseError.Code {
  fileprivate init(_ error: GRDB.DatabaseError) {
    self =
      switch error.extendedResultCode {
      case .SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID:
        .uniqueViolation
      case .SQLITE_CONSTRAINT_FOREIGNKEY: .foreignKeyViolation
      case .SQLITE_CONSTRAINT_NOTNULL: .notNullViolation
      // The column of a STRICT table given a value of another type.
      case .SQLITE_CONSTRAINT_CHECK, ResultCode(rawValue: 3091): .checkViolation
      case .SQLITE_BUSY_SNAPSHOT: .serializationFailure
      default:
        switch error.resultCode {
        case .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_PROTOCOL: .busy
        case .SQLITE_FULL: .full
        case .SQLITE_READONLY: .readOnly
        case .SQLITE_IOERR, .SQLITE_CANTOPEN, .SQLITE_NOMEM: .io
        case .SQLITE_CORRUPT, .SQLITE_NOTADB: .corrupt
        default: .other
        }
      }
  }
}
