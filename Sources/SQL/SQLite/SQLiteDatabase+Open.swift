import Dispatch
import Foundation
import GRDB

extension SQLiteDatabase {
  /// How an SQLite database is run.
  package struct Options: Sendable {
    /// How many reads run beside each other.
    package var readers = 2
    /// How many reads share a snapshot at most.
    var maximumReadGroup = 32
    /// How many writes share a commit at most.
    package var maximumWriteGroup = 512
    /// How long a write waits for another process that is writing, in seconds.
    var busyTimeout = 5.0

    /// The defaults.
    package init() {}
  }

  /// Opens the database at `path` without blocking the caller's thread; see
  /// ``init(path:options:observer:)``.
  package static func open(
    path: String, options: Options = Options(), observer: DatabaseObserver? = nil
  ) async throws -> SQLiteDatabase {
    try await withCheckedThrowingContinuation { continuation in
      DispatchQueue(label: "SQLite open").async {
        continuation.resume(
          with: Result { try SQLiteDatabase(path: path, options: options, observer: observer) })
      }
    }
  }

  /// Opens the database at `path`, made with mode 0600 if it is not there. Blocks.
  ///
  /// - Throws: ``DatabaseError``.
  package convenience init(
    path: String, options: Options = Options(), observer: DatabaseObserver? = nil
  ) throws(DatabaseError) {
    // SQLite gives special meanings to ":memory:", "file:" and the empty path, but not to an
    // absolute path.
    let path = URL(fileURLWithPath: path).path
    try createPrivately(path)
    do {
      let pool = try Self.pool(path, options)
      // Only now: GRDB sets NORMAL whenever it has opened a pool, which would let a power cut
      // take back the last commits.
      try pool.writeWithoutTransaction { try $0.execute(sql: "PRAGMA synchronous = FULL") }
      self.init(pool, options, observer: observer)
    } catch {
      throw DatabaseError(error)
    }
  }

  /// Of two programs that open a new database at once, SQLite tells one that it is busy without
  /// waiting: while the log is set up, the busy timeout does not count.
  private static func pool(_ path: String, _ options: Options) throws -> DatabasePool {
    let deadline = ContinuousClock.now + .seconds(options.busyTimeout)
    while true {
      do {
        return try DatabasePool(path: path, configuration: configuration(options))
      } catch let error as GRDB.DatabaseError
        where error.resultCode == .SQLITE_BUSY && ContinuousClock.now < deadline
      {
        usleep(10_000)
      }
    }
  }

  private static func configuration(_ options: Options) -> Configuration {
    var configuration = Configuration()
    configuration.label = "SQL"
    configuration.foreignKeysEnabled = true
    configuration.busyMode = .timeout(options.busyTimeout)
    configuration.maximumReaderCount = options.readers
    configuration.prepareDatabase { database in
      // After a burst the log shrinks to this again.
      try database.execute(sql: "PRAGMA journal_size_limit = 67108864")
    }
    return configuration
  }
}

/// Makes the file if it is not there. SQLite gives the log and the shared memory beside it the
/// same mode.
private func createPrivately(_ path: String) throws(DatabaseError) {
  let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
  guard file >= 0 else {
    let number = errno
    let code: DatabaseError.Code = number == EROFS || number == EACCES ? .readOnly : .io
    throw DatabaseError(code, "cannot open \(path): \(String(cString: strerror(number)))")
  }
  close(file)
}
