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

  /// Every file that matters, by name: the JSON files of the three folders, and Apple's keys beside theirs.
  static func all(in directory: String) -> [KeyFile] {
    let root = URL(fileURLWithPath: directory, isDirectory: true)
    return ["apns", "bouncer", "fcm"].flatMap { folder -> [KeyFile] in
      let names = (try? FileManager.default.contentsOfDirectory(atPath: root.appending(path: folder).path)) ?? []
      return names.sorted().compactMap { name in
        guard name.hasSuffix(".json") || name.hasSuffix(".p8"), !name.hasPrefix(".") else { return nil }
        return KeyFile("\(folder)/\(name)", in: root)
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
