package import Foundation

/// The reason for which the operating system denies this process the use of a file.
package struct FileObstacle: Sendable, Hashable {
  private let number: CInt

  /// - Parameter number: an `errno`.
  package init(_ number: CInt) { self.number = number }

  /// The problem in the system's words, to follow the file's path.
  package var problem: String { "cannot be used: \(String(cString: strerror(number)))" }

  package var advice: String {
    switch number {
    case ENOENT: "put it there, or correct the path"
    case EISDIR: "name a file"
    case ENOTDIR: "name a folder"
    case ENOSPC, EDQUOT: "free some space"
    case EACCES, EPERM: "let \(Self.user) use it, or run this as its owner"
    case EROFS: "choose another place, or mount it for writing"
    case EMFILE, ENFILE: "raise the limit (ulimit -n)"
    default: "check the path, and look at the system's log"
    }
  }

  /// Why the folder at `path` cannot be listed; nil if it can.
  package static func listing(_ path: String) -> FileObstacle? { opening(path, O_RDONLY | O_DIRECTORY) }

  /// Why the file at `path` cannot be read; nil if it can.
  package static func reading(_ path: String) -> FileObstacle? { accessing(path, R_OK) }

  /// Why the file at `path` cannot be written or created; nil if it can.
  package static func writing(_ path: String) -> FileObstacle? {
    FileManager.default.fileExists(atPath: path)
      ? opening(path, O_RDWR) : creatingFile(URL(fileURLWithPath: path).deletingLastPathComponent())
  }

  /// Why no file can be created in the folder at `path`, or the folder cannot be created; nil if it can.
  package static func creatingFiles(in path: String) -> FileObstacle? {
    var folder = URL(fileURLWithPath: path)
    // Missing parent folders will be created, so the nearest existing one is checked.
    while !FileManager.default.fileExists(atPath: folder.path), folder.path != "/" {
      folder.deleteLastPathComponent()
    }
    return creatingFile(folder)
  }

  private static func opening(_ path: String, _ flags: CInt) -> FileObstacle? {
    let file = open(path, flags | O_CLOEXEC | O_NONBLOCK)
    guard file < 0 else {
      close(file)
      return nil
    }
    return FileObstacle(errno)
  }

  private static func creatingFile(_ folder: URL) -> FileObstacle? {
    // `/.` makes it fail for anything but a folder.
    accessing("\(folder.path)/.", W_OK | X_OK)
  }

  /// Checks the rights of the effective user.
  private static func accessing(_ path: String, _ rights: CInt) -> FileObstacle? {
    faccessat(AT_FDCWD, path, rights, AT_EACCESS) == 0 ? nil : FileObstacle(errno)
  }

  package static func name(of id: uid_t) -> String {
    getpwuid(id).map { String(cString: $0.pointee.pw_name) } ?? "user \(id)"
  }

  package static var user: String { name(of: geteuid()) }
}

extension Fault {
  /// A fault about a file, which a setting or option may name.
  package init(_ obstacle: FileObstacle, of path: String, key: String? = nil) {
    if let key {
      self.init(key: key, "names \(path), which \(obstacle.problem)", advice: obstacle.advice)
    } else {
      self.init(source: path, obstacle.problem, advice: obstacle.advice)
    }
  }
}
