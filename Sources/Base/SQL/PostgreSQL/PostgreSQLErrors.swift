import CPostgreSQL

extension DatabaseError {
  /// The error in a result.
  ///
  /// Uses only the primary message, because the detail contains values. Leaves out the message of data
  /// exceptions as well, since it quotes the value.
  init(_ result: OpaquePointer) {
    let state = Self.field(CPG_DIAG_SQLSTATE, of: result) ?? ""
    let message = Self.field(CPG_DIAG_MESSAGE_PRIMARY, of: result) ?? "the connection broke"
    let column = Self.field(CPG_DIAG_COLUMN_NAME, of: result)
    let table = Self.field(CPG_DIAG_TABLE_NAME, of: result)
    self.init(
      Code(sqlState: state),
      state.hasPrefix("22") ? "data exception (SQLSTATE \(state))" : "\(message) (SQLSTATE \(state))",
      constraint: Self.field(CPG_DIAG_CONSTRAINT_NAME, of: result)
        ?? column.map { column in table.map { "\($0).\(column)" } ?? column })
  }

  private static func field(_ field: CInt, of result: OpaquePointer) -> String? {
    PQresultErrorField(result, field).map { String(cString: $0) }
  }
}

extension DatabaseError {
  /// Why no connection could be made, in libpq's words.
  ///
  /// libpq gives no SQLSTATE for that. A server that speaks another language than English is ``Code/unreachable``, and its
  /// own words say why.
  init(connecting message: String) {
    let known = Self.wordsOfConnecting.first { _, words in words.contains { message.contains($0) } }
    self.init(known?.code ?? .unreachable, message)
  }

  /// If there are several hosts, the message has a line for each; what comes first here is told first. The words of an
  /// earlier one may stand in the message of a later one.
  private static let wordsOfConnecting: [(code: Code, words: [String])] = [
    (.tooManyConnections, ["too many clients", "too many connections", "connection slots are reserved"]),
    (.notAdmitted, ["pg_hba.conf"]),
    (
      .loginRefused,
      [
        "authentication failed", "no password supplied", "not permitted to log in", #"role ""#,
        "permission denied for database",
      ]
    ),
    (.databaseMissing, [" does not exist"]),
    (.tlsFailed, ["certificate", "SSL error", "does not support SSL"]),
    (.nameNotResolved, ["could not translate host name"]),
    (.starting, ["starting up", "shutting down", "in recovery mode", "not yet accepting connections"]),
    (.readOnly, ["session is read-only", "in hot standby mode"]),
  ]
}

extension DatabaseError.Code {
  /// The kind of failure for a SQLSTATE (PostgreSQL 15, appendix A).
  init(sqlState: String) {
    self =
      switch sqlState {
      // An error without SQLSTATE is libpq's own, about a broken connection.
      case "", "57P01", "57P02", "57P03", "57P05", "25P03": .connectionLost
      // A protocol violation of this program.
      case "08P01": .other
      case "23505": .uniqueViolation
      case "23503": .foreignKeyViolation
      case "23514": .checkViolation
      // A value of the wrong type. SQLite's strict tables report that as a failed check.
      case "42804": .checkViolation
      case "23502": .notNullViolation
      case "40001", "40P01": .serializationFailure
      // A standby refuses a serializable transaction as a feature that it does not have.
      case "25006", "0A000": .readOnly
      // A prepared statement that this connection has prepared and the session does not have.
      case "26000": .pooled
      case "42501": .notPermitted
      case "53100": .full
      case "57014", "55P03", "53300": .busy
      case "XX001", "XX002": .corrupt
      case let state where state.hasPrefix("08"): .connectionLost
      case let state where state.hasPrefix("58") || state.hasPrefix("53"): .io
      default: .other
      }
  }
}
