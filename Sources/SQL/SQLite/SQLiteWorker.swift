import Foundation
import Synchronization

/// A connection to the file, opened when it is needed: of one thread, and of others for a moment while that is idle.
final class SQLiteWorker: Sendable {
  private let path: String
  private let options: SQLiteDatabase.Options
  private let isWriter: Bool

  /// Others than the worker's own thread take it only where it is free, and have it for microseconds.
  private let handle = Mutex<SQLiteHandle?>(nil)
  private let isClosed = Atomic(false)

  /// - Parameter isWriter: whether the connection may write; there is one that does.
  init(path: String, _ options: SQLiteDatabase.Options, isWriter: Bool) {
    self.path = path
    self.options = options
    self.isWriter = isWriter
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
      if isClosed.load(ordering: .relaxed) { throw DatabaseError(.closed, "the database is closed") }
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
