internal import Foundation
internal import HTTP
internal import Providers
internal import Sealing

struct KeyFile: Sendable, Equatable {
  enum Content: Sendable {
    case bouncer(BouncerKeyring.Entry)
    case apns(APNsCredential)
    case fcm(FCMCredential)
  }

  /// `apns/production.json`
  let name: String
  private let url: URL
  /// Detects changes of the file.
  private let attributes: FileAttributes

  /// Larger files are not read.
  private static let maximumBytes = 1 << 20
  static let folders = ["apns", "bouncer", "fcm"]

  struct Listing: Sendable, Equatable {
    /// All relevant files, by name: the JSON files of the three folders, and Apple's `.p8` keys.
    var files: [KeyFile] = []
    /// Folders that exist but cannot be listed. Their former contents stay in use.
    var closed: [String: FileObstacle] = [:]
  }

  static func list(_ directory: String) -> Listing {
    var listing = Listing()
    if FileManager.default.fileExists(atPath: directory), let obstacle = FileObstacle.lookingInto(directory) {
      listing.closed = Dictionary(folders.map { ($0, obstacle) }, uniquingKeysWith: { first, _ in first })
      return listing
    }
    let root = URL(fileURLWithPath: directory, isDirectory: true)
    for folder in folders {
      let path = root.appending(path: folder).path
      guard FileManager.default.fileExists(atPath: path) else { continue }
      guard let names = try? FileManager.default.contentsOfDirectory(atPath: path) else {
        listing.closed[folder] = FileObstacle.lookingInto(path) ?? FileObstacle(EIO)
        continue
      }
      for name in names.sorted() where name.hasSuffix(".json") || name.hasSuffix(".p8") {
        let url = root.appending(path: "\(folder)/\(name)")
        guard !name.hasPrefix("."), let attributes = FileAttributes(of: url.path) else { continue }
        listing.files.append(KeyFile(name: "\(folder)/\(name)", url: url, attributes: attributes))
      }
    }
    return listing
  }

  /// The file's content; nil for a file that is read only together with another one.
  func read() throws -> Content? {
    guard name.hasSuffix(".json") else { return nil }
    return try PrivateFile.withContents(of: url.path, atMost: Self.maximumBytes) { bytes in
      guard let start = bytes.baseAddress else { return nil }
      return try content(Data(bytesNoCopy: start, count: bytes.count, deallocator: .none))
    }
  }

  private func content(_ data: Data) throws -> Content {
    guard let json = try? JSON.parse(data), json.isStorable else {
      throw Fault(
        "is not JSON, or has text that nobody can read", advice: "put the right file there, or remove it")
    }
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

extension JSON {
  /// Whether all names and texts are storable. The code that parses key files compares them by `Character`,
  /// which takes very long on endless combining marks.
  fileprivate var isStorable: Bool {
    switch self {
    case .string(let text): text.isStorable
    case .array(let elements): elements.allSatisfy(\.isStorable)
    case .object(let object): object.members.allSatisfy { $0.name.text.isStorable && $0.value.isStorable }
    default: true
    }
  }
}
