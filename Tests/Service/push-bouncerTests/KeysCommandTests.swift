import AsyncHTTPClient
import Foundation
import HTTP
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo

@Suite struct KeysCommandTests {
  private var place: Workplace { Fixture.current }

  private func list(_ place: Workplace) async throws -> [JSON] {
    let result = try await place.run("keys", "list", "--json")
    #expect(result.status == 0)
    return try result.json["keys"]?.elements ?? []
  }

  @Test(.place(begun: true)) func `A key is made listed retired and removed`() async throws {
    let first = try #require(try await list(place).first?["public_key"]?.string)
    let made = try await place.run("keys", "generate", "--json")
    #expect(made.status == 0)
    let key = try #require(try made.json["public_key"]?.string)
    #expect(try made.json["state"]?.string == "active")
    let other = try #require(try await place.run("keys", "generate", "--json").json["public_key"]?.string)

    let keys = try await list(place)
    #expect(Set(keys.compactMap { $0["public_key"]?.string }) == [first, key, other])
    for key in keys {
      #expect(key["registrations"]?.integer == 0)
      #expect(key["registrations_30d"]?.integer == 0)
      #expect(key["last_used_at"] == .null)
      let created = try #require(key["created_at"]?.string)
      #expect(created.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil)
    }

    let retired = try await place.run("keys", "retire", key, "--json")
    #expect(try retired.json["state"]?.string == "retired")
    #expect(try await list(place).first { $0["public_key"]?.string == key }?["state"]?.string == "retired")

    #expect(try await place.run("keys", "remove", key).status == 0)
    #expect(Set(try await list(place).compactMap { $0["public_key"]?.string }) == [first, other])
    for command in ["retire", "remove"] {
      let missing = try await place.run("keys", command, key)
      #expect(missing.status == 1)
      #expect(missing.errors.contains(key))
    }
  }

  @Test(.place(begun: true)) func `No command shows a private key`() async throws {
    let key = try #require(try await list(place).first?["public_key"]?.string)
    #expect(try await place.run("keys", "generate").status == 0)
    let folder = place.folder.appending(path: "Keys/bouncer")
    let secrets = try FileManager.default.contentsOfDirectory(atPath: folder.path).map { file in
      try #require(try JSON.parse(place.text(of: "Keys/bouncer/\(file)"))["private_key"]?.string)
    }
    #expect(secrets.count == 2)
    for arguments in [
      ["keys", "list"], ["keys", "list", "--json"], ["keys", "retire", key], ["keys", "remove", key],
    ] {
      let result = try await place.run(arguments)
      #expect(result.status == 0)
      for secret in secrets { #expect(!(result.output + result.errors).contains(secret)) }
    }
  }

  @Test(.place(begun: true)) func `A Zulip bouncer's keys are imported`() async throws {
    let pair = BouncerKeyPair()
    try place.write(
      "zulip-secrets.conf",
      """
      [secrets]
      push_registration_encryption_keys = {"\(pair.publicKeyBase64)": "\(pair.privateKeyBase64)"}

      """)
    let result = try await place.run("keys", "import", "--zulip-secrets", "zulip-secrets.conf", "--json")
    #expect(result.status == 0)
    #expect(!result.output.contains(pair.privateKeyBase64))
    #expect(try await list(place).compactMap { $0["public_key"]?.string }.contains(pair.publicKeyBase64))

    try place.write("zulip-secrets.conf", "[secrets]\n")
    let bad = try await place.run("keys", "import", "--zulip-secrets", "zulip-secrets.conf")
    #expect(bad.status == 1)
    #expect(bad.errors.contains("push_registration_encryption_keys"))
    let missing = try await place.run("keys", "import", "--zulip-secrets", "nowhere.conf")
    #expect(missing.status == 1)
    #expect(missing.errors.contains("nowhere.conf"))
  }

  @Test(.place()) func `A key in use is removed only by force`() async throws {
    let key = try #require(try await place.run("init", "--json").json["public_key"]?.string)
    let server = try await place.run("server", "add", "--hostname", "chat.example.org", "--json").json
    try await place.serve { running in
      try await running.register(VirtualPhone(.fcm, appID: nil), of: server, bouncerKey: key)
      await running.end()
    }
    let used = try #require(try await list(place).first)
    #expect(used["registrations"]?.integer == 1)
    #expect(used["registrations_30d"]?.integer == 1)
    #expect(used["last_used_at"]?.string != nil)

    let refused = try await place.run("keys", "remove", key)
    #expect(refused.status == 1)
    #expect(refused.errors.contains("30 days"))
    #expect(refused.errors.contains("--force"))
    #expect(try await list(place).count == 1)
    for command in [["retire", key], ["remove", key, "--force"]] {
      let last = try await place.run(["keys"] + command)
      #expect(last.status == 1)
      #expect(last.errors.contains("last active key") && last.errors.contains("keys generate"))
    }
    #expect(try await list(place).first?["state"]?.string == "active")
    #expect(try await place.run("keys", "generate").status == 0)
    #expect(try await place.run("keys", "remove", key, "--force").status == 0)
    #expect(try await list(place).allSatisfy { $0["public_key"]?.string != key })
  }
}

extension Running {
  /// Registers a phone as its chat server does.
  func register(_ phone: VirtualPhone, of server: JSON, bouncerKey: String) async throws {
    let chat = ChatServer(
      bouncer: url("public"), id: server["org_id"]?.string ?? "", key: server["org_key"]?.string ?? "",
      realm: UUID().uuidString.lowercased(), client: .shared)
    _ = try await chat.uploadRealm(hostname: "chat.example.org")
    try await chat.register(phone, bouncerKey: bouncerKey)
  }
}
