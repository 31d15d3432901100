import Crypto
import Foundation
import Providers
import Sealing
import Synchronization
import TestSupport
import Testing

@testable import Basics
@testable import Operator

@Suite(.keyFolder) struct KeyFolderTests {
  private let folder = Fixture<TestFolder>.current

  /// Counts how often a folder tells that it has changed.
  private final class Changes: Sendable {
    private let changes = Mutex(0)
    var count: Int { changes.withLock { $0 } }
    func add() { changes.withLock { $0 += 1 } }
  }

  private func open(_ folder: TestFolder, defaultProject: String? = nil) -> (KeyFolder, LogRecorder, Changes)
  {
    let log = LogRecorder()
    let changes = Changes()
    let keys = KeyFolder(directory: folder.path, defaultProject: defaultProject, logger: log.logger)
    keys.load()
    keys.tellChanges { _ in changes.add() }
    return (keys, log, changes)
  }

  @Test func `Everything that is there is read at first`() async throws {
    let publicKey = try folder.writeBouncerKey()
    try folder.writeAPNs("main")
    try folder.writeFCM("work", project: "demo")
    let (keys, _, _) = open(folder)
    #expect(keys.current.bouncer.all.map(\.pair.publicKeyBase64) == [publicKey])
    #expect(keys.current.credentials.apns.map(\.name) == ["main"])
    #expect(keys.current.credentials.apns.first?.topics == ["org.example.chat"])
    #expect(keys.current.credentials.fcm.map(\.projectID) == ["demo"])
    #expect(keys.current.credentials.defaultProject == "demo")
    #expect(keys.current.problems == [])
  }

  @Test func `A folder that is not there holds nothing`() async throws {
    let (keys, _, _) = open(TestFolder(url: folder.url.appending(path: "none")))
    #expect(keys.current.bouncer.isEmpty)
    #expect(keys.current.problems == [])
  }

  @Test func `New changed and removed files are noticed`() async throws {
    try folder.writeAPNs("main")
    let (keys, _, changes) = open(folder)
    keys.reload()
    #expect(changes.count == 0)

    try folder.writeFCM("default", project: "demo")
    keys.reload()
    #expect(keys.current.credentials.fcm.map(\.name) == ["default"])
    #expect(changes.count == 1)

    try folder.writeAPNs("main", topic: "org.example.other")
    keys.reload()
    #expect(keys.current.credentials.apns.map(\.topics) == [["org.example.other"]])
    #expect(changes.count == 2)

    try folder.remove("apns/main.json")
    keys.reload()
    #expect(keys.current.credentials.apns == [])
    #expect(changes.count == 3)

    try folder.writeBouncerKey()
    keys.reload()
    #expect(keys.current.bouncer.all.count == 1)
    #expect(changes.count == 4)
  }

  @Test func `Two keys serve one app, one for each environment, and no more`() async throws {
    try folder.writeAPNs("store")
    try folder.writeAPNs("xcode", environment: "sandbox")
    let (keys, _, _) = open(folder)
    #expect(keys.current.problems == [])
    #expect(keys.current.credentials.apns.map(\.topics) == [["org.example.chat"], ["org.example.chat"]])
    try folder.writeAPNs("zzz", environment: "sandbox")
    keys.reload()
    #expect(keys.current.problems.map(\.file) == ["apns/zzz.json"])
    let message = keys.current.problems.first?.message ?? ""
    #expect(
      message.contains("org.example.chat is listed by xcode.json, too") && message.contains("(sandbox)"))
    #expect(keys.current.credentials.apns.map(\.topics) == [["org.example.chat"], ["org.example.chat"], []])
  }

  @Test func `An Apple key that changes beside its file is noticed`() async throws {
    try folder.writeAPNs("main")
    let (keys, _, changes) = open(folder)
    let key = P256.Signing.PrivateKey()
    try folder.write("apns/AuthKey_main.p8", key.pemRepresentation)
    keys.reload()
    #expect(keys.current.credentials.apns.first?.privateKey == key.pemRepresentation)
    #expect(changes.count == 1)
  }

  @Test func `A broken file keeps what it held and is reported without its content`() async throws {
    let publicKey = try folder.writeBouncerKey()
    try folder.writeAPNs("main")
    try folder.writeFCM("default", project: "demo")
    let (keys, log, changes) = open(folder)
    let before = keys.current.credentials
    let bouncerFile = try #require(
      try FileManager.default.contentsOfDirectory(atPath: folder.url.appending(path: "bouncer").path).first)

    for file in ["bouncer/\(bouncerFile)", "apns/main.json", "fcm/default.json"] {
      try folder.write(file, #"{"private_key": "hunter2", "public_key": "hunter2""#)
    }
    try folder.write("apns/AuthKey_main.p8", "hunter2")
    keys.reload()
    #expect(keys.current.credentials == before)
    #expect(keys.current.bouncer.all.map(\.pair.publicKeyBase64) == [publicKey])
    #expect(
      keys.current.problems.map(\.file) == ["apns/main.json", "bouncer/\(bouncerFile)", "fcm/default.json"])
    #expect(changes.count == 1)
    #expect(
      log.texts.contains { $0.contains("error key file cannot be used") && $0.contains("apns/main.json") })
    #expect(!"\(keys.current.problems) \(log.texts)".contains("hunter2"))

    try folder.writeAPNs("main", topic: "org.example.mended")
    keys.reload()
    #expect(keys.current.credentials.apns.first?.topics == ["org.example.mended"])
    #expect(keys.current.problems.map(\.file) == ["bouncer/\(bouncerFile)", "fcm/default.json"])
  }

  @Test func `A key that is no key is a problem that does not show it`() async throws {
    try folder.writeAPNs("main")
    try folder.write(
      "apns/AuthKey_main.p8", "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n")
    let pair = BouncerKeyPair()
    try folder.write(
      "bouncer/a.json",
      """
      {"public_key": "\(BouncerKeyPair().publicKeyBase64)", "private_key": "\(pair.privateKeyBase64)", \
      "created_at": "2026-01-01T00:00:00Z", "state": "active"}
      """)
    let (keys, log, _) = open(folder)
    #expect(keys.current.problems.map(\.file) == ["apns/main.json", "bouncer/a.json"])
    let told = "\(keys.current.problems) \(log.texts)"
    #expect(!told.contains("hunter2"))
    #expect(!told.contains(pair.privateKeyBase64))
    #expect(keys.current.bouncer.isEmpty)
  }

  @Test func `Files with a byte order mark are read and UTF-16 is named`() async throws {
    let publicKey = try folder.writeBouncerKey()
    try folder.writeFCM("default", project: "demo")
    try folder.writeAPNs("main")
    let bouncer = try #require(
      try FileManager.default.contentsOfDirectory(atPath: folder.url.appending(path: "bouncer").path).first)
    let names = ["apns/main.json", "bouncer/\(bouncer)", "fcm/default.json"]
    let texts = try names.map { try String(contentsOf: folder.url.appending(path: $0), encoding: .utf8) }
    for (name, text) in zip(names, texts) { try folder.write(name, "\u{FEFF}\(text)") }
    let (keys, _, _) = open(folder)
    #expect(keys.current.problems == [])
    #expect(keys.current.bouncer.all.map(\.pair.publicKeyBase64) == [publicKey])
    #expect(try BouncerKeyFiles(directory: folder.path).list().map(\.publicKey) == [publicKey])

    for encoding in [String.Encoding.utf16, .utf16LittleEndian, .utf16BigEndian] {
      for (name, text) in zip(names, texts) {
        try #require(text.data(using: encoding)).write(to: folder.url.appending(path: name))
      }
      let problems = open(folder).0.current.problems
      #expect(problems.map(\.file) == names)
      #expect(problems.allSatisfy { $0.message.hasPrefix("is UTF-16; save it as UTF-8") }, "\(problems)")
    }
  }

  @Test func `What has the name of a key file and is none is a problem`() async throws {
    try folder.write("apns/a.json/x", "")
    try FileManager.default.createDirectory(
      at: folder.url.appending(path: "fcm"), withIntermediateDirectories: true)
    try FileManager.default.createSymbolicLink(
      atPath: folder.url.appending(path: "fcm/b.json").path, withDestinationPath: "/nowhere")
    #expect(
      open(folder).0.current.problems.map { "\($0.file) \($0.message)" } == [
        "apns/a.json cannot be used: Is a directory; name a file",
        "fcm/b.json cannot be used: No such file or directory; put it there, or correct the path",
      ])
  }

  @Test func `A folder that cannot be listed keeps what it held`() async throws {
    try folder.writeBouncerKey()
    let (keys, _, _) = open(folder)
    try FileManager.default.moveItem(
      at: folder.url.appending(path: "bouncer"), to: folder.url.appending(path: "moved"))
    try folder.write("bouncer", "a file where the folder was")
    keys.reload()
    #expect(keys.current.bouncer.all.count == 1)
    #expect(keys.current.problems.map(\.file) == ["bouncer"])
  }

  @Test func `The default project is the only the named or the configured one`() async throws {
    try folder.writeFCM("one", project: "first")
    try folder.writeFCM("two", project: "second")
    #expect(open(folder).0.current.credentials.defaultProject == nil)
    #expect(open(folder, defaultProject: "two").0.current.credentials.defaultProject == "second")
    let (missing, _, _) = open(folder, defaultProject: "three")
    #expect(missing.current.problems.map(\.file) == ["fcm/three.json"])
    try folder.writeFCM("default", project: "third")
    #expect(open(folder).0.current.credentials.defaultProject == "third")
  }

  @Test func `Files that others can read are a warning`() async throws {
    try folder.writeAPNs("main")
    try folder.write(
      "storage.key", String(decoding: StorageKeyFile.generate().utf8, as: UTF8.self), mode: 0o640)
    try folder.write("apns/AuthKey_main.p8", P256.Signing.PrivateKey().pemRepresentation, mode: 0o644)
    let (_, log, _) = open(folder)
    let warnings = log.texts.filter { $0.hasPrefix("warning") }
    #expect(warnings.count == 2)
    #expect(warnings.contains { $0.contains("chmod 600 apns/AuthKey_main.p8") })
    #expect(warnings.contains { $0.contains("chmod 600 storage.key") })
  }

  @Test func `The storage key is made once and private`() async throws {
    let directory = folder.url.appending(path: "Keys")
    let first = try KeyFolder.storageKey(in: directory.path)
    #expect(try mode(directory.appending(path: "storage.key")) == 0o600)
    #expect(try mode(directory) == 0o700)
    let second = try KeyFolder.storageKey(in: directory.path)
    #expect(first.fingerprint == second.fingerprint)
  }

  @Test(arguments: ["", "hunter2", "AAAA"]) func `A broken storage key is refused and left alone`(
    _ text: String
  )
    async throws
  {
    try folder.write("storage.key", text)
    let error = try #require(throws: Fault.self) {
      try KeyFolder.storageKey(in: folder.path)
    }
    #expect(error.description.contains("storage.key"))
    #expect(!error.description.contains("hunter2"))
    #expect(try String(contentsOf: folder.url.appending(path: "storage.key"), encoding: .utf8) == text)
  }

  @Test func `First starts at the same time agree on the storage key`() async throws {
    let directory = folder.path
    let keys = try await withThrowingTaskGroup(of: [UInt8].self) { group in
      for _ in 0..<16 { group.addTask { try KeyFolder.storageKey(in: directory).fingerprint } }
      return try await group.reduce(into: Set<[UInt8]>()) { $0.insert($1) }
    }
    #expect(keys.count == 1)
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory) == ["storage.key"])
  }

  @Test func `The readme is written once and never overwritten`() async throws {
    let file = folder.url.appending(path: "README.md")
    try KeyFolder.writeReadme(in: folder.path)
    #expect(try String(contentsOf: file, encoding: .utf8) == KeyFolder.readme)
    try folder.write("README.md", "mine")
    try KeyFolder.writeReadme(in: folder.path)
    #expect(try String(contentsOf: file, encoding: .utf8) == "mine")
  }
}
