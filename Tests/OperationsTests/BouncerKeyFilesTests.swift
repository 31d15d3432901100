import Foundation
import Sealing
import Testing

@testable import Operations

@Suite struct BouncerKeyFilesTests {
  private let folder: Folder
  private let files: BouncerKeyFiles

  init() throws {
    folder = try Folder()
    files = BouncerKeyFiles(directory: folder.path)
  }

  private func names() throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: "\(folder.path)/bouncer")
  }

  @Test func `A new key is active, private and comes back as it was`() throws {
    let created = Date(timeIntervalSince1970: 1_790_000_000)
    let key = try files.generate(now: created)
    let name = try #require(try names().first)
    #expect(name.hasPrefix("2026-09-21-") && name.hasSuffix(".json"))
    #expect(try folder.permissions(of: "bouncer/\(name)") == 0o600)
    let listed = try #require(try files.list().first)
    #expect(listed.publicKey == key.publicKey)
    #expect(listed.pair.privateKeyBase64 == key.pair.privateKeyBase64)
    #expect(listed.createdAt == created)
    #expect(listed.state == .active)
  }

  @Test func `Retiring changes the state and nothing else`() throws {
    let key = try files.generate(now: Date(timeIntervalSince1970: 1_790_000_000))
    let name = try names()
    _ = try files.retire(key.publicKey)
    #expect(try names() == name)
    let listed = try #require(try files.list().first)
    #expect(listed.state == .retired)
    #expect(listed.createdAt == key.createdAt)
    #expect(listed.pair.privateKeyBase64 == key.pair.privateKeyBase64)
  }

  @Test func `A key that is not there is neither retired nor removed`() throws {
    _ = try files.generate()
    let other = BouncerKeyPair().publicKeyBase64
    #expect(throws: BouncerKeyFiles.Failure.self) { try files.retire(other) }
    #expect(throws: BouncerKeyFiles.Failure.self) { try files.remove(other) }
    #expect(try files.list().count == 1)
  }

  @Test func `A file that is no key is named, and what it holds is not told`() throws {
    try folder.write(#"{"private_key": "s3cret"}"#, to: "bouncer/bad.json")
    let failure = #expect(throws: BouncerKeyFiles.Failure.self) { try files.list() }
    #expect(failure?.description.contains("bad.json") == true)
    #expect(failure?.description.contains("s3cret") == false)
  }

  @Test func `A public key that belongs to another is refused`() throws {
    let pair = BouncerKeyPair()
    try folder.write(
      """
      {"public_key": "\(BouncerKeyPair().publicKeyBase64)", "private_key": "\(pair.privateKeyBase64)", \
      "created_at": "2026-01-01T00:00:00Z", "state": "active"}
      """, to: "bouncer/mixed.json")
    #expect(throws: BouncerKeyFiles.Failure.self) { try files.list() }
  }

  @Test func `Keys of a Zulip bouncer are taken over, once`() throws {
    let (first, second) = (BouncerKeyPair(), BouncerKeyPair())
    let secrets = try folder.write(
      """
      [secrets]
      secret_key = whatever
      push_registration_encryption_keys = {"\(first.publicKeyBase64)": "\(first.privateKeyBase64)", "\(second.publicKeyBase64)": "\(second.privateKeyBase64)"}
      """, to: "zulip-secrets.conf")
    #expect(
      try files.importZulipSecrets(secrets).map(\.publicKey) == [
        first.publicKeyBase64, second.publicKeyBase64,
      ])
    _ = try files.retire(first.publicKeyBase64)
    _ = try files.importZulipSecrets(secrets)
    let listed = try files.list()
    #expect(Set(listed.map(\.publicKey)) == [first.publicKeyBase64, second.publicKeyBase64])
    #expect(listed.first { $0.publicKey == first.publicKeyBase64 }?.state == .retired)
    #expect(listed.count == 2)
  }

  @Test(arguments: [
    "[secrets]\nother = 1", "push_registration_encryption_keys = nonsense",
    #"push_registration_encryption_keys = {"mm4F/3WLqECY637NulC5j/ZeHkmpwmtlfIxwt8MfREM=": "AAAA"}"#,
  ])
  func `Secrets that hold no pairs are refused and change nothing`(_ text: String) throws {
    let secrets = try folder.write(text, to: "zulip-secrets.conf")
    #expect(throws: BouncerKeyFiles.Failure.self) { try files.importZulipSecrets(secrets) }
    #expect(try files.list().isEmpty)
  }
}
