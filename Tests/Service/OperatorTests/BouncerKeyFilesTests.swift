import Foundation
import Sealing
import TestSupport
import Testing

@testable import Basics
@testable import Operator

@Suite(.keyFolder) struct BouncerKeyFilesTests {
  private let folder = Fixture<TestFolder>.current

  private func files(in folder: TestFolder) throws -> [URL] {
    let bouncer = folder.url.appending(path: "bouncer")
    return try FileManager.default.contentsOfDirectory(atPath: bouncer.path).sorted().map {
      bouncer.appending(path: $0)
    }
  }

  @Test func `A key is made private and listed`() async throws {
    let keys = BouncerKeyFiles(directory: folder.path)
    #expect(try keys.list().isEmpty)
    let later = try keys.generate(now: Date(timeIntervalSince1970: 1_790_000_000))
    let earlier = try keys.generate(now: Date(timeIntervalSince1970: 1_780_000_000))
    let listed = try keys.list()
    #expect(listed.map(\.publicKey) == [earlier.publicKey, later.publicKey])
    #expect(listed.map(\.createdAt.timeIntervalSince1970) == [1_780_000_000, 1_790_000_000])
    #expect(listed.allSatisfy { $0.state == .active })
    #expect(listed[0].pair.privateKeyBase64 == earlier.pair.privateKeyBase64)
    let paths = try files(in: folder)
    #expect(paths.count == 2)
    for path in paths { #expect(try mode(path) == 0o600) }
    #expect(try mode(folder.url.appending(path: "bouncer")) == 0o700)
  }

  @Test func `A retired key stays and still opens`() async throws {
    let keys = BouncerKeyFiles(directory: folder.path)
    let key = try keys.generate()
    _ = try keys.generate()
    #expect(try keys.retire(key.publicKey).state == .retired)
    #expect(Set(try keys.list().map(\.state)) == [.active, .retired])
    #expect(try files(in: folder).count == 2)
    for file in try files(in: folder) { #expect(try mode(file) == 0o600) }
    let loaded = KeyFolder(directory: folder.path, logger: LogRecorder().logger).load()
    #expect(loaded.bouncer.contains(publicKey: key.publicKey))
  }

  @Test func `A removed key is gone and the others are not`() async throws {
    let keys = BouncerKeyFiles(directory: folder.path)
    let key = try keys.generate()
    let other = try keys.generate()
    _ = try keys.remove(key.publicKey)
    #expect(try keys.list().map(\.publicKey) == [other.publicKey])
    #expect(throws: BouncerKeyFiles.NotFound.self) { try keys.remove(key.publicKey) }
    #expect(throws: BouncerKeyFiles.NotFound.self) { try keys.retire(key.publicKey) }
    #expect(try keys.list().count == 1)
  }

  @Test func `The last active key is neither retired nor removed`() async throws {
    let keys = BouncerKeyFiles(directory: folder.path)
    let (old, last) = (try keys.generate(), try keys.generate())
    _ = try keys.retire(old.publicKey)
    for end in [keys.retire, keys.remove] {
      let error = try #require(throws: Fault.self) { try end(last.publicKey) }
      #expect(error.description.contains("keys generate"))
    }
    #expect(try keys.retire(old.publicKey).state == .retired)
    #expect(try keys.remove(old.publicKey).publicKey == old.publicKey)
    _ = try keys.generate()
    #expect(try keys.remove(last.publicKey).publicKey == last.publicKey)
  }

  @Test func `A broken file is named without its content`() async throws {
    let keys = BouncerKeyFiles(directory: folder.path)
    _ = try keys.generate()
    let file = try files(in: folder)[0]
    for text in ["hunter2", "{}", #"{"private_key": "hunter2"}"#] {
      try folder.write("bouncer/\(file.lastPathComponent)", text)
      let error = try #require(throws: Fault.self) { try keys.list() }
      #expect(error.description.contains(file.lastPathComponent))
      #expect(!error.description.contains("hunter2"))
    }
  }

  @Test func `A Zulip bouncer's keys are taken over once`() async throws {
    let (first, second) = (BouncerKeyPair(), BouncerKeyPair())
    let secrets = """
      [secrets]
      zulip_org_key = hunter2
      push_registration_encryption_keys = \
      {"\(first.publicKeyBase64)": "\(first.privateKeyBase64)", "\(second.publicKeyBase64)": "\(second.privateKeyBase64)"}
      camo_key=x

      """
    let keys = BouncerKeyFiles(directory: folder.path)
    #expect(
      try keys.importZulipSecrets(secrets, of: "zulip-secrets.conf").map(\.publicKey) == [
        first.publicKeyBase64, second.publicKeyBase64,
      ])
    let found = try keys.list()
    #expect(Set(found.map(\.pair.privateKeyBase64)) == [first.privateKeyBase64, second.privateKeyBase64])

    _ = try keys.retire(first.publicKeyBase64)
    #expect(
      try keys.importZulipSecrets(secrets, of: "zulip-secrets.conf").map(\.state) == [.retired, .active])
    #expect(try keys.list().count == 2)
  }

  @Test(arguments: [
    "", "[secrets]\nother = 1\n", "#push_registration_encryption_keys = {}\n",
    "push_registration_encryption_keys = [1]\n",
    "push_registration_encryption_keys = {\n",
    "push_registration_encryption_keys = {\"hunter\": \"hunter2\"}\n",
    "push_registration_encryption_keys = {\"GOOD\": \"KEY\", \"OTHER\": \"KEY\"}\n",
  ])
  func `What does not fit is refused and changes nothing`(_ text: String) async throws {
    let pair = BouncerKeyPair()
    let text = text.replacing("GOOD", with: pair.publicKeyBase64).replacing(
      "KEY", with: pair.privateKeyBase64)
    let keys = BouncerKeyFiles(directory: folder.path)
    let error = try #require(throws: Fault.self) {
      try keys.importZulipSecrets(text, of: "zulip-secrets.conf")
    }
    #expect(error.description.contains("zulip-secrets.conf"))
    #expect(!error.description.contains("hunter2"))
    #expect(!error.description.contains(pair.privateKeyBase64))
    #expect(try keys.list().isEmpty)
  }
}
