import Foundation
import Synchronization

/// The files of an open database: its own, and the log and the index beside it.
///
/// SQLite goes on with files that were moved, removed or replaced, and says nothing. What it writes then is gone with the
/// process, or lies where nobody looks for it.
final class SQLiteFiles: Sendable {
  private struct Identity: Hashable {
    let device: dev_t
    let node: ino_t

    init(_ status: stat) {
      device = status.st_dev
      node = status.st_ino
    }

    /// What lies at a path, at the end of links.
    init?(of path: String) {
      var status = stat()
      guard stat(path, &status) == 0 else { return nil }
      self.init(status)
    }
  }

  let path: String
  /// The database's own file first.
  private let opened: Mutex<[(path: String, identity: Identity)]>

  /// Creates the database's file if it does not exist.
  init(of path: String) throws(DatabaseError) {
    self.path = path
    opened = Mutex([(path, Identity(try Self.createPrivately(path)))])
  }

  /// Takes note of what the first connection has made beside the database, or found there. While a connection is open, no
  /// other removes it.
  func addSideFiles() {
    opened.withLock { opened in
      for path in ["-wal", "-shm"].map({ path + $0 }) {
        if let identity = Identity(of: path) { opened.append((path, identity)) }
      }
    }
  }

  /// Called before the last connection ends, which removes what is beside the database.
  func removeAll() { opened.withLock { $0 = [] } }

  /// Checks that what lies at the paths is what was opened. Takes microseconds.
  func check() throws(DatabaseError) {
    for (path, identity) in opened.withLock(\.self) {
      guard let found = Identity(of: path) else {
        throw DatabaseError(.moved, "\(path), which is open, is not there any more")
      }
      guard found == identity else {
        throw DatabaseError(.moved, "\(path) is another file than the one that is open")
      }
    }
  }

  /// Creates the file if it does not exist, but not through a dangling symbolic link. SQLite gives the WAL and
  /// the shared memory beside it the same mode.
  private static func createPrivately(_ path: String) throws(DatabaseError) -> stat {
    let kind = O_RDWR | O_CLOEXEC
    var file = open(path, kind)
    if file < 0, errno == ENOENT { file = open(path, kind | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600) }
    // Another process has created it meanwhile.
    if file < 0, errno == EEXIST { file = open(path, kind) }
    guard file >= 0 else {
      let number = errno
      let code: DatabaseError.Code = number == EROFS || number == EACCES ? .readOnly : .io
      throw DatabaseError(code, "the file cannot be opened (error \(number))")
    }
    defer { close(file) }
    var status = stat()
    guard fstat(file, &status) == 0 else {
      throw DatabaseError(.io, "the file cannot be looked at (error \(errno))")
    }
    return status
  }
}
