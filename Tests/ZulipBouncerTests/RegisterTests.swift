import Foundation
import HTTP
import HTTPTypes
import Registrations
import TestService
import TestSupport
import Testing
import ZulipBouncer

@Suite("server/register")
struct RegisterTests {
  private static let id = "6b17a4a2-5b0c-4d5e-9f3a-0123456789ab"
  private static let key = String(repeating: "k", count: 64)
  private static let newKey = String(repeating: "n", count: 64)

  private static func form(_ changes: [String: String?] = [:]) -> [(String, String)] {
    var form: [(String, String)] = [
      ("zulip_org_id", id), ("zulip_org_key", key), ("hostname", "new.example.org"),
      ("contact_email", "admin@new.example.org"),
    ]
    for (name, value) in changes {
      form.removeAll { $0.0 == name }
      if let value { form.append((name, value)) }
    }
    return form
  }

  @Test
  func `takes a new server in and lets it change`() async throws {
    try await Bouncer.test(["bouncer.registration": "open"]) { bouncer in
      let created = try await bouncer.post("server/register", Self.form())
      #expect(created.text == #"{"result":"success","msg":"","created":true}"# + "\n")
      let updated = try await bouncer.post(
        "server/register", Self.form(["hostname": "NEW.example.org:8443", "contact_email": "b@example.org"]))
      #expect(updated.json["created"] == false)
      let server = try #require(try await bouncer.servers.all().first?.server)
      #expect(server.hostname == "new.example.org:8443")
      #expect(server.contactEmail == "b@example.org")
      #expect(server.lastRequestAt == bouncer.clock.now)
      let rotated = try await bouncer.post(
        "server/register", Self.form(["new_org_key": " \(Self.newKey)\n", "x": "1"]))
      #expect(rotated.json["ignored_parameters_unsupported"] == ["x"])
      for key in [Self.key, Self.newKey] {
        let answer = try await bouncer.call(
          "server/analytics/status", .get, authorization: Credentials(id: Self.id, key: key).header)
        #expect(answer.isSuccess)
      }
      bouncer.clock.advance(601)
      let answer = try await bouncer.call(
        "server/analytics/status", .get, authorization: Credentials(id: Self.id, key: Self.key).header)
      #expect(answer.status == 401)
    }
  }

  @Test
  func `is reached over TCP, through doubled slashes too`() async throws {
    try await Bouncer.test(["bouncer.registration": "open"], isLive: true) { bouncer in
      let answer = try await bouncer.post("/server/register", Self.form())
      #expect(answer.json["created"] == true)
    }
  }

  private struct Row: Sendable {
    let changes: [String: String?]
    let message: String
    var code = "BAD_REQUEST"
    var status = 400
    var fields: [String: JSON] = [:]
  }

  @Test
  func `refuses what is wrong, in order, and changes nothing`() async throws {
    try await Bouncer.test(["bouncer.registration": "open"]) { bouncer in
      let other = try await bouncer.server("taken.example.org")
      let off = try await bouncer.server("off.example.org")
      let offID = try #require(try await bouncer.servers.find(hostname: "off.example.org")?.id)
      try await bouncer.servers.setDeactivated(offID, true)
      let mine = try await bouncer.server("mine.example.org")
      let before = try await bouncer.dump()
      func missing(_ name: String) -> Row {
        Row(
          changes: [name: String?.none], message: "Missing '\(name)' argument",
          code: "REQUEST_VARIABLE_MISSING",
          fields: ["var_name": .string(name)])
      }
      func components(_ hostname: String) -> Row {
        Row(
          changes: ["hostname": hostname],
          message: "\(hostname) contains invalid components (e.g., path, query, fragment).")
      }
      func hostname(_ hostname: String) -> Row {
        Row(changes: ["hostname": hostname], message: "\(hostname) is not a valid hostname")
      }
      func email(_ email: String) -> Row {
        Row(changes: ["contact_email": email], message: "Enter a valid email address.")
      }
      func taken(_ hostname: String, _ changes: [String: String?] = [:]) -> Row {
        Row(
          changes: changes.merging(["hostname": hostname]) { $1 },
          message: "A server with hostname \(hostname) already exists",
          code: "HOSTNAME_ALREADY_IN_USE_BOUNCER_ERROR", fields: ["hostname": .string(hostname)])
      }
      let table: [Row] = [
        missing("zulip_org_id"), missing("zulip_org_key"), missing("hostname"), missing("contact_email"),
        Row(changes: ["zulip_org_id": " "], message: "zulip_org_id cannot be blank"),
        Row(changes: ["zulip_org_id": "abc", "hostname": "/"], message: "zulip_org_id is not length 36"),
        Row(changes: ["zulip_org_key": ""], message: "zulip_org_key cannot be blank"),
        Row(changes: ["zulip_org_key": "abc"], message: "zulip_org_key is not length 64"),
        Row(
          changes: ["hostname": String(repeating: "a", count: 129)],
          message: "hostname is too long (limit: 128 characters)"),
        Row(changes: ["new_org_key": "  "], message: "new_org_key cannot be blank"),
        Row(changes: ["new_org_key": "abc"], message: "new_org_key is not length 64"),
        components("new.example.org/path"), components("new.example.org?q=1"),
        components("new.example.org#f"),
        hostname(""), hostname("dotless"), hostname("a b.example.org"), hostname("new.example.org:http"),
        hostname("me@new.example.org"),
        Row(changes: ["hostname": "new.example.org\0"], message: "hostname has invalid format"),
        email(""), email("admin"), email("admin@"), email("@example.org"), email("admin@localhost:25"),
        email("ad min@example.org"), email("admin@example"),
        Row(changes: ["contact_email": "admin@exam\0ple.org"], message: "contact_email has invalid format"),
        email("admin@example.org\n"), email("a..b@example.org"),
        Row(changes: ["zulip_org_id": String(repeating: "x", count: 36)], message: "Invalid UUID"),
        Row(changes: ["zulip_org_id": Self.id.uppercased()], message: "Invalid UUID"),
        Row(changes: ["zulip_org_id": "6b17a4a2-5b0c-1d5e-9f3a-0123456789ab"], message: "Invalid UUID"),
        Row(changes: ["zulip_org_id": "6b17a4a2-5b0c-4d5e-cf3a-0123456789ab"], message: "Invalid UUID"),
        Row(
          changes: ["hostname": "ⓣaken.example.org"],
          message: "ⓣaken.example.org is not a valid hostname: it wants the ASCII spelling (xn--...)"),
        taken("taken.example.org"), taken("TAKEN.example.org"), taken("off.example.org"),
        taken("taken.example.org."), taken("taken.example.org:443"), taken("Taken.example.org.:00443"),
        taken(
          "Taken.example.org",
          ["zulip_org_id": mine.id, "zulip_org_key": mine.key, "new_org_key": Self.newKey]),
        Row(
          changes: ["zulip_org_id": other.id, "hostname": "taken.example.org"],
          message: "Zulip server auth failure: key does not match role \(other.id)",
          code: "INVALID_ZULIP_SERVER",
          fields: ["role": .string(other.id)]),
        Row(
          changes: ["zulip_org_id": off.id, "zulip_org_key": off.key],
          message: "The mobile push notification service registration for your server has been deactivated",
          code: "REALM_DEACTIVATED", status: 401),
      ]
      for row in table {
        let answer = try await bouncer.post("server/register", Self.form(row.changes))
        #expect(answer.message == row.message)
        #expect(answer.code == row.code, "\(row.message)")
        #expect(answer.status == row.status, "\(row.message)")
        for (name, value) in row.fields { #expect(answer.json[name] == value, "\(row.message)") }
      }
      #expect(try await bouncer.dump() == before)
    }
  }

  @Test
  func `lets strangers in by hostname only, where registration is closed`() async throws {
    try await Bouncer.test(["bouncer.allowed_hostnames": "*.Allowed.org,one.example.org"]) { bouncer in
      for hostname in [
        "new.example.org", "allowed.org", "notallowed.org", "x.allowed.org.example.org",
        "one.example.org:8443",
        "c.allowed.org:08443",
      ] {
        let answer = try await bouncer.post("server/register", Self.form(["hostname": hostname]))
        #expect(answer.status == 403, "\(hostname)")
        #expect(answer.code == "SERVER_REGISTRATION_CLOSED")
        #expect(answer.message?.contains("push-bouncer server add --hostname \(hostname)") == true)
      }
      #expect(try await bouncer.servers.all().isEmpty)
      for hostname in ["ONE.example.org", "a.b.allowed.org", "c.allowed.org:443"] {
        let id = UUID().uuidString.lowercased()
        let answer = try await bouncer.post(
          "server/register", Self.form(["hostname": hostname, "zulip_org_id": id]))
        #expect(answer.json["created"] == true, "\(hostname)")
      }
      // One that is in may move to any free hostname.
      let known = try await bouncer.server()
      let moved = try await bouncer.post(
        "server/register",
        Self.form(["hostname": "elsewhere.net", "zulip_org_id": known.id, "zulip_org_key": known.key]))
      #expect(moved.json["created"] == false)
    }
  }
}

@Suite("server/deactivate")
struct DeactivateTests {
  @Test
  func `ends all calls of a server`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let answer = try await bouncer.post("server/deactivate", json: [:], as: server)
      #expect(answer.text == #"{"result":"success","msg":""}"# + "\n")
      #expect(try await bouncer.post("server/deactivate", json: [:], as: server).status == 401)
      #expect(try await bouncer.servers.all()[0].server.isDeactivated)
    }
  }
}
