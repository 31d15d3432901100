import Basics
import Foundation
import HTTP
package import Logging
import Metrics
import Platform
package import Providers
package import Sealing
import Synchronization

/// The folder of keys and credentials (`Keys/README.md`), read at the start and whenever one of its files
/// changes. If a changed file cannot be read, its former contents stay in use.
package final class KeyFolder: Sendable {
  /// The contents of the folder at one moment.
  package struct Snapshot: Sendable {
    package var bouncer = BouncerKeyring([])
    package var credentials = Credentials()
    package var problems: [Problem] = []
  }

  /// A file that cannot be used.
  package struct Problem: Sendable, Hashable {
    /// Its path relative to the folder.
    package let file: String
    /// What to fix; never contains the file's content.
    package let message: String
  }

  private struct State {
    var listing = KeyFile.Listing()
    var contents: [String: KeyFile.Content] = [:]
    var snapshot = Snapshot()
    var onChange: (@Sendable (Snapshot) -> Void)?
  }

  private let directory: String
  private let defaultProject: String?
  private let logger: Logger
  private let state = Mutex(State())
  /// Allows one reload at a time, so that an older one never overwrites a newer one.
  private let reloading = Mutex(())
  private let reloads = Counter(label: "push_bouncer_key_reloads_total", dimensions: [("result", "ok")])
  private let failures = Counter(label: "push_bouncer_key_reloads_total", dimensions: [("result", "failed")])
  private let broken = Gauge(label: "push_bouncer_key_problems")

  /// - Parameter defaultProject: the FCM file, without its extension, for requests that name no project.
  package init(directory: String, defaultProject: String? = nil, logger: Logger) {
    self.directory = directory
    self.defaultProject = defaultProject
    self.logger = logger
  }

  package var current: Snapshot { state.withLock { $0.snapshot } }

  /// Reads the folder at the start.
  @discardableResult
  package func load() -> Snapshot {
    reload()
    return current
  }

  /// Reads changed files, and calls the change handler if the contents changed.
  package func reload() {
    reloading.withLock { _ in
      let listing = KeyFile.list(directory)
      var after = state.withLock { $0 }
      guard listing != after.listing else { return }
      let before = after.contents
      after.listing = listing
      after.contents = [:]
      after.snapshot = Snapshot()
      for (folder, obstacle) in listing.closed {
        after.contents.merge(before.filter { $0.key.hasPrefix("\(folder)/") }) { $1 }
        after.snapshot.problems.append(
          Problem(file: folder, message: "\(obstacle.problem); \(obstacle.advice)"))
      }
      for (file, obstacle) in listing.unusable.sorted(by: { $0.key < $1.key }) {
        after.contents[file] = before[file]
        after.snapshot.problems.append(
          Problem(file: file, message: "\(obstacle.problem); \(obstacle.advice)"))
      }
      for file in listing.files {
        do {
          after.contents[file.name] = try file.read()
        } catch {
          after.contents[file.name] = before[file.name]
          let fault = Fault(error)
          let message = fault.advice.map { "\(fault.problem); \($0)" } ?? fault.problem
          after.snapshot.problems.append(Problem(file: file.name, message: message))
        }
      }
      after.snapshot.problems += Self.keysAlone(listing)
      fill(&after.snapshot, from: after.contents)
      report(after.snapshot, listing.files, after.contents)
      state.withLock { [after] in $0 = after }
      after.onChange?(after.snapshot)
    }
  }

  /// Reports keys without a JSON file that describes them. They would be ignored without any sign.
  private static func keysAlone(_ listing: KeyFile.Listing) -> [Problem] {
    Credentials.types.flatMap { type -> [Problem] in
      guard let key = type.keyFile else { return [] }
      let folder = "\(type.provider.rawValue)/"
      let files = listing.files.map(\.name).filter { $0.hasPrefix(folder) }
      guard
        !(files + listing.unusable.keys).contains(where: { $0.hasPrefix(folder) && $0.hasSuffix(".json") })
      else { return [] }
      return files.map {
        Problem(
          file: $0,
          message: "has no JSON file beside it with its \(key.described); the folder's README.md shows one")
      }
    }
  }

  private func fill(_ snapshot: inout Snapshot, from contents: [String: KeyFile.Content]) {
    var entries: [BouncerKeyring.Entry] = []
    for (_, content) in contents.sorted(by: { $0.key < $1.key }) {
      switch content {
      case .bouncer(let entry): entries.append(entry)
      case .credential(let credential): snapshot.credentials.all.append(credential)
      }
    }
    snapshot.bouncer = BouncerKeyring(entries)
    snapshot.problems += snapshot.credentials.reconcile(defaultProject: defaultProject).map {
      Problem(file: "\($0.rawValue)/\($1.credential).json", message: $1.problem)
    }
  }

  private func report(_ snapshot: Snapshot, _ files: [KeyFile], _ contents: [String: KeyFile.Content]) {
    (snapshot.problems.isEmpty ? reloads : failures).increment()
    broken.record(snapshot.problems.count)
    for problem in snapshot.problems {
      logger.error(
        "key file cannot be used", metadata: ["file": "\(problem.file)", "problem": "\(problem.message)"])
    }
    for name in Self.exposed(files, in: directory) {
      logger.warning(
        "key file can be read by others", metadata: ["file": "\(name)", "advice": "chmod 600 \(name)"])
    }
    let names = Dictionary(grouping: contents.keys.sorted()) { String($0.prefix { $0 != "/" }) }
    logger.info(
      "keys loaded",
      metadata: .init(
        uniqueKeysWithValues: KeyFile.folders.map { folder in
          let names = (names[folder] ?? []).map {
            $0.dropFirst(folder.count + 1).replacing(".json", with: "")
          }
          return (folder, "\(names.joined(separator: ", "))")
        }))
  }

  /// Those of the given files and `storage.key` that their group or others may access.
  private static func exposed(_ files: [KeyFile], in directory: String) -> [String] {
    (files.map(\.name) + ["storage.key"]).filter { PrivateFile.isExposed("\(directory)/\($0)") }
  }

  /// Files in the folder that their group or others may access, by their relative paths.
  static func exposedFiles(in directory: String) -> [String] {
    exposed(KeyFile.list(directory).files, in: directory)
  }

  /// Files in the folders that are not read, by their relative paths: neither JSON files nor keys that one names. Hidden
  /// files are left out.
  static func unreadFiles(in directory: String) -> [String] {
    KeyFile.folders.flatMap { folder -> [String] in
      let path = "\(directory)/\(folder)"
      let names = ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted()
      let documents = names.filter { $0.hasSuffix(".json") }
      let key = Route.Provider(rawValue: folder)?.definition.credential?.keyFile
      let keys = documents.compactMap { name in
        guard let key else { return nil as String? }
        return (try? PrivateFile.contents(of: "\(path)/\(name)", atMost: KeyFile.maximumBytes))
          .flatMap { try? JSON.parse($0)[key.member]?.string }
      }
      return names.filter { name in
        // A key without any document is a problem already.
        let isProblem = documents.isEmpty && key.map { name.hasSuffix($0.ending) } ?? false
        return !name.hasPrefix(".") && !name.hasSuffix(".json") && !keys.contains(name) && !isProblem
      }.map { "\(folder)/\($0)" }
    }
  }

  /// From now on, calls `onChange` with the new contents after each change.
  package func tellChanges(to onChange: @escaping @Sendable (Snapshot) -> Void) {
    state.withLock { $0.onChange = onChange }
  }

  /// Checks the folder every two seconds until the task is cancelled.
  package func watch() async {
    await every(.seconds(2)) { reload() }
  }
}

extension KeyFolder {
  /// The key for sealing secrets in the database; created if it does not exist.
  package static func storageKey(in directory: String) throws -> StorageKey {
    try makeFolder(directory)
    let path = storageKeyURL(in: directory).path
    if !FileManager.default.fileExists(atPath: path) {
      // If two processes get here at the same time, one creates the key and both read it.
      try write(StorageKeyFile.generate(), to: path, replacing: false)
    }
    return StorageKey(try storageKeyFile(in: directory))
  }

  /// Syncs the names in the folder, and its own: who made them may have been killed before that. To be called before
  /// the database is sealed with a key that is there, or a key is shown.
  package static func syncNames(in directory: String) throws {
    try PrivateFile.syncFolder(of: storageKeyURL(in: directory).path)
    try PrivateFile.syncFolder(of: URL(fileURLWithPath: directory).path)
  }

  /// The key for sealing secrets in the database; nil if it does not exist.
  package static func existingStorageKey(in directory: String) throws -> StorageKey? {
    if let fault = closed(directory) { throw fault }
    let isThere = FileManager.default.fileExists(atPath: storageKeyURL(in: directory).path)
    return isThere ? StorageKey(try storageKeyFile(in: directory)) : nil
  }

  static func storageKeyFile(in directory: String) throws -> StorageKeyFile {
    try storageKeyFile(at: storageKeyURL(in: directory).path)
  }

  private static func storageKeyFile(at path: String) throws -> StorageKeyFile {
    let file = try PrivateFile.withContents(of: path, atMost: StorageKeyFile.maximumBytes) {
      StorageKeyFile(utf8: UnsafeRawBufferPointer($0))
    }
    guard let file else {
      throw Fault(
        source: path, "does not hold 32 bytes in base64", advice: "put the file back from a backup")
    }
    return file
  }

  /// The key that is to take the place of `file`, in `storage.key.new`; made if there is none yet.
  static func nextStorageKeyFile(after file: StorageKeyFile, in directory: String) throws -> StorageKeyFile {
    let path = nextStorageKeyPath(in: directory)
    // Of two processes, one makes the file, and both read it.
    try write(file.successor(), to: path, replacing: false)
    return try storageKeyFile(at: path)
  }

  static func existingNextStorageKeyFile(in directory: String) throws -> StorageKeyFile? {
    let path = nextStorageKeyPath(in: directory)
    return FileManager.default.fileExists(atPath: path) ? try storageKeyFile(at: path) : nil
  }

  /// Puts `storage.key.new` in the place of `storage.key`.
  static func replaceStorageKey(in directory: String) throws {
    let path = resolvedStorageKeyPath(in: directory)
    guard rename(nextStorageKeyPath(in: directory), path) == 0 else {
      throw Fault(FileObstacle(errno), of: path)
    }
    try PrivateFile.syncFolder(of: path)
  }

  /// Beside the file that `storage.key` may be a link to.
  static func nextStorageKeyPath(in directory: String) -> String {
    "\(resolvedStorageKeyPath(in: directory)).new"
  }

  private static func resolvedStorageKeyPath(in directory: String) -> String {
    storageKeyURL(in: directory).resolvingSymlinksInPath().path
  }

  private static func write(_ file: StorageKeyFile, to path: String, replacing: Bool) throws {
    var text = file.utf8
    defer { text.wipe() }
    try PrivateFile.write(text, to: path, replacing: replacing)
  }

  static func storageKeyURL(in directory: String) -> URL {
    URL(fileURLWithPath: directory).appendingPathComponent("storage.key")
  }
}
