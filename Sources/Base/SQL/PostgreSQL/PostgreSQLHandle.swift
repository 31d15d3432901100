import CPostgreSQL
import Glibc

/// A connection to a server, used by one thread at a time, which blocks for answers.
///
/// Uses libpq's pipeline mode: commands that are sent together cost one round trip.
final class PostgreSQLHandle {
  /// A result that has to be read for a command that was sent.
  private enum Pending {
    case preparation(PostgreSQLStatement.Key)
    /// Of a prepared statement, or of a text if nil.
    case output(Prepared?)
    case synchronization
  }

  private let handle: OpaquePointer
  /// The statements that are prepared on this connection. Their names are never reused, nor used by another
  /// connection: behind a pooler that shares sessions, one would run a statement of another.
  private var statements: [PostgreSQLStatement.Key: Prepared] = [:]
  private let prefix = String(UInt64.random(in: .min ... .max), radix: 36)
  private var preparations = 0
  private var pending: [Pending] = []

  /// Whether the connection broke. The handle is useless then.
  private(set) var isLost = false

  /// Whether the server has said since the last answer that it committed without its synchronous replica.
  private var hasLeftReplica = false

  /// How long to wait for a silent server; nil for no limit.
  var longestSilence: Duration?

  /// The server that it is connected to.
  private(set) var server = PrimaryWatch.Server(host: "", port: "", startedAt: "")
  private let watch: PrimaryWatch?

  /// Connects; blocks for up to `connect_timeout` a host.
  ///
  /// - Parameter watch: tells whether another server has replaced this session's.
  /// - Throws: ``DatabaseError/Code/unreachable`` or what else libpq's message says, or ``DatabaseError/Code/readOnly``.
  init(_ settings: PostgreSQLSettings, watch: PrimaryWatch? = nil) throws(DatabaseError) {
    let settings = watch?.replacedServer.map(settings.last) ?? settings
    guard let handle = settings.connect() else { throw DatabaseError(.io, "no memory for a connection") }
    self.handle = handle
    self.watch = watch
    longestSilence = settings.longestSilence
    guard PQstatus(handle) == CONNECTION_OK else {
      isLost = true
      // Indented lines only guess at the cause of the line before.
      let lines = String(cString: PQerrorMessage(handle)).split(whereSeparator: \.isNewline)
        .filter { !$0.hasPrefix("\t") }
      throw DatabaseError(connecting: lines.joined(separator: "; "))
    }
    guard takesWrites || !settings.mustTakeWrites else {
      isLost = true
      throw DatabaseError(
        .readOnly, isStandby ? "the server is a standby" : "default_transaction_read_only is on at the server"
      )
    }
    // By default libpq writes notices to standard error.
    PQsetNoticeReceiver(
      handle,
      { context, notice in
        guard let context, let notice else { return }
        Unmanaged<PostgreSQLHandle>.fromOpaque(context).takeUnretainedValue().note(notice)
      }, Unmanaged.passUnretained(self).toOpaque())
    // Otherwise libpq itself would wait for a server that reads nothing.
    guard PQsetnonblocking(handle, 1) == 0 else { throw lost() }
    try runScript(settings.sessionScript)
    server = PrimaryWatch.Server(
      host: PQhost(handle).map { String(cString: $0) } ?? "",
      port: PQport(handle).map { String(cString: $0) } ?? "",
      startedAt: try text("CAST(pg_postmaster_start_time() AS TEXT)"))
    guard watch?.replacedServer != server else {
      isLost = true
      throw DatabaseError(.readOnly, "another server has taken the place of this one")
    }
  }

  deinit { PQfinish(handle) }

  // MARK: - One after the other

  /// Sends all commands and reads their answers. Commands after a failed one are not run.
  ///
  /// - Throws: ``DatabaseError/Code/connectionLost``; see ``isLost``.
  func exchange(_ commands: [Command]) throws(DatabaseError) -> Answer {
    try send(commands)
    return try receive()
  }

  func output(of statement: PostgreSQLStatement, after begin: StaticString? = nil) throws(DatabaseError)
    -> Output
  {
    let answer = try exchange((begin.map { [.text($0)] } ?? []) + [.statement(statement)])
    if let failure = answer.failure { throw failure }
    guard let output = answer.outputs.last else { throw DatabaseError(.other, "no answer to a statement") }
    return output
  }

  /// Runs statements in one transaction and returns the outputs before a failure.
  func run(_ statements: [PostgreSQLStatement], in kind: TransactionKind) throws(DatabaseError) -> Answer {
    var answer = try exchange(
      [.text(kind.begin)] + statements.map(Command.statement) + [.text("COMMIT")])
    answer.outputs = Array(answer.outputs.dropFirst().prefix(statements.count))
    if answer.failure != nil, isInTransaction { try send([.text("ROLLBACK")]) }
    return answer
  }

  /// Sends all commands. Their answers are read and discarded before anything else is read.
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
        pending.append(.output(nil))
      case .statement(let statement):
        let prepared = try prepared(statement)
        try send(statement, as: prepared.name)
        pending.append(.output(prepared))
      }
    }
    // Also flushes libpq's buffer.
    try check(PQpipelineSync(handle))
    pending.append(.synchronization)
    try flush()
  }

  /// Whether the handle can begin a transaction, and the server has not closed the connection nor stopped to
  /// take writes.
  func isUsable() -> Bool {
    guard !isLost, (try? receive()) != nil else { return false }
    // The server's message about the end of a connection is read first, and the end of the stream second.
    for _ in 0..<2 where PQconsumeInput(handle) == 0 { return false }
    return PQstatus(handle) == CONNECTION_OK && !isInTransaction && takesWrites
      && watch?.replacedServer != server
  }

  /// Whether a transaction of this session may write, as far as the server has said. It says so when the session
  /// begins, and with an answer after it has changed.
  private var takesWrites: Bool { !isStandby && !isReported("default_transaction_read_only") }

  private var isStandby: Bool { isReported("in_hot_standby") }

  private func isReported(_ parameter: String) -> Bool {
    PQparameterStatus(handle, parameter).map { String(cString: $0) } == "on"
  }

  /// Whether a transaction is open, including a failed one.
  var isInTransaction: Bool {
    switch PQtransactionStatus(handle) {
    case PQTRANS_INTRANS, PQTRANS_INERROR: true
    default: false
    }
  }

  /// Runs any number of statements without parameters.
  func runScript(_ sql: String) throws(DatabaseError) {
    _ = try receive()
    if PQpipelineStatus(handle) != PQ_PIPELINE_OFF { try check(PQexitPipelineMode(handle)) }
    try check(PQsendQuery(handle, sql))
    try flush()
    var failure: DatabaseError?
    while let result = try nextResult() {
      defer { PQclear(result) }
      switch PQresultStatus(result) {
      case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY: continue
      default: failure = try error(result)
      }
    }
    if let failure { throw failure }
  }

  /// Discards all prepared statements if there are more than `count`.
  func forgetStatements(above count: Int) {
    // A lost connection is noticed at its next use.
    guard statements.count > count, (try? runScript("DEALLOCATE ALL")) != nil else { return }
    statements = [:]
  }

  /// Names the server's session that runs the next transaction.
  func session() throws(DatabaseError) -> String {
    try text(
      "CAST(pid AS TEXT) || ' ' || CAST(backend_start AS TEXT)",
      from: "FROM pg_stat_activity WHERE pid = pg_backend_pid()")
  }

  private func text(_ selected: String, from source: String = "") throws(DatabaseError) -> String {
    let rows = try output(of: PostgreSQLStatement(Statement("SELECT \(selected) AS text \(source)"))).rows
    return try rows.first?.text("text") ?? ""
  }

  // MARK: - Sending

  private func prepared(_ statement: PostgreSQLStatement) throws(DatabaseError) -> Prepared {
    if let known = statements[statement.key] { return known }
    preparations += 1
    let prepared = Prepared(name: "\(prefix)_\(preparations)")
    statements[statement.key] = prepared
    let sql = statement.key.sql.replacing("$skip_locked", with: "FOR UPDATE SKIP LOCKED")
    let types = statement.key.types
    try check(PQsendPrepare(handle, prepared.name, sql, CInt(types.count), types))
    pending.append(.preparation(statement.key))
    return prepared
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
      guard let result = try nextResult() else { throw lost() }
      defer { PQclear(result) }
      let status = PQresultStatus(result)
      if case .synchronization = next {
        guard status == PGRES_PIPELINE_SYNC else { throw lost() }
        continue
      }
      switch status {
      case PGRES_COMMAND_OK, PGRES_TUPLES_OK:
        if case .output(let prepared) = next { answer.outputs.append(Output(result, prepared)) }
      default:
        if case .preparation(let key) = next { statements[key] = nil }
        // Commands after the failed one were skipped.
        if status != PGRES_PIPELINE_ABORTED { answer.failure = try error(result) }
      }
      // Every command's results end with a nil.
      guard try nextResult() == nil else { throw lost() }
    }
    pending.removeAll(keepingCapacity: true)
    guard !hasLeftReplica else {
      throw lost("no synchronous replica has confirmed the commit, so a failover may lose it")
    }
    return answer
  }

  /// Takes note of a notice of the server.
  ///
  /// If somebody cancels the wait for a synchronous replica, the server commits all the same and warns
  /// (PostgreSQL's `SyncRepWaitForLSN`). It has no other warning of this class for this program's statements.
  private func note(_ notice: OpaquePointer) {
    if PQresultErrorField(notice, CPG_DIAG_SQLSTATE).map({ String(cString: $0) }) == "01000" {
      hasLeftReplica = true
    }
  }

  /// The next result, once it has arrived; nil after the last one of a command.
  private func nextResult() throws(DatabaseError) -> OpaquePointer? {
    while PQisBusy(handle) == 1 {
      try wait(for: POLLIN)
      guard PQconsumeInput(handle) == 1 else { throw lost() }
    }
    return PQgetResult(handle)
  }

  /// Sends libpq's buffer to the server.
  private func flush() throws(DatabaseError) {
    while true {
      switch PQflush(handle) {
      case 0: return
      case 1:
        // A server that is busy answering reads nothing until its answers are read.
        if try wait(for: POLLIN | POLLOUT) & Int16(POLLIN) != 0 {
          guard PQconsumeInput(handle) == 1 else { throw lost() }
        }
      default: throw lost()
      }
    }
  }

  /// Waits until the connection is readable or writable, and returns which.
  @discardableResult
  private func wait(for events: Int32) throws(DatabaseError) -> Int16 {
    var entry = pollfd(fd: PQsocket(handle), events: Int16(events), revents: 0)
    let deadline = longestSilence.map { ContinuousClock.now + $0 }
    while true {
      let left = deadline.map { max(.zero, $0 - .now) }
      let pause = watch == nil ? left : min(left ?? PrimaryWatch.pause, PrimaryWatch.pause)
      switch poll(&entry, 1, pause.map { Int32(($0 / .milliseconds(1)).rounded(.up)) } ?? -1) {
      case 1...: return entry.revents
      case 0:
        if left == .zero { throw lost("the server has said nothing for \(longestSilence ?? .zero)") }
        if watch?.isReplaced(server) == true { throw lost("another server has become the primary") }
      default: guard errno == EINTR else { throw lost() }
      }
    }
  }

  /// The error in a result. Throws it if the connection broke as well.
  private func error(_ result: OpaquePointer) throws(DatabaseError) -> DatabaseError {
    let error = DatabaseError(result)
    // Another session may reach a server that takes writes; this one never will.
    if error.code == .readOnly { isLost = true }
    if error.code == .connectionLost || PQstatus(handle) == CONNECTION_BAD {
      isLost = true
      throw DatabaseError(.connectionLost, error.message)
    }
    return error
  }

  // Not libpq's message, which may repeat a statement's error with its values.
  private func lost(_ message: String = "the connection to the server broke") -> DatabaseError {
    isLost = true
    return DatabaseError(.connectionLost, message)
  }
}
