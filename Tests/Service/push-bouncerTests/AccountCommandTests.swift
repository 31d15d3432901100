import Foundation
import HTTP
import TestSupport
import Testing

@Suite struct AccountCommandTests {
  private var place: Workplace { Fixture.current }

  private func accounts(_ place: Workplace) async throws -> [JSON] {
    try await place.run("account", "list", "--json").json["accounts"]?.elements ?? []
  }

  private func names(_ document: JSON) -> [String] {
    if case .object(let object) = document { object.members.map(\.name.text) } else { [] }
  }

  @Test(.place(begun: true)) func `An account is added listed and removed`() async throws {
    #expect(try await place.run("account", "list").output.hasPrefix("no accounts"))
    let added = try await place.run("account", "add", "--email", "Iago@example.org", "--json")
    #expect(added.status == 0)
    #expect(
      names(try added.json) == ["realm_uuid", "user_id", "user_uuid", "email", "username", "api_key"])
    #expect(try added.json["email"] == "Iago@example.org")
    #expect(try added.json["username"] == "Iago")
    #expect(try added.json["user_id"]?.integer == 10)
    for name in ["realm_uuid", "user_uuid"] {
      let uuid = try #require(try added.json[name]?.string)
      #expect(UUID(uuidString: uuid) != nil && uuid == uuid.lowercased())
    }
    let key = try #require(try added.json["api_key"]?.string)
    #expect(key.utf8.count == 32)

    let listed = try await accounts(place)
    #expect(listed.count == 1)
    #expect(Set(names(listed[0])) == ["realm_uuid", "realm_name", "user_id", "email", "username"])
    #expect(listed[0]["realm_uuid"] == (try added.json["realm_uuid"]))
    #expect(listed[0]["realm_name"] == "push-bouncer")
    let text = try await place.run("account", "list").output
    #expect(text.contains("Iago@example.org") && text.contains("push-bouncer"))
    #expect(!text.contains(key))
    for file in ["push-bouncer.sqlite", "push-bouncer.sqlite-wal"] where place.exists(file) {
      let bytes = try Data(contentsOf: place.folder.appending(path: file))
      #expect(bytes.range(of: Data(key.utf8)) == nil)
    }

    let removed = try await place.run("account", "remove", "iago@EXAMPLE.org")
    #expect(removed.status == 0)
    #expect(removed.output.contains("Iago@example.org"))
    #expect(try await accounts(place) == [])
    let again = try await place.run("account", "remove", "iago@example.org")
    #expect(again.status == 1)
    #expect(again.errors.contains("iago@example.org"))
  }

  @Test(.place(begun: true)) func `An account is as told`() async throws {
    let key = String(repeating: "k", count: 31) + "9"
    let added = try await place.run(
      "account", "add", "--email", "a@example.org", "--user-id", "0", "--username", "ann.b",
      "--api-key", key, "--json", "--server.name", "Chat", "--server.url", "https://chat.example.org/")
    #expect(added.status == 0)
    #expect(try added.json["user_id"] == 0)
    #expect(try added.json["username"] == "ann.b")
    #expect(try added.json["api_key"]?.string == key)
    let listed = try await accounts(place)
    #expect(listed.first?["realm_name"] == "Chat")
    let text = try await place.run("account", "add", "--email", "b@example.org").output
    #expect(text.contains("api_key = ") && text.contains("user 1 of Chat"))
    // The realm that is there is taken.
    #expect(Set(try await accounts(place).map { $0["realm_uuid"]?.string }).count == 1)
  }

  @Test(.place(begun: true)) func `What is there is not changed`() async throws {
    let added = try await place.run("account", "add", "--email", "a@example.org", "--json").json
    let before = try await accounts(place)
    for (arguments, told) in [
      (["--email", "A@example.org"], "the email A@example.org already exists"),
      (["--email", "b@example.org", "--username", "A"], "--username"),
      (["--email", "b@example.org", "--user-id", "10"], "already has a user with this number"),
      (["--email", "b@example.org", "--realm", UUID().uuidString], "no realm"),
    ] {
      let refused = try await place.run(["account", "add", "--json"] + arguments)
      #expect(refused.status == 1)
      #expect(refused.output == "")
      #expect(refused.errors.contains(told), "\(refused.errors)")
    }
    #expect(try await accounts(place) == before)
    let realm = try #require(added["realm_uuid"]?.string)
    let named = try await place.run(
      "account", "add", "--email", "b@example.org", "--realm", realm.uppercased(), "--json")
    #expect(try named.json["realm_uuid"]?.string == realm)
    #expect(try named.json["user_id"] == 11)
  }

  @Test(
    .place(),
    arguments: [
      ["account"], ["account", "add"], ["account", "remove"], ["account", "add", "--email", "iago"],
      ["account", "add", "--email", "a:b@c"], ["account", "add", "--email", "a@b", "--realm", "1"],
      ["account", "add", "--email", "a@b", "--user-id", "x"],
      ["account", "add", "--email", "a@b", "--user-id", "2147483648"],
      ["account", "add", "--email", "a@b", "--username", "a b"],
      ["account", "add", "--email", "a@b", "--api-key", "short"],
    ])
  func `Wrong usage changes nothing`(_ arguments: [String]) async throws {
    let result = try await place.run(arguments)
    // A group of commands alone explains itself.
    #expect(result.status == (arguments.count == 1 ? 0 : 64))
    #expect(!place.exists("push-bouncer.sqlite"))
  }

  @Test(.place(begun: true)) func `Keys are read from files and from standard input`() async throws {
    let key = String(repeating: "k", count: 64)
    try place.write("key", "\(key)\n")
    let input = ["/bin/sh", "-c", #"exec "$0" "$@" <key"#]
    for (number, (launcher, file)) in [([], "key"), (input, "-")].enumerated() {
      let server = try await place.run(
        ["server", "add", "--hostname", "chat\(number).example.org", "--org-key-file", file, "--json"],
        through: launcher)
      #expect(try server.json["org_key"]?.string == key, "\(server.errors)")
    }
    try place.write("api-key", String(repeating: "a", count: 32))
    let account = try await place.run(
      "account", "add", "--email", "iago@example.org", "--api-key-file", "api-key", "--json")
    #expect(try account.json["api_key"]?.string == String(repeating: "a", count: 32))

    try place.write("empty", "\n")
    for (arguments, says) in [
      (["--org-key-file", "nowhere"], "nowhere cannot be read"),
      (["--org-key-file", "empty"], "there is no key in empty"),
      (["--org-key-file", "api-key"], "--org-key must have 64 characters"),
      (["--org-key-file", "key", "--org-key", key], "give --org-key or --org-key-file, not both"),
    ] {
      let refused = try await place.run(["server", "add", "--hostname", "other.example.org"] + arguments)
      #expect(refused.status != 0 && refused.errors.contains(says), "\(refused.errors)")
      #expect(!refused.errors.contains("aaaa") && !refused.errors.contains("kkkk"))
    }
  }
}
