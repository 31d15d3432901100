internal import Foundation

/// Why the system does not let this process use a file.
package struct FileObstacle: Sendable, Hashable {
  private let number: CInt

  /// - Parameter number: what the system has said, an `errno`.
  package init(_ number: CInt) { self.number = number }

  /// What stands in the way, in the system's words, to follow the file's path.
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
    default: "look at the path, and at the system's log"
    }
  }

  /// Why the folder at `path` cannot be looked into; nil if it can.
  package static func lookingInto(_ path: String) -> FileObstacle? { opening(path, O_RDONLY | O_DIRECTORY) }

  /// Why the file at `path` cannot be changed, or made where it is not there; nil if it can.
  package static func writing(_ path: String) -> FileObstacle? {
    FileManager.default.fileExists(atPath: path)
      ? opening(path, O_RDWR) : puttingInto(URL(fileURLWithPath: path).deletingLastPathComponent())
  }

  /// Why nothing can be put into the folder at `path`, or it cannot be made; nil if it can.
  package static func filling(_ path: String) -> FileObstacle? {
    var folder = URL(fileURLWithPath: path)
    // It is made, with the folders that it lies in.
    while !FileManager.default.fileExists(atPath: folder.path), folder.path != "/" {
      folder.deleteLastPathComponent()
    }
    return puttingInto(folder)
  }

  private static func opening(_ path: String, _ flags: CInt) -> FileObstacle? {
    let file = open(path, flags | O_CLOEXEC | O_NONBLOCK)
    guard file < 0 else {
      close(file)
      return nil
    }
    return FileObstacle(errno)
  }

  private static func puttingInto(_ folder: URL) -> FileObstacle? {
    // With the rights that the process acts with; the point refuses what is no folder.
    faccessat(AT_FDCWD, "\(folder.path)/.", W_OK | X_OK, AT_EACCESS) == 0 ? nil : FileObstacle(errno)
  }

  static func name(of id: uid_t) -> String {
    getpwuid(id).map { String(cString: $0.pointee.pw_name) } ?? "user \(id)"
  }

  package static var user: String { name(of: geteuid()) }
}

extension Fault {
  /// What is in the way of a file, which a setting or option may name.
  package init(_ obstacle: FileObstacle, of path: String, key: String? = nil) {
    if let key {
      self.init(key: key, "names \(path), which \(obstacle.problem)", advice: obstacle.advice)
    } else {
      self.init(source: path, obstacle.problem, advice: obstacle.advice)
    }
  }
}
