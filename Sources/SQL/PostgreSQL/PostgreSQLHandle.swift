import CPostgreSQL

/// A connection to a server, used by one thread at a time, which waits for the server's answers.
///
/// It is kept in libpq's pipeline mode: what is sent together costs one round trip.
final class PostgreSQLHandle {
  /// What can be sent.
  enum Command {
    /// A text without parameters, not kept prepared: `BEGIN` and the like.
    case text(StaticString)
    case statement(PostgreSQLStatement)
  }

  /// What the server made of a statement.
  struct Output: Sendable {
    let rows: [Row]
    let changedRows: Int
  }

  /// What it made of several: as many outputs as went well before the one that failed, if one did.
  struct Answer {
    var outputs: [Output] = []
    var failure: DatabaseError?
  }

  /// What is to be read for something that was sent.
  private enum Pending {
    case preparation(PostgreSQLStatement.Key)
    case output
    case synchronization
  }

  private let handle: OpaquePointer
  private var statements: PreparedStatements
  private var pending: [Pending] = []

  /// Whether the connection broke, so that the handle is of no more use.
  private(set) var isLost = false

  /// Connects; blocks for as long as `connect_timeout` allows.
  ///
  /// - Throws: ``DatabaseError/Code/connectionLost``.
  init(_ settings: PostgreSQLSettings, preparedStatements: Int) throws(DatabaseError) {
    guard let handle = settings.connect() else { throw DatabaseError(.io, "no memory for a connection") }
    self.handle = handle
    statements = PreparedStatements(capacity: preparedStatements)
    guard PQstatus(handle) == CONNECTION_OK else {
      let lines = String(cString: PQerrorMessage(handle)).split(whereSeparator: \.isNewline)
      isLost = true
      throw DatabaseError(.connectionLost, lines.joined(separator: " "))
    }
    // libpq would write notices to the standard error.
    PQsetNoticeReceiver(handle, { _, _ in }, nil)
    try runScript(settings.sessionScript)
  }

  deinit { PQfinish(handle) }

  // MARK: - One after the other

  /// Sends all of `commands` and reads their answers. Those after one that fails are not run.
  ///
  /// - Throws: ``DatabaseError/Code/connectionLost``; see ``isLost``.
  func exchange(_ commands: [Command]) throws(DatabaseError) -> Answer {
    try send(commands)
    return try receive()
  }

  /// Sends all of `commands`; their answers are read, and forgotten, before anything else is.
  func send(_ commands: [Command]) throws(DatabaseError) {
    if PQpipelineStatus(handle) == PQ_PIPELINE_OFF { try check(PQenterPipelineMode(handle)) }
    for command in commands {
      switch command {
      case .text(let text):
        try check(
          text.withUTF8Buffer { bytes in
            bytes.withMemoryRebound(to: CChar.self) {
              PQsendQueryParams(handle, $0.baseAddress, 0, nil, nil, nil, nil, 1)
            }
          })
      case .statement(let statement):
        try send(statement, as: try name(of: statement))
      }
      pending.append(.output)
    }
    // Also sends what libpq has gathered.
    try check(PQpipelineSync(handle))
    pending.append(.synchronization)
  }

  /// Whether the handle can begin something new: it has not been closed from the other side.
  func isUsable() -> Bool {
    guard !isLost, (try? receive()) != nil else { return false }
    // What a server says when it ends a connection is read first, and only then the end.
    for _ in 0..<2 where PQconsumeInput(handle) == 0 { return false }
    return PQstatus(handle) == CONNECTION_OK && !isInTransaction
  }

  /// Whether a transaction is open, also one that has failed.
  var isInTransaction: Bool {
    switch PQtransactionStatus(handle) {
    case PQTRANS_INTRANS, PQTRANS_INERROR: true
    default: false
    }
  }

  /// Runs statements without parameters.
  func runScript(_ sql: String) throws(DatabaseError) {
    _ = try receive()
    if PQpipelineStatus(handle) != PQ_PIPELINE_OFF { try check(PQexitPipelineMode(handle)) }
    guard let result = PQexec(handle, sql) else { throw lost() }
    defer { PQclear(result) }
    switch PQresultStatus(result) {
    case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY: return
    default: throw try error(result)
    }
  }

  /// Has the server forget the statements that have made room for others.
  func deallocateSuperfluous() {
    guard !isLost, !statements.superfluous.isEmpty else { return }
    let script = statements.superfluous.map { "DEALLOCATE \($0)" }.joined(separator: ";")
    // A connection that is lost by now is found to be when it is used again.
    if (try? runScript(script)) != nil { statements.removeSuperfluous() }
  }

  // MARK: - Sending

  private func name(of statement: PostgreSQLStatement) throws(DatabaseError) -> String {
    if let name = statements.name(of: statement.key) { return name }
    let name = statements.add(statement.key)
    let sql = PostgreSQLTexts.shared.text(statement.key.sql).sql
    let types = statement.key.types
    try check(PQsendPrepare(handle, name, sql, CInt(types.count), types))
    pending.append(.preparation(statement.key))
    return name
  }

  private func send(_ statement: PostgreSQLStatement, as name: String) throws(DatabaseError) {
    try check(
      statement.withArguments { count, values, lengths in
        let binary = [CInt](repeating: 1, count: Int(count))
        return PQsendQueryPrepared(handle, name, count, values, lengths, binary, 1)
      })
  }

  private func check(_ isDone: CInt) throws(DatabaseError) {
    guard isDone == 1 else { throw lost() }
  }

  // MARK: - Receiving

  private func receive() throws(DatabaseError) -> Answer {
    var answer = Answer()
    for next in pending {
      guard let result = PQgetResult(handle) else { throw lost() }
      defer { PQclear(result) }
      let status = PQresultStatus(result)
      if case .synchronization = next {
        guard status == PGRES_PIPELINE_SYNC else { throw lost() }
        continue
      }
      switch status {
      case PGRES_COMMAND_OK, PGRES_TUPLES_OK:
        if case .output = next { answer.outputs.append(Output(result)) }
      default:
        if case .preparation(let key) = next { statements.remove(key) }
        // The others have been passed over.
        if status != PGRES_PIPELINE_ABORTED { answer.failure = try error(result) }
      }
      // The end of what belongs to this command.
      guard PQgetResult(handle) == nil else { throw lost() }
    }
    pending.removeAll(keepingCapacity: true)
    return answer
  }

  /// The error in a result; thrown instead if the connection ended with it.
  private func error(_ result: OpaquePointer) throws(DatabaseError) -> DatabaseError {
    let error = DatabaseError(result)
    if error.code == .connectionLost || PQstatus(handle) == CONNECTION_BAD {
      isLost = true
      throw DatabaseError(.connectionLost, error.message)
    }
    return error
  }

  private func lost() -> DatabaseError {
    isLost = true
    // Not in libpq's words: it may repeat the error of a statement, with the values in it.
    return DatabaseError(.connectionLost, "the connection to the server broke")
  }
}

extension PostgreSQLHandle.Output {
  fileprivate init(_ result: OpaquePointer) {
    rows = PQntuples(result) == 0 ? [] : Row.all(of: result)
    // "SELECT 3" counts rows too, but has changed none.
    let isSelect = String(cString: PQcmdStatus(result)).hasPrefix("SELECT")
    changedRows = isSelect ? 0 : Int(String(cString: PQcmdTuples(result))) ?? 0
  }
}
