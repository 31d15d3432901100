import Delivery
import Foundation
import HTTP
import HTTPTypes
import ProviderSimulator
import Providers
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("push/status")
struct StatusTests {
  private func status(_ bouncer: Bouncer, _ query: String = "", as server: Credentials) async throws -> Answer
  {
    try await bouncer.call(
      "push/status\(query.isEmpty ? "" : "?\(query)")", .get, authorization: server.header)
  }

  private func registrations(_ answer: Answer) -> [JSON] {
    guard case .array(let registrations)? = answer.json["registrations"] else { return [] }
    return registrations
  }

  /// A server with a realm and these devices.
  private func server(
    _ bouncer: Bouncer, _ hostname: String = "chat.example.org", _ devices: [JSON] = []
  ) async throws -> (server: Credentials, realm: String) {
    let server = try await bouncer.server(hostname)
    let realm = try await bouncer.realm(of: server)
    for device in devices {
      let answer = try await bouncer.post(
        "push/e2ee/register", bouncer.registerForm(realm: realm, device), as: server)
      #expect(answer.isSuccess)
    }
    return (server, realm)
  }

  @Test func `says of each registration what it is and how it fares`() async throws {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let (server, realm) = try await server(bouncer, devices(bouncer))
      let user = OldUser(id: 7)
      _ = try await bouncer.post("push/register", user.register("old-token", .fcm, realm: realm), as: server)
      simulated.simulator.setToken("decade", TokenRule(status: 413, reason: "PayloadTooLarge"))
      let items = [PushItem.apns("c0ffee"), PushItem.fcm("android-token"), PushItem.apns("decade")]
      _ = try await bouncer.post("push/e2ee/notify", json: PushItem.body(realm, items), as: server)
      try await bouncer.parts.deliverer.history?.flush()

      let answer = try await status(bouncer, as: server)
      #expect(answer.isSuccess)
      let found = Dictionary(
        registrations(answer).map { ($0["token_id"]?.string ?? "", $0) },
        uniquingKeysWith: { first, _ in first })
      #expect(found.count == 4)
      let apple = try #require(found[TokenID(token: "c0ffee").base64])
      #expect(apple["kind"] == "e2ee" && apple["provider"] == "apns" && apple["app"] == "example.app")
      #expect(apple["realm"]?["uuid"] == .string(realm) && apple["state"] == "working")
      #expect(apple["last_success_at"]?.string?.hasSuffix("Z") == true && apple["last_failure"] == .null)
      let refused = try #require(found[TokenID(token: "decade").base64])
      #expect(refused["state"] == "failing" && refused["last_success_at"] == .null)
      #expect(refused["last_failure"]?["reason"] == "PayloadTooLarge")
      #expect(refused["last_failure"]?["meaning"]?.string?.isEmpty == false)
      #expect(
        refused["advice"]?.string?.hasPrefix(refused["last_failure"]?["meaning"]?.string ?? "?") == true)
      let old = try #require(found[TokenID(token: "old-token").base64])
      #expect(old["kind"] == "legacy" && old["state"] == "unused" && old["user"] == .string(user.uuid))

      #expect(
        answer.json["last_24_hours"]?["handed_in"] == 3 && answer.json["last_24_hours"]?["refused"] == 1)
      guard case .array(let refusals)? = answer.json["last_24_hours"]?["latest_refusals"] else { return }
      #expect(refusals.map { $0["name"] } == [refused["name"]])
      guard case .array(let routes)? = answer.json["routes"] else { return }
      #expect(
        routes.map {
          "\($0["provider"]?.string ?? "") \($0["target"]?.string ?? "") \($0["status"]?.string ?? "")"
        }
          == ["apns example.app ok", "fcm \(simulated.simulator.projectID) ok"])
      #expect(answer.json["pace"] == ["notifications": 60_000, "seconds": 60, "delay_seconds": 0])
      for token in ["c0ffee", "android-token", "decade", "old-token"] {
        #expect(!answer.text.contains(token))
      }
    }
  }

  private func devices(_ bouncer: Bouncer) -> [JSON] {
    [bouncer.apns(), bouncer.fcm(), bouncer.apns("decade")]
  }

  private func server(_ bouncer: Bouncer, _ devices: [JSON]) async throws -> (
    server: Credentials, realm: String
  ) {
    try await server(bouncer, "chat.example.org", devices)
  }

  @Test func `names what waits and the route that does not work`() async throws {
    try await Simulated.test(["delivery.deadline": "500ms"]) { simulated in
      let bouncer = simulated.bouncer
      let (server, realm) = try await server(bouncer, [bouncer.fcm()])
      var faults = Faults()
      faults.oauthStatus = 401
      await simulated.simulator.setFaults(faults)
      _ = try await bouncer.post(
        "push/e2ee/notify", json: PushItem.body(realm, [PushItem.fcm("android-token")]), as: server)
      let answer = try await status(bouncer, as: server)
      let registration = try #require(registrations(answer).first)
      #expect(registration["state"] == "waiting" && registration["waiting"] == 1)
      #expect(registration["waiting_since"]?.string?.hasSuffix("Z") == true)
      #expect(registration["waiting_for"]?["until"]?.string?.hasSuffix("Z") == true)
      guard case .array(let routes)? = answer.json["routes"], let route = routes.first else { return }
      #expect(route["status"] == "failing" || route["status"] == "open")
      #expect(route["reason"]?.string?.isEmpty == false && route["meaning"]?.string?.isEmpty == false)
      #expect(registration["waiting_for"]?["reason"] == route["reason"])
      #expect(registration["waiting_for"]?["meaning"] == route["meaning"])
      #expect(route["since"]?.string?.hasSuffix("Z") == true)
    }
  }

  @Test func `shows an ended registration with its reason`() async throws {
    try await Simulated.test { simulated in
      let bouncer = simulated.bouncer
      let (server, realm) = try await server(bouncer, [bouncer.fcm()])
      // A provider is believed once the registration is an hour old.
      bouncer.clock.advance(7200)
      simulated.simulator.setToken("android-token", TokenRule(status: 404, reason: "UNREGISTERED"))
      _ = try await bouncer.post(
        "push/e2ee/notify", json: PushItem.body(realm, [PushItem.fcm("android-token")]), as: server)
      let registration = try #require(registrations(try await status(bouncer, as: server)).first)
      #expect(registration["state"] == "ended" && registration["ended_at"]?.string?.hasSuffix("Z") == true)
      #expect(registration["last_failure"]?["reason"] == "UNREGISTERED")
      #expect(registration["advice"]?.string?.contains("has ended") == true)
    }
  }

  @Test func `says that no credential serves an app`() async throws {
    try await Bouncer.test { bouncer in
      let (server, _) = try await server(bouncer, [bouncer.apns(), bouncer.fcm()])
      guard case .array(let routes)? = try await status(bouncer, as: server).json["routes"] else { return }
      #expect(routes.map { $0["status"] } == ["unconfigured", "unconfigured"])
      #expect(routes.map { $0["target"] } == ["example.app", .null])
      #expect(routes.allSatisfy { $0["reason"] == "unconfigured" && $0["since"] == .null })
    }
  }

  @Test func `says that nothing was sent for want of a credential`() async throws {
    try await Bouncer.test { bouncer in
      let (server, realm) = try await server(bouncer, [bouncer.apns()])
      _ = try await bouncer.post(
        "push/e2ee/notify", json: PushItem.body(realm, [PushItem.apns("c0ffee")]), as: server)
      let registration = try #require(registrations(try await status(bouncer, as: server)).first)
      #expect(registration["state"] == "failing" && registration["last_failure"]?["reason"] == "unconfigured")
      #expect(
        registration["advice"]?.string?.hasPrefix("No credential of the bouncer serves this app") == true
      )
    }
  }

  @Test func `counts the registrations that were refused, each server's for itself`() async throws {
    try await Bouncer.test { bouncer in
      let (server, realm) = try await server(bouncer, [bouncer.fcm()])
      let (other, _) = try await self.server(bouncer, "other.example.org", [])
      var form = try bouncer.registerForm(realm: realm, bouncer.fcm("another"))
      let index = try #require(form.firstIndex { $0.0 == "bouncer_public_key" })
      form[index].1 = BouncerKeyPair().publicKeyBase64
      for _ in 0..<2 {
        #expect(
          try await bouncer.post("push/e2ee/register", form, as: server).code == "INVALID_BOUNCER_PUBLIC_KEY")
      }
      _ = try await bouncer.post("push/register", [("token", "x")], as: server)
      try await bouncer.parts.deliverer.history?.flush()
      func refused(_ server: Credentials) async throws -> [JSON] {
        let counts = try await status(bouncer, as: server).json["last_24_hours"]?["refused_registrations"]
        guard case .array(let all)? = counts else { return [.null] }
        return all
      }
      let all = try await refused(server)
      #expect(all.map { $0["code"] } == ["INVALID_BOUNCER_PUBLIC_KEY", "OTHER"])
      #expect(all.map { $0["count"] } == [2, 1])
      #expect(all[0]["meaning"]?.string?.contains("public key") == true)
      #expect(all[0]["latest_hour"]?.string?.hasSuffix("Z") == true)
      #expect(try await refused(other) == [])
      bouncer.clock.advance(25 * 3600)
      #expect(try await refused(server) == [])
    }
  }

  @Test func `shows what a provider says and is not believed yet, and that there is no pace`() async throws {
    try await Bouncer.test(["bouncer.notifications_per_server": "0"]) { bouncer in
      let (server, _) = try await server(bouncer, [bouncer.fcm()])
      _ = try await bouncer.database.execute(
        Statement(
          "UPDATE registrations SET dead_since = $1, dead_reason = 'UNREGISTERED'",
          .integer(bouncer.clock.now.milliseconds)))
      let answer = try await status(bouncer, as: server)
      let registration = try #require(registrations(answer).first)
      #expect(registration["state"] == "failing" && registration["ended_at"] == .null)
      #expect(registration["held_deletion"]?["reason"] == "UNREGISTERED")
      #expect(registration["held_deletion"]?["at"]?.string?.hasSuffix("Z") == true)
      // It is not said to end, nor is the operator's command named to a chat server.
      for advice in [registration["advice"], registration["held_deletion"]?["advice"]] {
        let text = try #require(advice?.string)
        #expect(text.contains("ends if the provider says the same of it again"), "\(text)")
        #expect(!text.contains("No action needed") && !text.contains("push-bouncer"), "\(text)")
      }
      #expect(registration["last_failure"] == .null && answer.json["pace"] == .null)
    }
  }

  @Test func `shows a server nothing of another`() async throws {
    try await Bouncer.test { bouncer in
      let (first, realm) = try await server(bouncer, [bouncer.apns(), bouncer.fcm()])
      let user = OldUser(id: 7)
      _ = try await bouncer.post("push/register", user.register("old-token", .fcm), as: first)
      let (second, _) = try await server(bouncer, "other.example.org", [bouncer.fcm()])
      let token = TokenID(token: "android-token").base64.replacing("=", with: "%3D").replacing(
        "+", with: "%2B")

      #expect(registrations(try await status(bouncer, as: first)).count == 3)
      #expect(registrations(try await status(bouncer, as: second)).count == 1)
      let mine = registrations(try await status(bouncer, "token_id=\(token)", as: first))
      let others = registrations(try await status(bouncer, "token_id=\(token)", as: second))
      #expect(mine.count == 1 && others.count == 1 && mine != others)
      #expect(registrations(try await status(bouncer, "realm_uuid=\(realm)", as: first)).count == 2)
      let stolen = try await status(bouncer, "realm_uuid=\(realm)", as: second)
      #expect(stolen.status == 403 || stolen.status == 400)
      // A user that was named in both ways is kept under the UUID.
      #expect(registrations(try await status(bouncer, "user_id=7", as: first)).isEmpty)
      _ = try await bouncer.database.execute(
        Statement(
          """
          UPDATE registrations SET failure = 'PayloadTooLarge', failed_at = $1, failed_by = COALESCE(server_id,
            (SELECT r.server_id FROM remote_realms r WHERE r.id = registrations.realm_id))
          """,
          .integer(bouncer.clock.now.milliseconds)))
      func refusals(_ server: Credentials) async throws -> Int {
        guard
          case .array(let all)? = try await status(bouncer, as: server).json["last_24_hours"]?[
            "latest_refusals"]
        else { return -1 }
        return all.count
      }
      #expect(try await refusals(first) == 3)
      #expect(try await refusals(second) == 1)
      bouncer.clock.advance(24 * 3600 + 1)
      #expect(try await refusals(first) == 0)
      for name in ["user_uuid=\(user.uuid)", "user_id=7&user_uuid=\(user.uuid)"] {
        #expect(registrations(try await status(bouncer, name, as: first)).count == 1, "\(name)")
        #expect(registrations(try await status(bouncer, name, as: second)).isEmpty, "\(name)")
      }
    }
  }

  /// The CPU time of a first page, and of one behind a mark.
  private func cost(_ bouncer: Bouncer, _ hostname: String, after mark: DeviceSearch.Mark?) async throws
    -> Double
  {
    let server = try #require(try await bouncer.servers.find(hostname: hostname))
    return try await processSeconds {
      for _ in 0..<50 {
        _ = try await bouncer.parts.status(of: server, .server(server.id), after: mark, limit: 10)
      }
    }
  }

  @Test(arguments: ["chat.example.org", "other.example.org"])
  func `reads as little when very many are refused to this server or another`(refused: String) async throws {
    try await Bouncer.test { bouncer in
      let (_, realm) = try await server(bouncer, "chat.example.org", [bouncer.fcm()])
      let (_, others) = try await server(bouncer, "other.example.org", [bouncer.fcm()])
      _ = try await cost(bouncer, "chat.example.org", after: nil)
      let before = try await cost(bouncer, "chat.example.org", after: nil)
      let rows = try await bouncer.database.execute(
        Statement(
          """
          WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
          INSERT INTO registrations (wire, realm_id, token_id, kind, token_hash, registered_at)
          SELECT 1, (SELECT id FROM remote_realms WHERE uuid = $1), i, 2, 0, $2 FROM n RETURNING id, registered_at
          """, .text(refused == "chat.example.org" ? realm : others),
          .integer(bouncer.clock.now.milliseconds)))
      try await bouncer.registrations.recordFailures(
        rows.map { .init(try RegistrationReference(.e2ee, $0), reason: "PayloadTooLarge") })
      let server = try #require(try await bouncer.servers.find(hostname: refused))
      let found = try await bouncer.parts.status(of: server, .server(server.id), after: nil, limit: 1)
      #expect(found.refusals.count == PushStatus.maximumRefusals)
      let uuid = try #require(UUID(uuidString: realm))
      let realmID = try #require(try await bouncer.parts.realms.find(uuid: uuid)).id
      for mark in [nil, DeviceSearch.Mark("1.\(realmID).29990")] {
        let after = try await cost(bouncer, "chat.example.org", after: mark)
        #expect(after < 3 * before + 0.1, "\(before) s became \(after) s")
      }
    }
  }

  @Test func `goes through all registrations in pages`() async throws {
    try await Bouncer.test { bouncer in
      // The old ones come first into the database and last into the pages.
      let (server, realm) = try await server(bouncer, [])
      for id in [7, 8] {
        _ = try await bouncer.post("push/register", OldUser(id: Int64(id)).register("old", .fcm), as: server)
      }
      // A realm is known of this one.
      _ = try await bouncer.post(
        "push/register", OldUser(id: 9).register("old", .fcm, realm: realm), as: server)
      for number in 0..<5 {
        _ = try await bouncer.post(
          "push/e2ee/register", bouncer.registerForm(realm: realm, bouncer.fcm("token-\(number)")), as: server
        )
      }
      var names: [String] = []
      var next = ""
      repeat {
        let answer = try await status(bouncer, "limit=2\(next.isEmpty ? "" : "&after=\(next)")", as: server)
        names += registrations(answer).compactMap { $0["name"]?.string }
        next = answer.json["next"]?.string ?? ""
      } while !next.isEmpty && names.count < 100
      #expect(names.count == 8 && Set(names).count == 8)
      #expect(
        names.map { $0.prefix { $0 != ":" } } == [
          "e2ee", "e2ee", "e2ee", "e2ee", "e2ee", "legacy", "legacy", "legacy",
        ])
    }
  }

  @Test(arguments: [
    ("realm_uuid=x", "MISSING_REMOTE_REALM"), ("token_id=x", "BAD_REQUEST"), ("user_uuid=x", "BAD_REQUEST"),
    ("user_id=x", "BAD_REQUEST"), ("limit=0", "BAD_REQUEST"), ("limit=101", "BAD_REQUEST"),
    ("after=1.2", "BAD_REQUEST"), ("after=1.2.x", "BAD_REQUEST"), ("after=1.2.3.4", "BAD_REQUEST"),
    ("user_id=7&token_id=AAAAAAAAAAA%3D", "BAD_REQUEST"),
  ])
  func `refuses what it does not understand`(query: String, code: String) async throws {
    try await Bouncer.test { bouncer in
      let (server, _) = try await server(bouncer, [])
      let answer = try await status(bouncer, query, as: server)
      #expect((400...403).contains(answer.status) && answer.code == code, "\(answer.text)")
    }
  }

  @Test func `is for the server alone and at most once a second`() async throws {
    try await Bouncer.test { bouncer in
      var (server, _) = try await server(bouncer, [])
      for _ in 0..<60 { #expect(try await status(bouncer, "limit=1", as: server).isSuccess) }
      #expect(try await status(bouncer, as: server).status == 429)
      bouncer.clock.advance(61)
      #expect(try await status(bouncer, as: server).isSuccess)
      server.key += "x"
      #expect(try await status(bouncer, as: server).status == 401)
      #expect(try await bouncer.call("push/status", .get).status == 401)
    }
  }
}
