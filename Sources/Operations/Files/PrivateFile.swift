package import Foundation
internal import Sealing

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
    guard file >= 0 else { throw Fault(number: errno, path: path) }
    defer { unlinkat(folder, temporary, 0) }
    do {
      defer { close(file) }
      let bytes = Array(bytes)
      guard Foundation.write(file, bytes, bytes.count) == bytes.count, fsync(file) == 0 else {
        throw Fault(number: errno, path: path)
      }
    }
    if replacing {
      guard renameat(folder, temporary, folder, name) == 0 else { throw Fault(number: errno, path: path) }
    } else if linkat(folder, temporary, folder, name, 0) != 0 {
      guard errno == EEXIST else { throw Fault(number: errno, path: path) }
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
    guard file >= 0 else { throw Fault(number: errno, path: path) }
    return FileHandle(fileDescriptor: file, closeOnDealloc: true)
  }

  private static let makes = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC

  private static func openFolder(of path: String) throws -> (folder: CInt, name: String) {
    let url = URL(fileURLWithPath: path)
    let folder = open(url.deletingLastPathComponent().path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard folder >= 0 else { throw Fault(number: errno, path: path) }
    return (folder, url.lastPathComponent)
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
    guard let (folder, _) = try? openFolder(of: path) else { return }
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
