internal import Foundation
internal import Providers
internal import Sealing
internal import Wire

/// A file of the key folder.
struct KeyFile {
  enum Content: Sendable {
    case bouncer(BouncerKeyring.Entry)
    case apns(APNsCredential)
    case fcm(FCMCredential)
  }

  /// What tells that a file has changed.
  struct Signature: Sendable, Hashable {
    let name: String
    let inode: UInt64
    let size: Int64
    let seconds: Int
    let nanoseconds: Int
  }

  /// Larger files are none of ours.
  private static let maximumBytes = 1 << 20

  /// `apns/production.json`
  let name: String
  let url: URL
  let signature: Signature

  /// What there is: the JSON files of the three folders, and Apple's keys beside theirs.
  struct Listing {
    /// What tells that something has changed.
    struct Signature: Sendable, Hashable {
      let files: [KeyFile.Signature]
      let unreadable: [String]
    }

    /// By name.
    private(set) var files: [KeyFile] = []
    /// Folders that are there but cannot be listed.
    private(set) var unreadable: [String] = []

    var signature: Signature { Signature(files: files.map(\.signature), unreadable: unreadable) }

    init(_ directory: String) {
      let root = URL(fileURLWithPath: directory, isDirectory: true)
      for folder in ["apns", "bouncer", "fcm"] {
        let path = root.appending(path: folder).path
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: path) else {
          if FileManager.default.fileExists(atPath: path) { unreadable.append(folder) }
          continue
        }
        for name in names.sorted() where name.hasSuffix(".json") || name.hasSuffix(".p8") {
          guard !name.hasPrefix("."), let file = KeyFile("\(folder)/\(name)", in: root) else { continue }
          files.append(file)
        }
      }
    }
  }

  private init?(_ name: String, in root: URL) {
    self.name = name
    url = root.appending(path: name)
    var status = stat()
    guard stat(url.path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
    signature = Signature(
      name: name, inode: UInt64(status.st_ino), size: Int64(status.st_size), seconds: status.st_mtim.tv_sec,
      nanoseconds: status.st_mtim.tv_nsec)
  }

  /// Whether group or others may read it.
  var isExposed: Bool { PrivateFile.isExposed(url.path) }

  /// What it holds; nil for one that only another file needs.
  func read() throws -> Content? {
    guard name.hasSuffix(".json") else { return nil }
    guard signature.size <= Self.maximumBytes else { throw CocoaError(.fileReadTooLarge) }
    let data = try Data(contentsOf: url)
    let stem = url.deletingPathExtension().lastPathComponent
    switch name.prefix(while: { $0 != "/" }) {
    case "apns":
      return .apns(try APNsCredential(name: stem, json: data, directory: url.deletingLastPathComponent()))
    case "fcm":
      return .fcm(try FCMCredential(name: stem, json: data))
    default:
      let key = try BouncerKeyFiles.Key(data)
      return .bouncer(.init(pair: key.pair, state: key.state))
    }
  }
}
