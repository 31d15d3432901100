import Foundation
import Synchronization

/// The work of one caller.
enum SQLiteWork: Sendable {
  /// One statement, and where to put its rows.
  case statement(Statement, Kept<[Row]>)
  /// Any number of statements.
  case body(@Sendable (any Connection) throws -> Void)

  func run(on connection: SQLiteConnection) throws {
    switch self {
    case .statement(let statement, let rows): rows.value = try connection.query(statement)
    case .body(let body): try connection.run(body)
    }
  }
}

/// A connection to the file, opened on demand. Used by its worker's thread, and by callers' threads while
/// that is idle.
final class SQLiteWorker: Sendable {
  typealias Job = JobQueue<SQLiteWork>.Job

  private let files: SQLiteFiles
  private let options: SQLiteDatabase.Options
  private let isWriter: Bool
  private let trouble: DatabaseTrouble
  private let observer: DatabaseObserver?

  /// Callers' threads lock it only if it is free, and for microseconds.
  private let handle = Mutex<SQLiteHandle?>(nil)
  private let isClosed = Atomic(false)

  /// - Parameter isWriter: whether this is the one connection that writes.
  init(
    _ files: SQLiteFiles, _ options: SQLiteDatabase.Options, isWriter: Bool, trouble: DatabaseTrouble,
    observer: DatabaseObserver?
  ) {
    self.files = files
    self.options = options
    self.isWriter = isWriter
    self.trouble = trouble
    self.observer = observer
  }

  private var kind: TransactionKind { isWriter ? .write : .read }

  /// Runs each read in its own snapshot and answers it.
  func read(_ jobs: [Job]) {
    for job in jobs {
      answer([job]) { handle in
        if case .statement(let statement, let rows) = job.work {
          // A single statement is a snapshot by itself, without BEGIN and COMMIT.
          rows.value = try handle.queryAlone(statement, mayWait: true)
        } else {
          try handle.run("BEGIN")
          try job.work.run(on: SQLiteConnection(handle))
        }
        return [nil]
      }
    }
  }

  /// Commits the writes of several callers in one transaction. Answers each after the commit, also the failed
  /// ones, since a write may have failed because of another one in the group. Answers no success if the files are not at
  /// their paths any more.
  func commit(_ jobs: [Job]) {
    answer(jobs) { handle in
      try files.check()
      try handle.run("BEGIN IMMEDIATE")
      // A single job needs no savepoint, for which SQLite would copy each page that the job changes, in a
      // file if there are many.
      if jobs.count == 1, jobs[0].caller.isWaiting { try jobs[0].work.run(on: SQLiteConnection(handle)) }
      let failures =
        jobs.count == 1
        ? [nil] : try jobs.map { $0.caller.isWaiting ? try failure(of: $0.work, on: handle) : nil }
      try observingCommit(observer) { try handle.run("COMMIT") }
      try files.check()
      return failures
    }
  }

  /// Runs `work` and answers each job with its error, or nil for success. If `work` throws, rolls back an
  /// open transaction and answers all jobs with that error.
  private func answer(_ jobs: [Job], _ work: (SQLiteHandle) throws -> [(any Error)?]) {
    var failures: [(any Error)?] = []
    do {
      try withHandle { handle in
        defer { if handle.isInTransaction { try? handle.run("ROLLBACK") } }
        do { failures = try work(handle) } catch { failures = jobs.map { _ in error } }
      }
    } catch {
      failures = jobs.map { _ in error }
    }
    let errors = failures.compactMap(\.self)
    for error in errors { trouble.met(error, in: kind) }
    if errors.count < failures.count { trouble.passed(kind) }
    for (job, failure) in zip(jobs, failures) {
      if let failure { job.caller.fail(failure) } else { job.caller.succeed() }
    }
  }

  /// Runs one job of a group. Its failure undoes only its own writes.
  ///
  /// - Returns: the job's error, if it failed.
  /// - Throws: an error that ended the whole transaction.
  private func failure(of work: SQLiteWork, on handle: SQLiteHandle) throws -> (any Error)? {
    let isBody = if case .body = work { true } else { false }
    do {
      // SQLite undoes a single failed statement by itself.
      if isBody { try handle.run("SAVEPOINT body") }
      try work.run(on: SQLiteConnection(handle))
      if isBody { try handle.run("RELEASE body") }
      return nil
    } catch {
      guard handle.isInTransaction else { throw error }
      if isBody {
        try handle.run("ROLLBACK TO body")
        try handle.run("RELEASE body")
      }
      return error
    }
  }

  func withHandle(_ body: (SQLiteHandle) throws(DatabaseError) -> Void) throws(DatabaseError) {
    try handle.withLock { held throws(DatabaseError) in
      let handle = if let held { held } else { try open() }
      held = handle
      try body(handle)
    }
  }

  /// Runs `body` with the connection on the caller's thread; nil if it is in use or cannot be opened.
  func withIdleHandle<Result>(_ body: (SQLiteHandle) -> Result) -> Result? {
    try? handle.withLockIfAvailable { held throws(DatabaseError) in
      if isClosed.load(ordering: .relaxed) { throw .isClosed }
      let handle = if let held { held } else { try open() }
      held = handle
      let result = body(handle)
      return result
    }
  }

  /// Closes the connection. The writer first checkpoints the WAL, which SQLite would skip while others have
  /// the file open.
  func close() {
    handle.withLock { held in
      isClosed.store(true, ordering: .relaxed)
      if isWriter {
        try? held?.run("PRAGMA wal_checkpoint(PASSIVE)")
        files.removeAll()
      }
      held = nil
    }
  }

  private func open() throws(DatabaseError) -> SQLiteHandle {
    let handle = try SQLiteHandle(path: files.path, busyTimeout: options.busyTimeout) {
      [trouble, kind] start in
      trouble.met(
        DatabaseError(.busy, "another process keeps the database locked"), in: kind, since: start)
    }
    if isWriter {
      try prepareToWrite(handle)
    } else {
      // SQLite looks for the log at the first read: it must not do so once the files may have gone.
      try handle.runScript("PRAGMA query_only = 1; SELECT COUNT(*) FROM sqlite_master;")
    }
    // A connection that is opened again after an error must not open what was put there meanwhile.
    try files.check()
    if isWriter { files.addSideFiles() }
    return handle
  }

  /// If two processes open a new database at once, SQLite reports busy to one of them without waiting,
  /// because the busy timeout does not apply while the WAL is set up.
  private func prepareToWrite(_ handle: SQLiteHandle) throws(DatabaseError) {
    let deadline = ContinuousClock.now + .seconds(options.busyTimeout)
    while true {
      do {
        return try handle.runScript(
          """
          PRAGMA journal_mode = WAL;
          PRAGMA synchronous = FULL;
          PRAGMA foreign_keys = ON;
          -- After a burst the log shrinks to this again.
          PRAGMA journal_size_limit = 67108864;
          PRAGMA cache_size = -\(options.writerCache);
          PRAGMA wal_autocheckpoint = \(options.checkpoint);
          -- Makes the log and its index.
          SELECT COUNT(*) FROM sqlite_master;
          """)
      } catch {
        guard error.code == .busy, ContinuousClock.now < deadline else { throw error }
        usleep(10_000)
      }
    }
  }
}
