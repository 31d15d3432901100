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

/// Whether a read took so long of late that the disk must have been waited for: then none may wait on a thread that has
/// other work.
final class ReadSlowness: Sendable {
  /// A read of pages that are in memory takes microseconds; a thread that others kept from running, milliseconds.
  private static let limit = Duration.milliseconds(20)

  private let pause: Duration
  private let until = Mutex<ContinuousClock.Instant?>(nil)
  private let isSlow = Atomic(false)

  /// - Parameter pause: for how long no read is tried after a slow one.
  init(pause: Duration = .seconds(1)) {
    self.pause = pause
  }

  /// Whether a read may be tried where it must not take long.
  var mayAsk: Bool {
    guard isSlow.load(ordering: .relaxed) else { return true }
    return until.withLock { until in
      guard let end = until, ContinuousClock.now < end else {
        until = nil
        isSlow.store(false, ordering: .relaxed)
        return true
      }
      return false
    }
  }

  /// A read has taken so long.
  func note(_ duration: Duration) {
    guard duration >= Self.limit else { return }
    until.withLock { $0 = .now + pause }
    isSlow.store(true, ordering: .relaxed)
  }
}
