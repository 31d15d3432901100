import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("A key that was replaced minutes ago")
struct GraceTests {
  private var bouncer: Bouncer { Fixture.current }
  private let second = String(repeating: "2", count: 64)
  private let third = String(repeating: "3", count: 64)

  /// Calls `server/register` as stock `register_server` does.
  private func register(
    _ server: Credentials, _ newKey: String? = nil, hostname: String = "chat.example.org",
    contact: String = "admin@example.org"
  ) async throws -> Answer {
    try await bouncer.post(
      "server/register",
      [
        ("zulip_org_id", server.id), ("zulip_org_key", server.key), ("hostname", hostname),
        ("contact_email", contact),
      ] + (newKey.map { [("new_org_key", $0)] } ?? []))
  }

  private func status(_ server: Credentials) async throws -> Int {
    try await bouncer.call("server/analytics/status", .get, authorization: server.header).status
  }

  @Test(.bouncer(["bouncer.registration": "open"]))
  func `still calls, and changes nothing of its server`() async throws {
    let former = try await bouncer.server()
    let owner = Credentials(id: former.id, key: second)
    #expect(try await register(former, second).isSuccess)
    let before = try await bouncer.dump()
    let refusals = [
      try await register(former, third), try await register(former, former.key),
      try await register(former, hostname: "thief.example.org"),
      try await register(former, contact: "thief@example.org"),
      try await register(former, second, contact: "thief@example.org"),
      try await bouncer.post("server/deactivate", [], as: former),
    ]
    for refusal in refusals {
      #expect(refusal.status == 403 && refusal.code == "KEY_REPLACED", "\(refusal.text)")
      #expect(refusal.message?.hasSuffix("run: manage.py register_server --registration-transfer") == true)
    }
    #expect(try await bouncer.dump() == before)
    #expect(try await [status(former), status(owner)] == [200, 200])
    #expect(try await register(owner, third, contact: "owner@example.org").isSuccess)
    #expect(try await [status(former), status(owner)] == [401, 200])
  }

  @Test(.bouncer())
  func `may ask again for the key that replaced it, whose answer was lost`() async throws {
    let former = try await bouncer.server()
    #expect(try await register(former, second, contact: "owner@example.org").isSuccess)
    let (server, keys) = (try await server(), try await keys())
    for _ in 1...2 {
      let again = try await register(former, second, contact: "owner@example.org")
      #expect(again.isSuccess && again.json["created"] == false, "\(again.text)")
    }
    // What plain `register_server` says is true already, too.
    #expect(try await register(former, contact: "owner@example.org").isSuccess)
    #expect(try await self.server() == server)
    #expect(try await self.keys() == keys)
  }

  private func server() async throws -> RemoteServer? {
    try await bouncer.servers.find(hostname: "chat.example.org")
  }

  private func keys() async throws -> [[Value]] {
    try await bouncer.rows("SELECT key_hash, previous_key_hash, previous_key_until FROM remote_servers")
  }
}
