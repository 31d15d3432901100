import Foundation
import Synchronization

/// What one caller wants done.
enum SQLiteWork: Sendable {
  /// One statement, whose rows are kept.
  case statement(Statement, Kept<[Row]>)
  /// Any number of them.
  case body(@Sendable (any Connection) throws -> Void)

  func run(on connection: SQLiteConnection) throws {
    switch self {
    case .statement(let statement, let rows): rows.value = try connection.query(statement)
    case .body(let body): try connection.run(body)
    }
  }
}

/// A connection to the file, opened when it is needed: of one thread, and of others for a moment while that is idle.
final class SQLiteWorker: Sendable {
  typealias Job = JobQueue<SQLiteWork>.Job

  private let path: String
  private let options: SQLiteDatabase.Options
  private let isWriter: Bool
  private let observer: DatabaseObserver?

  /// Others than the worker's own thread take it only where it is free, and have it for microseconds.
  private let handle = Mutex<SQLiteHandle?>(nil)
  private let isClosed = Atomic(false)

  /// - Parameter isWriter: whether the connection may write; there is one that does.
  init(path: String, _ options: SQLiteDatabase.Options, isWriter: Bool, observer: DatabaseObserver?) {
    self.path = path
    self.options = options
    self.isWriter = isWriter
    self.observer = observer
  }

  /// Does each read in a snapshot of its own, and answers it.
  func read(_ jobs: [Job]) {
    for job in jobs {
      answer([job]) { handle in
        if case .statement(let statement, let rows) = job.work {
          // It is a snapshot of its own, without the two statements around it that make one.
          rows.value = try handle.queryAlone(statement, mayWait: true)
        } else {
          try handle.run("BEGIN")
          try job.work.run(on: SQLiteConnection(handle))
        }
        return [nil]
      }
    }
  }

  /// Commits the writes of several callers in one transaction, and answers each once its work is on the disk, or is
  /// known to be undone: failures too, as a job may have failed over what another one of the group has written.
  func commit(_ jobs: [Job]) {
    answer(jobs) { handle in
      try handle.run("BEGIN IMMEDIATE")
      // One alone needs no savepoint, for which SQLite would keep a copy of each page that the job changes, in a file
      // if they are many.
      if jobs.count == 1 { try jobs[0].work.run(on: SQLiteConnection(handle)) }
      let failures = jobs.count == 1 ? [nil] : try jobs.map { try failure(of: $0.work, on: handle) }
      try observingCommit(observer) { try handle.run("COMMIT") }
      return failures
    }
  }

  /// Answers each of `jobs` by what `work` returns for it: nil where all went well; or all by what it throws. A
  /// transaction that is still open then is rolled back.
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
    for (job, failure) in zip(jobs, failures) {
      if let failure { job.caller.fail(failure) } else { job.caller.succeed() }
    }
  }

  /// Does a job of several in a transaction so that its failure undoes what it wrote, and nothing else.
  ///
  /// - Throws: what ended the whole transaction.
  private func failure(of work: SQLiteWork, on handle: SQLiteHandle) throws -> (any Error)? {
    let isBody = if case .body = work { true } else { false }
    do {
      // SQLite itself undoes a statement that fails.
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

  /// Runs `body` with the connection.
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

  /// Closes the connection. The writer first writes the log back: while others have the file open, SQLite would
  /// leave that to whoever writes next.
  func close() {
    handle.withLock { held in
      isClosed.store(true, ordering: .relaxed)
      if isWriter { try? held?.run("PRAGMA wal_checkpoint(PASSIVE)") }
      held = nil
    }
  }

  private func open() throws(DatabaseError) -> SQLiteHandle {
    let handle = try SQLiteHandle(path: path, busyTimeout: options.busyTimeout)
    if isWriter { try prepareToWrite(handle) } else { try handle.run("PRAGMA query_only = 1") }
    return handle
  }

  /// Of two programs that open a new database at once, SQLite tells one that it is busy without
  /// waiting: while the log is set up, the busy timeout does not count.
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
          """)
      } catch {
        guard error.code == .busy, ContinuousClock.now < deadline else { throw error }
        usleep(10_000)
      }
    }
  }
}
