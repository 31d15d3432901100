import Foundation

/// A file for parsers that read files: in memory where there is such a place, written anew for each input.
struct InputFile {
  let url: URL
  var path: String { url.path }

  /// A folder of this process's own.
  static let folder: URL = {
    let memory = "/dev/shm"
    let place = FileManager.default.isWritableFile(atPath: memory) ? memory : NSTemporaryDirectory()
    let folder = URL(fileURLWithPath: place).appending(path: "push-bouncer-fuzz.\(getpid())")
    // An error shows when the first file is written.
    try? FileManager.default.createDirectory(
      at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    atexit { try? FileManager.default.removeItem(at: InputFile.folder) }
    return folder
  }()

  /// A file of the folder, and the folders above it.
  init(_ name: String) {
    url = Self.folder.appending(path: name)
    try? FileManager.default.createDirectory(
      at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
  }

  func write(_ bytes: [UInt8]) {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    precondition(file >= 0, "\(path) cannot be written: \(errno)")
    defer { close(file) }
    precondition(Foundation.write(file, bytes, bytes.count) == bytes.count, "\(path) is not written whole")
  }
}
