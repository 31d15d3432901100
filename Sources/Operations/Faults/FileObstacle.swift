internal import Foundation
internal import Glibc

/// Why a file cannot be used, found by looking at it: that says more than the error of whatever has tried.
package struct FileObstacle: Sendable, Hashable {
  /// What stands in the way, to follow the file's path: `is not there`.
  package let problem: String
  /// What to do about it.
  package let advice: String

  /// Why the file at `path` cannot be read; nil if it can.
  package static func reading(_ path: String) -> FileObstacle? {
    wayTo(path) ?? missing(path) ?? folder(path) ?? closed(path, for: R_OK, "read")
  }

  /// Why the folder at `path` cannot be looked into; nil if it can.
  package static func lookingInto(_ path: String) -> FileObstacle? {
    wayTo(path) ?? missing(path, kind: "folder") ?? file(path) ?? closed(path, for: R_OK | X_OK, "read")
  }

  /// Why the file at `path` cannot be changed, or made where it is not there; nil if it can.
  package static func writing(_ path: String) -> FileObstacle? {
    if let obstacle = wayTo(path) { return obstacle }
    let parent = URL(fileURLWithPath: path).deletingLastPathComponent().path
    guard exists(path) else { return inside(parent, for: W_OK | X_OK) }
    return folder(path) ?? closed(path, for: R_OK | W_OK, "written")
  }

  /// Why nothing can be put into the folder at `path`, or it cannot be made; nil if it can.
  package static func filling(_ path: String) -> FileObstacle? {
    guard !exists(path) else { return wayTo(path) ?? file(path) ?? closed(path, for: W_OK | X_OK, "written") }
    // It is made, with the folders that it lies in.
    var parent = URL(fileURLWithPath: path).deletingLastPathComponent()
    while !exists(parent.path), parent.path != "/" { parent.deleteLastPathComponent() }
    return file(parent.path) ?? inside(parent.path, for: W_OK | X_OK)
  }

  /// What the system has said, to follow a file's path.
  package static func words(_ number: CInt) -> String {
    switch number {
    case ENOENT: "is not there"
    case EACCES, EPERM: "is not open to \(name(of: geteuid()))"
    case EISDIR: "is a folder, not a file"
    case ENOTDIR: "lies in something that is no folder"
    case EEXIST: "is there already"
    case ENOSPC, EDQUOT: "cannot be written: the disk is full"
    case EROFS: "cannot be written: its file system can only be read"
    case EFBIG: "is larger than such a file ever is, or may be"
    case EMFILE, ENFILE: "cannot be opened: too many files are open (ulimit -n)"
    case EIO: "cannot be used: the disk fails"
    case ELOOP, ENAMETOOLONG: "is no usable path"
    default: "cannot be used: the system answers with error \(number)"
    }
  }

  /// What to do about that.
  static func advice(_ number: CInt) -> String {
    switch number {
    case ENOSPC, EDQUOT: "free some space"
    case EACCES, EPERM: "let \(name(of: geteuid())) use it, or run this as its owner"
    case EMFILE, ENFILE: "raise the limit"
    case EIO: "look at the system's log"
    default: "look at the path"
    }
  }

  /// The name of a user of this system.
  static func name(of id: uid_t) -> String {
    getpwuid(id).map { String(cString: $0.pointee.pw_name) } ?? "user \(id)"
  }

  /// The user that this process runs as.
  package static var user: String { name(of: geteuid()) }

  // MARK: - One thing that may be in the way

  /// The folders on the way to it.
  private static func wayTo(_ path: String) -> FileObstacle? {
    var parents: [String] = []
    var parent = URL(fileURLWithPath: path)
    repeat {
      parent.deleteLastPathComponent()
      parents.append(parent.path)
    } while parent.path != "/"
    for parent in parents.reversed() {
      if !exists(parent) {
        return FileObstacle(
          problem: "lies in the folder \(parent), which is not there", advice: "make it, or correct the path")
      }
      if let obstacle = inside(parent, for: X_OK) { return obstacle }
    }
    return nil
  }

  private static func inside(_ parent: String, for access: CInt) -> FileObstacle? {
    guard !isOpen(parent, for: access) else { return nil }
    let wanted = access & W_OK == 0 ? "enter" : "write to"
    return FileObstacle(
      problem: "lies in the folder \(parent), which \(user) may not \(wanted) (\(ownership(of: parent)))",
      advice: "let \(user) \(wanted) it, or run this as its owner")
  }

  private static func missing(_ path: String, kind: String = "file") -> FileObstacle? {
    exists(path)
      ? nil : FileObstacle(problem: "is not there", advice: "put the \(kind) there, or correct the path")
  }

  private static func folder(_ path: String) -> FileObstacle? {
    isFolder(path) ? FileObstacle(problem: "is a folder, not a file", advice: "name the file") : nil
  }

  private static func file(_ path: String) -> FileObstacle? {
    isFolder(path) ? nil : FileObstacle(problem: "is a file, not a folder", advice: "name a folder")
  }

  private static func closed(_ path: String, for access: CInt, _ verb: String) -> FileObstacle? {
    guard !isOpen(path, for: access) else { return nil }
    if access & W_OK != 0, errno == EROFS {
      return FileObstacle(problem: words(EROFS), advice: "choose another place, or mount it for writing")
    }
    return FileObstacle(
      problem: "cannot be \(verb) by \(user) (\(ownership(of: path)))",
      advice: "let \(user) use it, as with chown \(user) \(path), or run this as its owner")
  }

  private static func exists(_ path: String) -> Bool {
    faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) == 0 || errno == EACCES
  }

  private static func isFolder(_ path: String) -> Bool {
    var isFolder: ObjCBool = false
    return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && isFolder.boolValue
  }

  /// As the process acts, not as who has started it.
  private static func isOpen(_ path: String, for access: CInt) -> Bool {
    faccessat(AT_FDCWD, path, access, AT_EACCESS) == 0
  }

  private static func ownership(of path: String) -> String {
    let path = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
      let owner = attributes[.ownerAccountID] as? NSNumber,
      let permissions = attributes[.posixPermissions] as? NSNumber
    else { return "nothing is known of its owner" }
    return "it belongs to \(name(of: owner.uint32Value)), mode \(String(permissions.intValue, radix: 8))"
  }
}

extension Fault {
  /// A setting names a file that cannot be read; nil if it can.
  package init?(unreadable path: String, key: String) {
    guard let obstacle = FileObstacle.reading(path) else { return nil }
    self.init(key: key, "names \(path), which \(obstacle.problem)", advice: obstacle.advice)
  }
}
