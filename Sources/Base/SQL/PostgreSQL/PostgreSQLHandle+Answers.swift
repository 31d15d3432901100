import CPostgreSQL

extension PostgreSQLHandle {
  enum Command {
    /// Text without parameters that is not kept prepared, such as `BEGIN`.
    case text(StaticString)
    case statement(PostgreSQLStatement)
  }

  /// The result of a statement.
  struct Output: Sendable {
    let rows: [Row]
    let changedRows: Int
  }

  /// The results of several commands: the outputs before the first failure, and the failure.
  struct Answer {
    var outputs: [Output] = []
    var failure: DatabaseError?
  }

  /// A statement that is prepared on this connection.
  final class Prepared {
    let name: String
    /// Known from its first row on. The server refuses to run the statement after a change of the schema that would
    /// change them.
    private var columns: Columns?

    init(name: String) { self.name = name }

    func columns(of result: OpaquePointer) -> Columns {
      if let columns { return columns }
      let read = Columns(result: result)
      columns = read
      return read
    }
  }
}

extension PostgreSQLHandle.Output {
  init(_ result: OpaquePointer, _ prepared: PostgreSQLHandle.Prepared?) {
    rows =
      if PQntuples(result) == 0 { [] } else {
        Row.all(of: result, prepared?.columns(of: result) ?? Columns(result: result))
      }
    // For "SELECT 3" the count is of rows that were read, not changed.
    let isSelect = String(cString: PQcmdStatus(result)).hasPrefix("SELECT")
    changedRows = isSelect ? 0 : Int(String(cString: PQcmdTuples(result))) ?? 0
  }
}
