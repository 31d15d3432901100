import Foundation
import HTTP
import TestSupport
import Testing

@Suite(.place(begun: true)) struct ServerCommandTests {
  private let place = Fixture<Workplace>.current

  @Test func `A server is added listed and shown`() async throws {
    let added = try await place.run(
      "server", "add", "--hostname", "Chat.Example.org", "--contact-email", "a@example.org", "--json")
    #expect(added.status == 0)
    let id = try #require(try added.json["org_id"]?.string)
    #expect(UUID(uuidString: id) != nil)
    #expect(try added.json["org_key"]?.string?.count == 64)
    let hostname = try #require(try added.json["hostname"]?.string)
    #expect(hostname.lowercased() == "chat.example.org")

    let list = try await place.run("server", "list", "--json")
    guard case .array(let servers)? = try list.json["servers"] else { return #expect(Bool(false)) }
    #expect(servers.count == 1)
    let key = try #require(try added.json["org_key"]?.string)
    #expect(!list.output.contains(key))
    for server in [servers[0], try await place.run("server", "show", id, "--json").json] {
      #expect(server["org_id"]?.string == id)
      #expect(server["hostname"]?.string == hostname)
      #expect(server["contact_email"]?.string == "a@example.org")
      #expect(server["deactivated"] == false)
      #expect(server["last_request_at"] == .null)
      for count in ["realms", "registrations", "legacy_registrations"] {
        #expect(server[count]?.integer == 0)
      }
    }
    #expect(try await place.run("server", "show", hostname).output.contains(id))
    let text = try await place.run("server", "list").output
    #expect(text.hasPrefix("1 server, 0 encrypted registrations, 0 legacy\n\nHOSTNAME "))
    #expect(
      text.contains("chat.example.org  active       0          0       0          0  never         \(id)\n"))
    #expect(try await place.run("server", "show", "other.example.org").status == 1)
  }

  @Test func `Own credentials are kept, and neither an id nor a hostname is taken twice`() async throws {
    let id = UUID().uuidString.lowercased()
    let key = String(repeating: "k", count: 64)
    let added = try await place.run(
      "server", "add", "--hostname", "a.example.org", "--org-id", id, "--org-key", key, "--json")
    #expect(try added.json["org_id"]?.string == id && added.json["org_key"]?.string == key)
    for (arguments, told) in [
      (["b.example.org", "--org-id", id], id),
      (["a.example.org", "--json"], "a.example.org already exists"),
    ] {
      let again = try await place.run(["server", "add", "--hostname"] + arguments)
      #expect(again.status == 1 && again.output == "" && again.errors.contains(told))
    }
  }

  @Test func `A server is switched off and on`() async throws {
    #expect(try await place.run("server", "add", "--hostname", "a.example.org").status == 0)
    let off = try await place.run("server", "deactivate", "a.example.org", "--json")
    #expect(try off.json["deactivated"] == true)
    #expect(try await place.run("server", "show", "a.example.org", "--json").json["deactivated"] == true)
    #expect(try await place.run("server", "reactivate", "a.example.org").status == 0)
    #expect(try await place.run("server", "show", "a.example.org", "--json").json["deactivated"] == false)
    #expect(try await place.run("server", "deactivate", "b.example.org").status == 1)
  }

  @Test func `A key is rotated`() async throws {
    let added = try await place.run("server", "add", "--hostname", "a.example.org", "--json").json
    let rotated = try await place.run("server", "rotate-key", "a.example.org", "--json")
    #expect(rotated.status == 0)
    #expect(try rotated.json["org_id"] == added["org_id"])
    #expect(try rotated.json["hostname"] == added["hostname"])
    #expect(try rotated.json["org_key"]?.string?.count == 64)
    #expect(try rotated.json["org_key"] != added["org_key"])
  }

  @Test func `A key that has leaked ends at once`() async throws {
    var keys = [
      try await place.run("server", "add", "--hostname", "a.example.org", "--json").json,
      try await place.run("server", "rotate-key", "a.example.org", "--json").json,
    ]
    try await place.serve { running in
      func statuses() async throws -> [Int] {
        var statuses: [Int] = []
        for key in keys {
          let user = (key["org_id"]?.string ?? "", key["org_key"]?.string ?? "")
          let path = "/api/v1/remotes/server/analytics/status"
          statuses.append(try await running.call(path: path, user: user).status)
        }
        return statuses
      }
      #expect(try await statuses() == [200, 200])
      keys.append(try await place.run("server", "rotate-key", "a.example.org", "--now", "--json").json)
      #expect(try await statuses() == [401, 401, 200])
      await running.end()
    }
  }

  @Test func `A realm is let go`() async throws {
    let none = try await place.run("server", "release-realm", UUID().uuidString)
    #expect(none.status == 1)
    #expect(none.errors.contains("no server has reported realm"))
    #expect(try await place.run("server", "release-realm", "chat.example.org").status == 64)
  }
}
