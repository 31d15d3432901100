package import Basics
package import Foundation
import Sealing

/// The user that a command run by root becomes to access files. Whoever can write to a folder decides what is in it, so
/// root writes nothing there with more rights than that user has.
///
/// Commands become this user for good as soon as they know their files. Before that, only files that root has named on the
/// command line are read, with root's rights.
package struct FileOwner: Sendable, Hashable {
  package let user: uid_t
  package let group: gid_t

  /// The first owner other than root on the way from `/` to the path; nil if root owns all of it.
  package init?(ofWayTo path: String) {
    guard let step = FileStep.way(to: path).first(where: { $0.user != 0 }) else { return nil }
    user = step.user
    // A folder of another user may have root's group.
    group = getpwuid(user).map(\.pointee.pw_gid) ?? (step.group == 0 ? user : step.group)
  }

  private var name: String { FileObstacle.name(of: user) }

  /// If this process is root's, makes it the owner of these files for good; does nothing for another user.
  ///
  /// - Throws: ``Fault`` if they belong to several users.
  package static func become(ofWaysTo paths: [String]) throws(Fault) {
    guard geteuid() == 0 else { return }
    let owners = Set(paths.compactMap(FileOwner.init(ofWayTo:)))
    guard let owner = owners.first else { return }
    guard owners.count == 1 else {
      throw Fault(
        "\(paths.joined(separator: ", ")) belong to different users: \(owners.map(\.name).sorted().joined(separator: ", "))",
        advice:
          "give all of them to the user of the service, here NAME, and run sudo -u NAME push-bouncer ...")
    }
    let home = getpwuid(owner.user).map { String(cString: $0.pointee.pw_dir) }
    guard owner.takeGroups(), setgid(owner.group) == 0, setuid(owner.user) == 0 else { throw owner.fault }
    // libpq looks for certificates in the home folder, and fails in one that it may not enter, as root's.
    setenv("HOME", home ?? "/", 1)
  }

  /// Replaces root's supplementary groups with the user's.
  private func takeGroups() -> Bool {
    if let entry = getpwuid(user) { return initgroups(entry.pointee.pw_name, group) == 0 }
    return setgroups(1, [group]) == 0
  }

  private var fault: Fault {
    Fault(
      "this process may not become \(name), who owns these files",
      advice: "run sudo -u \(name) push-bouncer ...")
  }
}

extension FileOwner {
  /// Throws if root would use a file that others may write and that root has not named. Root may work in
  /// another user's folder without knowing that there is such a file.
  package static func checkTrust(in file: String) throws(Fault) {
    guard geteuid() == 0, let step = FileStep.way(to: file).first(where: \.isOpenToOthers) else { return }
    let others = step.user == 0 ? "others" : FileObstacle.name(of: step.user)
    throw Fault(
      source: file, "is not used by root: \(others) may change \(step.path == file ? "it" : step.path)",
      advice: "name it if it is the one to use: --config \(file)")
  }
}

/// A folder, link or file on the way to a file.
package struct FileStep {
  package let path: String
  package let user: uid_t
  package let group: gid_t
  private let kind: FileAttributeType?
  private let permissions: Int

  /// Returns nil if there is nothing at the path, or it cannot be examined.
  private init?(_ path: String) {
    // Attributes of a link itself, not of its target.
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
      let user = attributes[.ownerAccountID] as? NSNumber,
      let group = attributes[.groupOwnerAccountID] as? NSNumber,
      let permissions = attributes[.posixPermissions] as? NSNumber
    else { return nil }
    self.path = path
    self.user = user.uint32Value
    self.group = group.uint32Value
    kind = attributes[.type] as? FileAttributeType
    self.permissions = permissions.intValue
  }

  /// All existing steps on the way from `/` to a file, including the way to the target of each link.
  package static func way(to path: String) -> [FileStep] {
    // The kernel also follows at most 40 links.
    var links = 40
    return way(to: path, &links)
  }

  private static func way(to path: String, _ links: inout Int) -> [FileStep] {
    var place = path.hasPrefix("/") ? "" : FileManager.default.currentDirectoryPath
    var steps = place.isEmpty ? [] : way(to: place, &links)
    for name in path.split(separator: "/") {
      let folder = place
      place += "/\(name)"
      guard let step = FileStep(place) else { break }
      steps.append(step)
      guard step.kind == .typeSymbolicLink else { continue }
      links -= 1
      guard links >= 0, let target = try? FileManager.default.destinationOfSymbolicLink(atPath: place)
      else { break }
      steps += way(to: target.hasPrefix("/") ? target : "\(folder)/\(target)", &links)
    }
    return steps
  }

  /// Whether another user than root could replace it or change what is in it.
  package var isOpenToOthers: Bool {
    if user != 0 { return true }
    // In a sticky folder like `/tmp`, users can replace only their own files.
    let isSticky = kind == .typeDirectory && permissions & 0o1000 != 0
    return kind != .typeSymbolicLink && !isSticky && permissions & 0o022 != 0
  }
}

/// Files that only the service's user may read.
package enum PrivateFile {
  /// Writes a file with mode 0600 atomically, and syncs it to disk before it returns.
  ///
  /// - Parameter replacing: whether an existing file or link is replaced; otherwise it is kept.
  /// - Returns: whether the given bytes were written.
  @discardableResult
  package static func write(_ bytes: some Collection<UInt8>, to path: String, replacing: Bool) throws -> Bool
  {
    let (folder, name) = try openFolder(of: path)
    defer { close(folder) }
    let temporary = "\(name).\(UInt64.random(in: .min ... .max)).new"
    let file = openat(folder, temporary, creationFlags, 0o600)
    guard file >= 0 else { throw Fault(FileObstacle(errno), of: path) }
    defer { unlinkat(folder, temporary, 0) }
    do {
      defer { close(file) }
      let bytes = Array(bytes)
      guard Foundation.write(file, bytes, bytes.count) == bytes.count, fsync(file) == 0 else {
        throw Fault(FileObstacle(errno), of: path)
      }
    }
    if replacing {
      guard renameat(folder, temporary, folder, name) == 0 else { throw Fault(FileObstacle(errno), of: path) }
    } else if linkat(folder, temporary, folder, name, 0) != 0 {
      guard errno == EEXIST else { throw Fault(FileObstacle(errno), of: path) }
      return false
    }
    try sync(folder, of: path)
    return true
  }

  /// Creates a folder with mode 0700 and missing folders on the way to it, and syncs their names: otherwise a
  /// power loss takes a new folder away with all files in it, synced or not.
  package static func makeFolder(at path: String) throws {
    var missing: [URL] = []
    var url = URL(fileURLWithPath: path)
    while !FileManager.default.fileExists(atPath: url.path), url.path != "/" {
      missing.append(url)
      url.deleteLastPathComponent()
    }
    for url in missing.reversed() {
      guard mkdir(url.path, 0o700) == 0 || errno == EEXIST else {
        throw Fault(FileObstacle(errno), of: url.path)
      }
      try syncFolder(of: url.path)
    }
  }

  /// Creates an empty file with mode 0600, replacing an existing one, and returns it open for writing.
  package static func make(at path: String) throws -> FileHandle {
    let (folder, name) = try openFolder(of: path)
    defer { close(folder) }
    if let attributes = try? FileManager.default.attributesOfItem(atPath: path) {
      guard attributes[.type] as? FileAttributeType == .typeRegular else {
        throw Fault(source: path, "exists and is not a regular file", advice: "name another file")
      }
      unlinkat(folder, name, 0)
    }
    let file = openat(folder, name, creationFlags, 0o600)
    guard file >= 0 else { throw Fault(FileObstacle(errno), of: path) }
    return FileHandle(fileDescriptor: file, closeOnDealloc: true)
  }

  private static let creationFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC

  private static func openFolder(of path: String) throws -> (folder: CInt, name: String) {
    let url = URL(fileURLWithPath: path)
    let folder = open(url.deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard folder >= 0 else { throw Fault(FileObstacle(errno), of: path) }
    return (folder, url.lastPathComponent)
  }

  /// Calls `body` with a file's content, which is wiped from memory afterwards. `body` must not copy it.
  package static func withContents<Result>(
    of path: String, atMost limit: Int, _ body: (UnsafeMutableRawBufferPointer) throws -> Result
  ) throws -> Result {
    var bytes = try contents(of: path, atMost: limit)
    defer { bytes.wipe() }
    return try bytes.withUnsafeMutableBytes(body)
  }

  /// Reads a file's content, without the byte order mark that some editors put before UTF-8.
  ///
  /// - Parameter key: the setting that names the file, for the fault.
  /// - Throws: ``Fault`` for a file that cannot be read, or is UTF-16.
  package static func contents(of path: String, atMost limit: Int, key: String? = nil) throws(Fault)
    -> [UInt8]
  {
    func fault(_ number: CInt) -> Fault { Fault(FileObstacle(number), of: path, key: key) }
    // `O_NONBLOCK` keeps the call from waiting if the path is a named pipe.
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else { throw fault(errno) }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: limit + 1)
    var count = 0
    while count < bytes.count {
      let read = bytes.withUnsafeMutableBytes {
        Foundation.read(file, $0.baseAddress! + count, $0.count - count)
      }  // limit + 1 > 0
      guard read >= 0 else { throw fault(errno) }
      guard read > 0 else { break }
      count += read
    }
    guard count <= limit else {
      bytes.wipe()
      throw fault(EFBIG)
    }
    bytes.removeLast(bytes.count - count)
    if isUTF16(bytes) {
      bytes.wipe()
      let advice = "save it as UTF-8 (iconv -f UTF-16 -t UTF-8 does that)"
      throw key.map { Fault(key: $0, "names \(path), which is UTF-16", advice: advice) }
        ?? Fault(source: path, "is UTF-16", advice: advice)
    }
    if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
    return bytes
  }

  /// Whether it begins with UTF-16's byte order mark, or with two ASCII characters in UTF-16.
  private static func isUTF16(_ bytes: [UInt8]) -> Bool {
    if bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) { return true }
    guard bytes.count >= 4, bytes.count.isMultiple(of: 2) else { return false }
    let zeros = bytes.prefix(4).map { $0 == 0 }
    return zeros == [false, true, false, true] || zeros == [true, false, true, false]
  }

  /// Syncs the folder that a file is in, so that its new name, or that it is removed, survives a power loss.
  package static func syncFolder(of path: String) throws {
    let (folder, _) = try openFolder(of: path)
    defer { close(folder) }
    try sync(folder, of: path)
  }

  private static func sync(_ folder: CInt, of path: String) throws(Fault) {
    // Some file systems cannot sync folders, and say so.
    guard fsync(folder) == 0 || errno == EINVAL else { throw Fault(FileObstacle(errno), of: path) }
  }

  /// Whether the file's group or others may access it although `user` could forbid that. For files of another owner the
  /// group may read: Kubernetes gives a service its Secrets that way.
  package static func isExposed(_ path: String, to user: uid_t = geteuid()) -> Bool {
    guard let file = FileAttributes(of: path) else { return false }
    return file.permissions & (file.owner == user ? 0o077 : 0o037) != 0
  }
}

/// A file's attributes. Links are followed, because containers mount secrets as links.
package struct FileAttributes: Sendable, Hashable {
  package let number: Int
  package let size: Int
  package let modified: Date
  package let permissions: Int
  package let owner: uid_t

  /// Returns nil if the path is not a regular file.
  package init?(of path: String) {
    let path = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
      attributes[.type] as? FileAttributeType == .typeRegular,
      let number = attributes[.systemFileNumber] as? Int, let size = attributes[.size] as? Int,
      let modified = attributes[.modificationDate] as? Date,
      let permissions = attributes[.posixPermissions] as? Int,
      let owner = attributes[.ownerAccountID] as? NSNumber
    else { return nil }
    self.number = number
    self.size = size
    self.modified = modified
    self.permissions = permissions
    self.owner = owner.uint32Value
  }
}
