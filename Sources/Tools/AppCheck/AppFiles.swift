import Basics
import Foundation
import Synchronization

/// The files of an app: a folder with its source, or a built package (APK, AAB or IPA), which is a zip archive.
final class AppFiles: Sendable {
  static let cut = "ends before what is open in it does"
  private static let unreadable = "cannot be read"

  /// A folder's path, with a slash at its end; empty if it is a package.
  private let root: String
  /// The package; nil if it is a folder.
  let archive: ZipArchive?
  /// The files' paths inside the app, sorted.
  let names: [Name]
  private let known: Set<Name>
  /// Links that lead out of the app, and folders that may not be read.
  private let closed: [Name: String]
  private let missed = Mutex<[(aspect: Aspect, reason: String, place: Value)]>([])
  let budget: Budget

  /// What was looked for and could not be read, why, and where.
  var unread: [(aspect: Aspect, reason: String, place: Value)] { missed.withLock { $0 } }

  func miss(_ aspect: Aspect, _ reason: String, _ place: Value = Value("", file: "")) throws {
    try budget.values(1)
    missed.withLock { $0.append((aspect, reason, place.with(""))) }
  }

  /// Of a whole file.
  func miss(_ reason: String, _ file: Name) throws { try miss(.file, reason, Value("", file: file)) }

  /// - Throws: a ``Fault`` if there is nothing at the path, or no app.
  init(path: String, _ budget: Budget) throws {
    self.budget = budget
    var isFolder: ObjCBool = false
    guard FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) else {
      throw Fault(
        source: path, "is not there", advice: "give the folder with the app's source, or a built package")
    }
    if isFolder.boolValue {
      let path = URL(fileURLWithPath: path, isDirectory: true).resolvingSymlinksInPath().path
      root = path.utf8.last == "/" ? path : path + "/"
      archive = nil
      (names, closed) = try Self.list(path, root: root, budget)
    } else {
      let data = try Data(contentsOf: URL(fileURLWithPath: path), options: .alwaysMapped)
      do {
        let archive = try ZipArchive(data, budget)
        (root, self.archive, names, closed) = ("", archive, archive.names.sorted(), [:])
      } catch is ZipArchive.Failure {
        throw Fault(
          source: path, "is not a zip archive that can be read",
          advice: "give an APK, AAB or IPA as it was built")
      }
    }
    known = Set(names)
    for (name, reason) in closed where reason == Self.unreadable { try miss(reason, name) }
  }

  /// Reads a folder. Links are followed where they lead to something inside the app.
  private static func list(_ path: String, root: String, _ budget: Budget) throws -> ([Name], [Name: String])
  {
    // Folders that hold no file that a person edits.
    let skipped: Set<Name> = [
      ".git", ".dart_tool", ".gradle", "build", "node_modules", "Pods", "DerivedData",
    ]
    var (names, closed, count): ([Name], [Name: String], Int) = ([], [:], 0)
    /// - Parameter visited: the folders that this one lies in, by their own paths.
    func read(_ folder: String, visited: Set<Name>) throws {
      guard visited.count <= Budget.depth else { throw Budget.tooDeep }
      guard let entries = try? FileManager.default.contentsOfDirectory(atPath: root + folder) else {
        guard !folder.isEmpty else {
          throw Fault(source: root, "cannot be read", advice: "run this as somebody who may read it")
        }
        closed[Name(folder.utf8.dropLast())] = unreadable
        return
      }
      for entry in entries {
        let name = Name(folder + entry)
        try budget.read(name.bytes.count)
        count += 1
        guard count <= Budget.files else { throw Budget.Exceeded(what: "more than \(Budget.files) files") }
        let path = URL(fileURLWithPath: root + folder + entry).resolvingSymlinksInPath().path
        guard path.utf8.starts(with: root.utf8) || visited.contains(Name(path)) else {
          closed[name] = "is a link that leads out of the app"
          continue
        }
        switch try? FileManager.default.attributesOfItem(atPath: path)[.type] as? FileAttributeType {
        case .typeRegular: names.append(name)
        case .typeDirectory where !skipped.contains(name.last) && !visited.contains(Name(path)):
          try read(folder + entry + "/", visited: visited.union([Name(path)]))
        default: break
        }
      }
    }
    try read("", visited: [Name(path)])
    return (names.sorted(), closed)
  }

  func has(_ name: Name) -> Bool { known.contains(name) }

  /// Notes what of a folder is not known, as it is behind a link or closed.
  func look(into folder: Name) throws {
    for (name, reason) in closed where name.hasPrefix(folder) || folder.hasPrefix(name + "/") {
      try miss(reason, name)
    }
  }

  /// The contents of a file; nil if it is not there or cannot be read. Of one that is there a note is kept.
  func data(_ name: Name) throws -> Data? {
    guard known.contains(name) else {
      for (link, reason) in closed where link == name || name.hasPrefix(link + "/") { try miss(reason, link) }
      return nil
    }
    if let archive {
      do { return try archive.contents(of: name) } catch is ZipArchive.Failure {
        try miss("cannot be unpacked", name)
        return nil
      }
    }
    let url = URL(fileURLWithPath: root + name.text).resolvingSymlinksInPath()
    let size = try? FileManager.default.attributesOfItem(atPath: url.path)[.size] as? Int
    guard size ?? 0 <= Budget.text else {
      try miss("has more than \(Budget.text >> 20) MB", name)
      return nil
    }
    try budget.read(size ?? 0)
    guard size != nil, let data = try? Data(contentsOf: url) else {
      try miss(Self.unreadable, name)
      return nil
    }
    // Some editors begin a file with a mark of its encoding.
    return data.starts(with: [0xEF, 0xBB, 0xBF]) ? Data(data.dropFirst(3)) : data
  }

  /// Hands over the texts of a file of a package, however large; false if it is not there or cannot be read.
  func texts(_ name: Name, _ body: ([UInt8]) throws -> Void) throws -> Bool {
    do { return try archive?.texts(of: name, body) ?? false } catch is ZipArchive.Failure {
      try miss("cannot be unpacked", name)
      return false
    }
  }

  /// The names that end so, in order.
  func names(ending endings: Name...) -> [Name] {
    names.filter { name in endings.contains(where: name.hasSuffix) }
  }
}
