import Dispatch
import Foundation

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
    /// How much of the file the writer keeps in memory, in KiB: SQLite's own default.
    var writerCache = 2000
    /// After how many pages of 4 KiB in the log it is written back: SQLite's own default.
    var checkpoint = 1000

    /// The defaults.
    package init() {}

    /// For a program that fills a database: the indexes stay in memory, and a page that many transactions
    /// change is written back once. The log grows to half a gigabyte.
    package static let filling: Options = {
      var options = Options()
      options.writerCache = 64 << 10
      options.checkpoint = 128 << 10
      return options
    }()
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
    let writer = SQLiteWorker(path: path, options, isWriter: true)
    // What is wrong with the file is told now.
    try writer.withHandle { _ in }
    let readers = (0..<options.readers).map { _ in
      SQLiteWorker(path: path, options, isWriter: false)
    }
    self.init(writer: writer, readers: readers, options, observer: observer)
  }
}

/// Makes the file if it is not there; never at the end of a link that leads nowhere. SQLite gives the log and the shared
/// memory beside it the same mode.
private func createPrivately(_ path: String) throws(DatabaseError) {
  let kind = O_RDWR | O_CLOEXEC
  var file = open(path, kind)
  if file < 0, errno == ENOENT { file = open(path, kind | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600) }
  // Another process has made it meanwhile.
  if file < 0, errno == EEXIST { file = open(path, kind) }
  guard file >= 0 else {
    let number = errno
    let code: DatabaseError.Code = number == EROFS || number == EACCES ? .readOnly : .io
    throw DatabaseError(code, "the file cannot be opened (error \(number))")
  }
  close(file)
}
