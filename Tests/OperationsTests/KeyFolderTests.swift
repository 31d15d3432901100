import Foundation
import Logging
import ProviderSimulator
import Providers
import Sealing
import Synchronization
import Testing

@testable import Operations

@Suite struct KeyFolderTests {
  private let folder: Folder
  private let files: BouncerKeyFiles

  init() throws {
    folder = try Folder()
    files = BouncerKeyFiles(directory: folder.path)
  }

  private func open(defaultProject: String? = nil) -> KeyFolder {
    let keys = KeyFolder(
      directory: folder.path, defaultProject: defaultProject,
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    keys.load()
    return keys
  }

  /// Credentials of both providers, as they are in real folders.
  private func writeCredentials() async throws {
    let simulator = try await ProviderSimulator.start()
    try simulator.writeKeys(to: URL(filePath: folder.path))
    await simulator.stop()
  }

  /// What an editor, or whoever copies a file, does: the file is another one.
  private func replace(_ name: String, _ change: (String) -> String) throws {
    let text = try folder.read(name)
    try folder.remove(name)
    try folder.write(change(text), to: name)
  }

  @Test func `Everything in the folder is loaded`() async throws {
    try await writeCredentials()
    let active = try files.generate()
    let retired = try files.retire(try files.generate().publicKey)
    let snapshot = open().current
    #expect(snapshot.problems.isEmpty)
    let states = Dictionary(
      uniqueKeysWithValues: snapshot.bouncer.all.map { ($0.pair.publicKeyBase64, $0.state) })
    #expect(states[active.publicKey] == .active)
    #expect(states[retired.publicKey] == .retired)
    #expect(snapshot.credentials.apns.map(\.name) == ["simulator"])
    #expect(snapshot.credentials.fcm.map(\.name) == ["default"])
    #expect(snapshot.credentials.defaultProject == "push-bouncer-simulator")
  }

  @Test func `A folder that is not there is an empty one`() throws {
    let keys = KeyFolder(
      directory: "\(folder.path)/nowhere", logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    #expect(keys.load().bouncer.isEmpty)
    #expect(keys.current.problems.isEmpty)
  }

  @Test func `What is added counts, what is removed goes`() throws {
    let first = try files.generate()
    let keys = open()
    let second = try files.generate()
    #expect(keys.current.bouncer.all.count == 1)
    keys.reload()
    #expect(keys.current.bouncer.all.count == 2)
    _ = try files.remove(first.publicKey)
    keys.reload()
    #expect(keys.current.bouncer.all.map(\.pair.publicKeyBase64) == [second.publicKey])
  }

  @Test func `A broken file keeps what it held before and is reported until it is mended`() async throws {
    try await writeCredentials()
    _ = try files.generate()
    let keys = open()
    let before = keys.current
    let good = try folder.read("fcm/default.json")

    try replace("fcm/default.json") { _ in "{" }
    keys.reload()
    #expect(keys.current.credentials == before.credentials)
    #expect(keys.current.problems.map(\.file) == ["fcm/default.json"])
    #expect(keys.current.problems.allSatisfy { !$0.message.isEmpty && !$0.message.contains("PRIVATE KEY") })

    try replace("fcm/default.json") { _ in good }
    keys.reload()
    #expect(keys.current.credentials == before.credentials)
    #expect(keys.current.problems.isEmpty)
  }

  @Test func `A key file beside its description counts too`() async throws {
    try await writeCredentials()
    let keys = open()
    let name = try #require(
      try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/apns").first { $0.hasSuffix(".p8") }
    )
    try replace("apns/\(name)") { _ in "no key" }
    keys.reload()
    #expect(keys.current.credentials.apns.count == 1)
    #expect(keys.current.problems.map(\.file) == ["apns/simulator.json"])
  }

  @Test func `A folder that cannot be looked into keeps what it held before`() throws {
    let key = try files.generate()
    let keys = open()
    try FileManager.default.moveItem(atPath: "\(folder.path)/bouncer", toPath: "\(folder.path)/away")
    try folder.write("no folder", to: "bouncer")
    keys.reload()
    #expect(keys.current.bouncer.all.map(\.pair.publicKeyBase64) == [key.publicKey])
    #expect(keys.current.problems.map(\.file) == ["bouncer"])
    try folder.remove("bouncer")
    keys.reload()
    #expect(keys.current.bouncer.isEmpty)
    #expect(keys.current.problems.isEmpty)
  }

  @Test func `Whoever watches hears of changes, and which credentials they concern`() async throws {
    try await writeCredentials()
    let keys = open()
    let heard = Mutex<[Set<String>]>([])
    _ = keys.watcher { _, names in heard.withLock { $0.append(names) } }
    keys.reload()
    #expect(heard.withLock { $0 }.isEmpty)
    _ = try files.generate()
    keys.reload()
    #expect(heard.withLock { $0 } == [[]])
    try replace("apns/simulator.json") { $0.replacing("org.example.chat", with: "org.example.other") }
    keys.reload()
    #expect(heard.withLock { $0 } == [[], ["simulator"]])
  }

  @Test func `The default project is the only one, default.json or the one that is named`() async throws {
    try await writeCredentials()
    let account = try folder.read("fcm/default.json")
    try folder.remove("fcm/default.json")
    try folder.write(account.replacing("push-bouncer-simulator", with: "project-a"), to: "fcm/a.json")
    #expect(open().current.credentials.defaultProject == "project-a")
    try folder.write(account.replacing("push-bouncer-simulator", with: "project-b"), to: "fcm/b.json")
    #expect(open().current.credentials.defaultProject == nil)
    #expect(open(defaultProject: "b").current.credentials.defaultProject == "project-b")
    try folder.write(account, to: "fcm/default.json")
    #expect(open().current.credentials.defaultProject == "push-bouncer-simulator")
    #expect(open(defaultProject: "c").current.problems.map(\.file) == ["fcm/c.json"])
  }

  @Test func `storage.key is made once, private, by whoever comes first`() async throws {
    let path = "\(folder.path)/new/Keys"
    let prints = try await withThrowingTaskGroup(of: [UInt8].self) { tasks in
      for _ in 0..<20 { tasks.addTask { try KeyFolder.storageKey(in: path).fingerprint } }
      return try await tasks.reduce(into: Set()) { $0.insert($1) }
    }
    #expect(prints.count == 1)
    #expect(try folder.permissions(of: "new/Keys/storage.key") == 0o600)
    #expect(try FileManager.default.contentsOfDirectory(atPath: path) == ["storage.key"])
    #expect(try KeyFolder.existingStorageKey(in: path)?.fingerprint == prints.first)
  }

  @Test func `A storage.key that is none is refused and left alone`() throws {
    try folder.write("not a key", to: "storage.key")
    #expect(throws: KeyFolder.InvalidStorageKey.self) { try KeyFolder.storageKey(in: folder.path) }
    #expect(try folder.read("storage.key") == "not a key")
    #expect(try KeyFolder.existingStorageKey(in: "\(folder.path)/nowhere") == nil)
  }

  @Test func `Files that others may read are found`() throws {
    _ = try files.generate()
    try KeyFolder.prepare(folder.path)
    #expect(KeyFolder.exposedFiles(in: folder.path).isEmpty)
    try folder.setPermissions(0o640, of: "storage.key")
    try folder.write("{}", to: "apns/open.json")
    try folder.setPermissions(0o604, of: "apns/open.json")
    #expect(KeyFolder.exposedFiles(in: folder.path) == ["apns/open.json", "storage.key"])
  }

  @Test func `Preparing a folder overwrites nothing`() throws {
    try folder.write("mine", to: "README.md")
    try KeyFolder.prepare(folder.path)
    let key = try folder.read("storage.key")
    try KeyFolder.prepare(folder.path)
    #expect(try folder.read("README.md") == "mine")
    #expect(try folder.read("storage.key") == key)
  }

  @Test func `The guide that is written is the one of this repository`() throws {
    try KeyFolder.prepare(folder.path)
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(
      path: "../../Keys/README.md")
    #expect(try folder.read("README.md") == String(contentsOf: root, encoding: .utf8))
  }
}
