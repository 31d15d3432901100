internal import Foundation
internal import Settings

/// The files of an app: a folder with its source, or a built package (APK, AAB or IPA), which is a zip archive.
struct AppFiles: Sendable {
  private enum Storage: Sendable {
    /// Its path, with a slash at its end.
    case folder(String)
    case archive(ZipArchive)
  }

  /// Folders that hold no file that a person edits.
  private static let skipped: Set<Name> = [
    ".git", ".dart_tool", ".gradle", "build", "node_modules", "Pods", "DerivedData",
  ]

  private let storage: Storage
  /// The files' paths inside the app, sorted.
  let names: [Name]
  private let known: Set<Name>
  let budget: Budget

  var isArchive: Bool {
    if case .archive = storage { true } else { false }
  }

  /// - Throws: a ``Fault`` if there is nothing at the path, or no app.
  init(path: String, _ budget: Budget) throws {
    self.budget = budget
    var isFolder: ObjCBool = false
    guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
      throw Fault(
        source: path, "is not there", advice: "give the folder with the app's source, or a built package")
    }
    do {
      if isFolder.boolValue {
        // The folder that is named may be a link; links inside it are not followed: they could lead out of the app.
        let path = URL(fileURLWithPath: path, isDirectory: true).resolvingSymlinksInPath().path
        storage = .folder(path.utf8.last == UInt8(ascii: "/") ? path : path + "/")
        names = try Self.names(in: path, budget).sorted()
      } else {
        let data = try Data(contentsOf: URL(fileURLWithPath: path), options: .alwaysMapped)
        let archive = try ZipArchive(data, budget)
        storage = .archive(archive)
        names = archive.names.sorted()
      }
    } catch is ZipArchive.Failure {
      throw Fault(
        source: path, "is not a zip archive that can be read",
        advice: "give an APK, AAB or IPA as it was built")
    }
    known = Set(names)
  }

  private static func names(in path: String, _ budget: Budget) throws -> [Name] {
    guard let files = FileManager.default.enumerator(atPath: path) else {
      throw Fault(source: path, "cannot be read", advice: "run this as somebody who may read it")
    }
    var names: [Name] = []
    var count = 0
    for case let text as String in files {
      let name = Name(text)
      try budget.name(name.bytes.count)
      count += 1
      guard count <= Budget.files else { throw Budget.Exceeded(what: "more than \(Budget.files) files") }
      let type = files.fileAttributes?[.type] as? FileAttributeType
      if type == .typeDirectory {
        if skipped.contains(name.last) { files.skipDescendants() }
      } else if type == .typeRegular {
        names.append(name)
      }
    }
    return names
  }

  func has(_ name: Name) -> Bool { known.contains(name) }

  /// The contents of a file; nil if it is not there or cannot be read.
  func data(_ name: Name) throws -> Data? {
    switch storage {
    case .archive(let archive):
      do {
        return try archive.contents(of: name)
      } catch ZipArchive.Failure.tooLarge {
        throw Budget.Exceeded(what: "\(name.text) of more than \(Budget.part >> 20) MB")
      } catch is ZipArchive.Failure {
        return nil
      }
    case .folder(let folder):
      guard known.contains(name) else { return nil }
      let path = folder + name.text
      let size = (try? FileManager.default.attributesOfItem(atPath: path))?[.size] as? Int
      guard let size, size <= Budget.text else { return nil }
      try budget.read(size)
      return FileManager.default.contents(atPath: path)
    }
  }

  /// A package's bytes, and where its directory begins.
  var archive: (data: Data, directory: Int)? {
    if case .archive(let archive) = storage { (archive.data, archive.directory) } else { nil }
  }

  /// Which of the texts stand in a file of a package, however large; nil if it is not there or cannot be read.
  func search(_ name: Name, for texts: [Name]) throws -> Set<Name>? {
    guard case .archive(let archive) = storage else { return nil }
    do { return try archive.search(name, for: texts) } catch is ZipArchive.Failure { return nil }
  }

  /// The names that end so, in order.
  func names(ending endings: Name...) -> [Name] {
    names.filter { name in endings.contains(where: name.hasSuffix) }
  }
}
