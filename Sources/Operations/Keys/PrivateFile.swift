import Foundation
internal import Sealing

/// Files that nobody but the service's user may read.
enum PrivateFile {
  /// Puts `bytes` at `path`, mode 0600, whole or not at all, and on the disk before it returns.
  ///
  /// - Parameter replacing: whether a file that is there gives way; otherwise it stays as it is.
  /// - Returns: whether the file is now the one given.
  @discardableResult
  static func write(_ bytes: some Collection<UInt8>, to path: String, replacing: Bool) throws -> Bool {
    let temporary = "\(path).\(UInt64.random(in: .min ... .max)).new"
    let file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw Fault(number: errno, path: path) }
    defer { unlink(temporary) }
    do {
      defer { close(file) }
      let bytes = Array(bytes)
      guard Foundation.write(file, bytes, bytes.count) == bytes.count, fsync(file) == 0 else {
        throw Fault(number: errno, path: path)
      }
    }
    try giveAway(temporary, for: path, replacing: replacing)
    if replacing {
      guard rename(temporary, path) == 0 else { throw Fault(number: errno, path: path) }
    } else if link(temporary, path) != 0 {
      guard errno == EEXIST else { throw Fault(number: errno, path: path) }
      return false
    }
    syncFolder(of: path)
    return true
  }

  /// Who owns what is replaced goes on owning it, and a new file is its folder's owner's: root may have called where
  /// the service has another name.
  private static func giveAway(_ temporary: String, for path: String, replacing: Bool) throws {
    let files = FileManager.default
    var before = replacing ? try? files.attributesOfItem(atPath: path) : nil
    if before == nil, geteuid() == 0 {
      before = try? files.attributesOfItem(
        atPath: URL(fileURLWithPath: path).deletingLastPathComponent().path)
    }
    guard let owner = before?[.ownerAccountID] as? NSNumber,
      let group = before?[.groupOwnerAccountID] as? NSNumber
    else { return }
    guard chown(temporary, owner.uint32Value, group.uint32Value) == 0 else {
      throw Fault(number: errno, path: path)
    }
  }

  /// Gives what a file holds, which is wiped afterwards: `body` keeps no copy of it.
  static func withContents<Result>(
    of path: String, atMost limit: Int, _ body: (UnsafeMutableRawBufferPointer) throws -> Result
  ) throws -> Result {
    // Nobody waits for a pipe that stands there.
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else {
      let number = errno
      guard let obstacle = FileObstacle.reading(path) else { throw Fault(number: number, path: path) }
      throw Fault(source: path, obstacle.problem, advice: obstacle.advice)
    }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: limit + 1)
    defer { bytes.wipe() }
    var count = 0
    while count < bytes.count {
      let read = bytes.withUnsafeMutableBytes {
        Foundation.read(file, $0.baseAddress! + count, $0.count - count)
      }  // limit + 1 > 0
      guard read >= 0 else { throw Fault(number: errno, path: path) }
      guard read > 0 else { break }
      count += read
    }
    guard count <= limit else { throw Fault(number: EFBIG, path: path) }
    return try bytes.withUnsafeMutableBytes {
      try body(UnsafeMutableRawBufferPointer(rebasing: $0[..<count]))
    }
  }

  /// Makes the new name in the folder last, too.
  static func syncFolder(of path: String) {
    let folder = open(URL(fileURLWithPath: path).deletingLastPathComponent().path, O_RDONLY | O_CLOEXEC)
    guard folder >= 0 else { return }
    fsync(folder)
    close(folder)
  }

  /// Whether group or others may read it.
  static func isExposed(_ path: String) -> Bool {
    FileAttributes(of: URL(fileURLWithPath: path)).map { $0.permissions & 0o077 != 0 } ?? false
  }
}

/// What a file's entry says of it, links followed: a secret that a container mounts is a link.
struct FileAttributes: Sendable, Hashable {
  let number: Int
  let size: Int
  let modified: Date
  let permissions: Int

  /// nil if there is no regular file.
  init?(of url: URL) {
    let path = url.resolvingSymlinksInPath().path
    guard let attributes = try? FileManager.default.attributesOfItem(atPath: path),
      attributes[.type] as? FileAttributeType == .typeRegular,
      let number = attributes[.systemFileNumber] as? Int, let size = attributes[.size] as? Int,
      let modified = attributes[.modificationDate] as? Date,
      let permissions = attributes[.posixPermissions] as? Int
    else { return nil }
    (self.number, self.size, self.modified, self.permissions) = (number, size, modified, permissions)
  }
}
