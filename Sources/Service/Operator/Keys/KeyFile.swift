import Basics
import Foundation
import HTTP
import Platform
import Providers
import Sealing

struct KeyFile: Sendable, Equatable {
  enum Content: Sendable {
    case bouncer(BouncerKeyring.Entry)
    case credential(any ProviderCredential)
  }

  /// `apns/production.json`
  let name: String
  private let url: URL
  /// Detects changes of the file.
  private let attributes: FileAttributes

  /// Larger files are not read.
  static let maximumBytes = 1 << 20
  static let folders = (Credentials.types.map { $0.provider.rawValue } + ["bouncer"]).sorted()
  private static let endings = [".json"] + Credentials.types.compactMap { $0.keyFile?.ending }

  struct Listing: Sendable, Equatable {
    /// All relevant files, by name: the JSON files of the folders, and the keys beside them.
    var files: [KeyFile] = []
    /// What has the name of a key file and is no file, by name.
    var unusable: [String: FileObstacle] = [:]
    /// Folders that exist but cannot be listed. Their former contents stay in use.
    var closed: [String: FileObstacle] = [:]
  }

  static func list(_ directory: String) -> Listing {
    var listing = Listing()
    if FileManager.default.fileExists(atPath: directory), let obstacle = FileObstacle.listing(directory) {
      listing.closed = Dictionary(folders.map { ($0, obstacle) }, uniquingKeysWith: { first, _ in first })
      return listing
    }
    let root = URL(fileURLWithPath: directory, isDirectory: true)
    for folder in folders {
      let path = root.appending(path: folder).path
      guard FileManager.default.fileExists(atPath: path) else { continue }
      guard let names = try? FileManager.default.contentsOfDirectory(atPath: path) else {
        listing.closed[folder] = FileObstacle.listing(path) ?? FileObstacle(EIO)
        continue
      }
      for name in names.sorted() where endings.contains(where: name.hasSuffix) {
        let url = root.appending(path: "\(folder)/\(name)")
        guard !name.hasPrefix(".") else { continue }
        let file = "\(folder)/\(name)"
        if let attributes = FileAttributes(of: url.path) {
          listing.files.append(KeyFile(name: file, url: url, attributes: attributes))
        } else if (try? FileManager.default.attributesOfItem(atPath: url.path)) != nil {
          // Without this, a folder, or a link to nothing, would be ignored without any sign.
          listing.unusable[file] = FileObstacle(
            FileManager.default.fileExists(atPath: url.path) ? EISDIR : ENOENT)
        }
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
    let json = try Fault.json(data)
    guard json.isStorable else {
      throw Fault(
        "has a text with NUL, or with combining marks without end", advice: "put the right file there")
    }
    let stem = url.deletingPathExtension().lastPathComponent
    let provider = Route.Provider(rawValue: String(name.prefix { $0 != "/" }))
    if let credential = provider?.definition.credential {
      return .credential(
        try credential.init(name: stem, json: data, directory: url.deletingLastPathComponent()))
    }
    let key = try BouncerKeyFiles.Key(data)
    return .bouncer(.init(pair: key.pair, state: key.state))
  }
}

extension Fault {
  /// Parses a file of the operator's.
  ///
  /// - Throws: what is wrong with it, and where.
  static func json(_ data: Data) throws(Fault) -> JSON {
    do {
      return try JSON.parse(data)
    } catch {
      let isPEM = data.firstRange(of: Data("-----BEGIN ".utf8)) != nil
      throw isPEM && data.first != UInt8(ascii: "{")
        ? Fault(
          "is PEM and no JSON", advice: "put the JSON file there that describes it; the README.md shows one")
        : Fault(
          "is no JSON: \(error.explanation(in: data))", advice: "put the right file there, or remove it")
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
    case .null, .bool, .integer, .number: true
    }
  }
}
