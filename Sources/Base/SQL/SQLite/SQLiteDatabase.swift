import Dispatch
import Foundation
import Synchronization

/// A database in one SQLite file, with its write-ahead log (WAL) beside it.
///
/// One writer commits all waiting writes in one transaction and then answers them: one fsync per group
/// instead of one per write.
///
/// Other processes may use the same file; a write waits for theirs up to the busy timeout.
///
/// If its files are moved, removed or replaced, reads go on, and writes fail with ``DatabaseError/Code/moved`` until the
/// same files are back.
package final class SQLiteDatabase: Database {
  package let engine = DatabaseEngine.sqlite

  let writer: JobQueue<SQLiteWork>
  let readers: JobQueue<SQLiteWork>
  private let idleReaders: [SQLiteWorker]
  private let files: SQLiteFiles
  /// When a read on a caller's thread was slow, until when reads use only the readers' threads.
  private let slowUntil = Mutex<ContinuousClock.Instant?>(nil)
  private let met: DatabaseTrouble
  private let observer: DatabaseObserver?

  private init(
    writer: SQLiteWorker, readers: [SQLiteWorker], _ files: SQLiteFiles, _ options: Options,
    trouble: DatabaseTrouble, observer: DatabaseObserver?
  ) {
    self.files = files
    met = trouble
    self.writer = JobQueue(
      label: "SQLite writer", workers: 1, maximumGroup: options.maximumWriteGroup, trouble: trouble,
      observer: observer,
      perform: { writer.commit($1) }, end: { _ in writer.close() })
    self.readers = JobQueue(
      label: "SQLite reader", workers: readers.count, maximumGroup: 32, trouble: trouble, observer: observer,
      perform: { readers[$0].read($1) }, end: { readers[$0].close() })
    idleReaders = readers
    self.observer = observer
  }

  deinit {
    readers.finish()
    writer.finish()
  }

  package func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await perform(.body(work), kind)
  }

  package func query(_ statement: Statement) async throws -> [Row] {
    try await rows(of: statement, .read)
  }

  package func execute(_ statement: Statement) async throws -> [Row] {
    try await rows(of: statement, .write)
  }

  private func rows(of statement: Statement, _ kind: TransactionKind) async throws -> [Row] {
    let rows = Kept<[Row]>()
    try await perform(.statement(statement, rows), kind)
    return rows.value ?? []
  }

  private func perform(_ work: SQLiteWork, _ kind: TransactionKind) async throws {
    try await (kind == .read ? readers : writer).perform(work, observedAs: kind.operation)
  }

  /// Reads on the caller's thread, over the connection of an idle reader: reading a cached page takes less
  /// time than switching threads.
  package func rowsAtOnce(_ statement: Statement) -> [Row]? {
    let start = ContinuousClock.now
    guard slowUntil.withLock({ $0.map { $0 < start } ?? true }) else { return nil }
    for reader in idleReaders {
      guard
        let result = reader.withIdleHandle({ handle in
          Result { try handle.queryAlone(statement, mayWait: false) }
        })
      else { continue }
      let duration = ContinuousClock.now - start
      note(duration)
      observer?(.read, duration)
      return try? result.get()
    }
    return nil
  }

  /// Records the duration of a read on a caller's thread. Cached pages take microseconds, and milliseconds if the
  /// thread was suspended; a longer read has waited for the disk.
  func note(_ duration: Duration) {
    if duration >= .milliseconds(20) { slowUntil.withLock { $0 = .now + .seconds(1) } }
  }

  package var trouble: DatabaseTrouble.Cause? { met.current }

  package func checkFiles() throws { try files.check() }

  package func close() async {
    await readers.close()
    // Closing the last connection checkpoints the WAL.
    await writer.close()
  }
}

extension SQLiteDatabase {
  package struct Options: Sendable {
    /// How many reads run at once.
    package var readers = 2
    /// Most writes that share a commit.
    package var maximumWriteGroup = 512
    /// How long a write waits for another process, in seconds.
    var busyTimeout = 5.0
    /// The writer's page cache, in KiB: SQLite's default.
    var writerCache = 2000
    /// Pages of 4 KiB in the WAL after which it is checkpointed: SQLite's default.
    var checkpoint = 1000

    package init() {}

    /// For a program that fills a database: indexes stay in memory, and a page that many transactions change
    /// is written back once. The WAL grows to half a gigabyte.
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

  /// Opens the database at `path`, or creates it with mode 0600. Blocks.
  ///
  /// - Throws: ``DatabaseError``.
  package convenience init(
    path: String, options: Options = Options(), observer: DatabaseObserver? = nil
  ) throws(DatabaseError) {
    // SQLite treats ":memory:", "file:" and the empty path specially, but not an absolute path.
    let path = URL(fileURLWithPath: path).path
    let files = try SQLiteFiles(of: path)
    let trouble = DatabaseTrouble()
    let writer = SQLiteWorker(files, options, isWriter: true, trouble: trouble, observer: observer)
    // Reports errors of the file now.
    try writer.withHandle { _ in }
    let readers = (0..<options.readers).map { _ in
      SQLiteWorker(files, options, isWriter: false, trouble: trouble, observer: observer)
    }
    // Once the files have gone, none is opened any more, and reads go on with those that are.
    for reader in readers { try reader.withHandle { _ in } }
    self.init(writer: writer, readers: readers, files, options, trouble: trouble, observer: observer)
  }
}
