package import Foundation
internal import Sealing

/// The user as whom root acts on files: who may change a folder decides what stands in it, so root opens nothing there
/// with rights that this user does not have.
///
/// Commands become this user for good as soon as they know which files they are about. Only what root has named on the
/// command line is opened before that, each file as its own owner.
package struct FileOwner: Sendable, Hashable {
  let user: uid_t
  let group: gid_t

  /// The first on the way to a path who is not root; nil if all of it is root's.
  init?(ofWayTo path: String) {
    guard let step = FileStep.way(to: path).first(where: { $0.user != 0 }) else { return nil }
    user = step.user
    // The group of a folder may be root's.
    group = getpwuid(user).map(\.pointee.pw_gid) ?? (step.group == 0 ? user : step.group)
  }

  private var name: String { FileObstacle.name(of: user) }

  /// Makes root the owner of these files, for good; nobody else changes by this.
  ///
  /// - Throws: ``Fault`` if they belong to several users.
  package static func become(ofWaysTo paths: [String]) throws(Fault) {
    guard geteuid() == 0 else { return }
    let owners = Set(paths.compactMap(FileOwner.init(ofWayTo:)))
    guard let owner = owners.first else { return }
    guard owners.count == 1 else {
      throw Fault(
        "\(paths.joined(separator: ", ")) belong to different users: \(owners.map(\.name).sorted().joined(separator: ", "))",
        advice: "give all of them to the user of the service, and run this as that user")
    }
    guard owner.takeGroups(), setgid(owner.group) == 0, setuid(owner.user) == 0 else { throw owner.fault }
  }

  /// Runs `body` as the owner of a file that root has named, and as root again afterwards.
  package static func acting<Result>(onWayTo path: String, _ body: () throws -> Result) throws -> Result {
    guard geteuid() == 0, let owner = FileOwner(ofWayTo: path) else { return try body() }
    var groups = [gid_t](repeating: 0, count: Int(max(0, getgroups(0, nil))))
    groups.removeLast(groups.count - Int(max(0, getgroups(CInt(groups.count), &groups))))
    let group = getegid()
    defer {
      // Never on with rights that are neither's.
      guard seteuid(0) == 0, setegid(group) == 0, setgroups(groups.count, groups) == 0 else { abort() }
    }
    guard owner.takeGroups(), setegid(owner.group) == 0, seteuid(owner.user) == 0 else { throw owner.fault }
    return try body()
  }

  /// The user's own groups in the place of root's.
  private func takeGroups() -> Bool {
    if let entry = getpwuid(user) { return initgroups(entry.pointee.pw_name, group) == 0 }
    return setgroups(1, [group]) == 0
  }

  private var fault: Fault {
    Fault("this may not become \(name), whose files these are", advice: "run it as \(name)")
  }
}

extension FileOwner {
  /// Root follows a file that another may write only if root has named it: who works in another's folder need not have
  /// seen that there is one.
  static func checkTrust(in file: String) throws(Fault) {
    guard geteuid() == 0, let step = FileStep.way(to: file).first(where: \.isOpenToOthers) else { return }
    let others = step.user == 0 ? "others" : FileObstacle.name(of: step.user)
    throw Fault(
      source: file, "is not followed by root: \(others) may change \(step.path == file ? "it" : step.path)",
      advice: "name it if it is the one to use: --config \(file)")
  }
}

/// A folder, link or file on the way to a file.
struct FileStep {
  let path: String
  let user: uid_t
  let group: gid_t
  private let kind: FileAttributeType?
  private let permissions: Int

  /// nil if it is not there, or nobody may look.
  private init?(_ path: String) {
    // Of a link itself.
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
      let user = attributes[.ownerAccountID] as? NSNumber,
      let group = attributes[.groupOwnerAccountID] as? NSNumber,
      let permissions = attributes[.posixPermissions] as? NSNumber
    else { return nil }
    (self.path, self.user, self.group) = (path, user.uint32Value, group.uint32Value)
    kind = attributes[.type] as? FileAttributeType
    self.permissions = permissions.intValue
  }

  /// What lies on the way from `/` to a file as far as it is there, with the ways to which links lead.
  static func way(to path: String) -> [FileStep] {
    // As many as the kernel follows.
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

  /// Whether another than root could put something else in its place, or into it.
  var isOpenToOthers: Bool {
    if user != 0 { return true }
    // In a folder like `/tmp` nobody touches what is not his own.
    let isSticky = kind == .typeDirectory && permissions & 0o1000 != 0
    return kind != .typeSymbolicLink && !isSticky && permissions & 0o022 != 0
  }
}

/// Files that nobody but the service's user may read.
package enum PrivateFile {
  /// Puts `bytes` at `path`, mode 0600, whole or not at all, and on the disk before it returns.
  ///
  /// - Parameter replacing: whether a file or a link that is there gives way; otherwise it stays as it is.
  /// - Returns: whether the file is now the one given.
  @discardableResult
  package static func write(_ bytes: some Collection<UInt8>, to path: String, replacing: Bool) throws -> Bool
  {
    let (folder, name) = try openFolder(of: path)
    defer { close(folder) }
    let temporary = "\(name).\(UInt64.random(in: .min ... .max)).new"
    let file = openat(folder, temporary, makes, 0o600)
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
    fsync(folder)
    return true
  }

  /// An empty file at `path`, mode 0600, in the place of a file that is there, to be written to at once or later.
  package static func make(at path: String) throws -> FileHandle {
    let (folder, name) = try openFolder(of: path)
    defer { close(folder) }
    if let attributes = try? FileManager.default.attributesOfItem(atPath: path) {
      guard attributes[.type] as? FileAttributeType == .typeRegular else {
        throw Fault(source: path, "is there and is no file, or a link to one", advice: "name another file")
      }
      unlinkat(folder, name, 0)
    }
    let file = openat(folder, name, makes, 0o600)
    guard file >= 0 else { throw Fault(FileObstacle(errno), of: path) }
    return FileHandle(fileDescriptor: file, closeOnDealloc: true)
  }

  private static let makes = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC

  private static func openFolder(of path: String) throws -> (folder: CInt, name: String) {
    let url = URL(fileURLWithPath: path)
    let folder = open(url.deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard folder >= 0 else { throw Fault(FileObstacle(errno), of: path) }
    return (folder, url.lastPathComponent)
  }

  /// Gives what a file holds, which is wiped afterwards: `body` keeps no copy of it.
  static func withContents<Result>(
    of path: String, atMost limit: Int, _ body: (UnsafeMutableRawBufferPointer) throws -> Result
  ) throws -> Result {
    var bytes = try contents(of: path, atMost: limit)
    defer { bytes.wipe() }
    return try bytes.withUnsafeMutableBytes(body)
  }

  /// What a file holds.
  ///
  /// - Parameter key: the setting that names it, for the fault.
  package static func contents(of path: String, atMost limit: Int, key: String? = nil) throws(Fault)
    -> [UInt8]
  {
    func fault(_ number: CInt) -> Fault { Fault(FileObstacle(number), of: path, key: key) }
    // Nobody waits for a pipe that stands there.
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
    return bytes
  }

  /// Makes the new name in the folder last, too.
  static func syncFolder(of path: String) {
    guard let (folder, _) = try? openFolder(of: path) else { return }
    fsync(folder)
    close(folder)
  }

  /// Whether group or others may read it.
  static func isExposed(_ path: String) -> Bool {
    FileAttributes(of: path).map { $0.permissions & 0o077 != 0 } ?? false
  }
}

/// What a file's entry says of it, links followed: a secret that a container mounts is a link.
struct FileAttributes: Sendable, Hashable {
  let number: Int
  let size: Int
  let modified: Date
  let permissions: Int

  /// nil if there is no regular file.
  init?(of path: String) {
    let path = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
      attributes[.type] as? FileAttributeType == .typeRegular,
      let number = attributes[.systemFileNumber] as? Int, let size = attributes[.size] as? Int,
      let modified = attributes[.modificationDate] as? Date,
      let permissions = attributes[.posixPermissions] as? Int
    else { return nil }
    (self.number, self.size, self.modified, self.permissions) = (number, size, modified, permissions)
  }
}
