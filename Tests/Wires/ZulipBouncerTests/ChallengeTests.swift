import Foundation
import HTTP
import HTTPTypes
import Hummingbird
import NIOCore
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import Basics
@testable import HTTPClient
@testable import ZulipBouncer

@Suite("A server that has lost its key")
struct ChallengeTests {
  private func transfer(_ hostname: String, _ bouncer: Bouncer) async throws -> String {
    let answer = try await bouncer.post("server/register/transfer", [("hostname", hostname)])
    return try #require(answer.json["verification_secret"]?.string)
  }

  private func verify(_ hostname: String, _ bouncer: Bouncer, token: String = "abc_DEF-123") async throws
    -> Answer
  {
    try await bouncer.post(
      "server/register/verify_challenge", [("hostname", hostname), ("access_token", token)])
  }

  private func register(_ hostname: String, _ server: Credentials, _ bouncer: Bouncer) async throws -> Answer
  {
    try await bouncer.post(
      "server/register",
      [
        ("zulip_org_id", server.id), ("zulip_org_key", server.key), ("hostname", hostname),
        ("contact_email", "admin@example.org"),
      ])
  }

  @Test
  func `is known; of new ones a network brings a hundred an hour where everybody may register`() async throws
  {
    try await Bouncer.test(["bouncer.registration": "open", "http.rate_limit.per_address": "0"]) { bouncer in
      func register(_ number: Int, from address: String) async throws -> Answer {
        let id = "00000000-0000-4000-8000-" + String(1_000_000_000_000 + number).suffix(12)
        let form: [(name: String, value: String)] = [
          ("zulip_org_id", id), ("zulip_org_key", String(repeating: "k", count: 64)),
          ("hostname", "chat\(number).example.org"), ("contact_email", "admin@example.org"),
        ]
        return try await bouncer.call(
          "server/register", type: "application/x-www-form-urlencoded", from: address, body: Form.encode(form)
        )
      }
      for number in 1...100 {
        #expect(try await register(number, from: "2001:db8:1:\(number)::1").isSuccess, "\(number)")
      }
      let refusal = try await register(101, from: "2001:db8:1:ffff::1")
      #expect(refusal.status == 429 && refusal.code == "RATE_LIMIT_HIT")
      // Who is there may come again, and so may others.
      #expect(try await register(1, from: "2001:db8:1:ffff::1").isSuccess)
      #expect(try await register(101, from: "192.0.2.1").isSuccess)
      bouncer.clock.advance(3601)
      #expect(try await register(102, from: "2001:db8:1:ffff::1").isSuccess)
    }
  }

  /// Settings with which hostnames are verified, and the host may come in.
  private func verifying(_ host: OthersHost) -> [String: String] {
    [
      "bouncer.verify_ca_file": host.caFile, "bouncer.verify_allow_private_addresses": "true",
      "bouncer.verify_hostnames": "true", "bouncer.allowed_hostnames": "\(host.name),*.example.org",
    ]
  }

  private func show(_ secret: String, at host: OthersHost) {
    host.reply(200, JSON.object(["result": "success", "verification_secret": .string(secret)]).text)
  }

  /// A bouncer that trusts the host and may call it.
  private func withHost(
    certified name: String? = "localhost", at address: [UInt8]? = nil,
    _ test: @escaping @Sendable (Bouncer, OthersHost) async throws -> Void
  ) async throws {
    try await OthersHost.run(certified: name, at: address) { host in
      try await Bouncer.test([
        "bouncer.verify_ca_file": host.caFile, "bouncer.verify_allow_private_addresses": "true",
        "operator.email": "operator@example.org",
      ]) { try await test($0, host) }
    }
  }

  @Test
  func `is not told that a secret has expired while the clock may be wrong, and none is good until then`()
    async throws
  {
    try await withHost { bouncer, host in
      _ = try await bouncer.server(host.name)
      show(try await transfer(host.name, bouncer), at: host)
      bouncer.clock.jump(25 * 3600)
      let answer = try await verify(host.name, bouncer)
      #expect(answer.status == 429 && answer.headers[.retryAfter] == "60")
      try await bouncer.test.trustClock()
      #expect(try await verify(host.name, bouncer).status == 400)
      // A secret of a clock that was a day ahead is not good for a day.
      show(try await transfer(host.name, bouncer), at: host)
      bouncer.clock.jump(-25 * 3600)
      try await bouncer.test.trustClock()
      #expect(try await verify(host.name, bouncer).status == 400)
    }
  }

  @Test
  func `is active again once it has proved its hostname`() async throws {
    try await withHost { bouncer, host in
      let own = try await bouncer.server(host.name)
      let hostname = try Hostname(host.name)
      let server = try #require(try await bouncer.servers.find(hostname: hostname))
      #expect(try await bouncer.post("server/deactivate", [], as: own).isSuccess)
      show(try await transfer(host.name, bouncer), at: host)
      #expect(try await verify(host.name, bouncer).status == 200)
      let known = try #require(try await bouncer.servers.find(hostname: hostname))
      #expect(known.id == server.id && !known.isDeactivated)
    }
  }

  @Test
  func `stays off where the operator has switched it off, whoever proves its hostname`() async throws {
    try await withHost { bouncer, host in
      _ = try await bouncer.server(host.name)
      let server = try #require(try await bouncer.servers.find(hostname: host.name))
      // What was asked for before is worth nothing afterwards.
      show(try await transfer(host.name, bouncer), at: host)
      try await bouncer.servers.setDeactivated(server.id, true)
      let before = try await bouncer.dump()
      let answers = [
        try await verify(host.name, bouncer),
        try await bouncer.post("server/register/transfer", [("hostname", host.name)]),
      ]
      for answer in answers {
        #expect(answer.status == 401 && answer.code == "REALM_DEACTIVATED", "\(answer.text)")
      }
      let new = Credentials(id: UUID().uuidString.lowercased(), key: String(repeating: "k", count: 64))
      #expect(try await register(host.name, new, bouncer).code == "HOSTNAME_ALREADY_IN_USE_BOUNCER_ERROR")
      #expect(host.seen.isEmpty)
      #expect(try await bouncer.dump() == before)
    }
  }

  @Test
  func `keeps its key where another has no more than a certificate of its address`() async throws {
    try await withHost(at: [127, 0, 0, 1]) { bouncer, host in
      _ = try await bouncer.server(host.name)
      let before = try await bouncer.dump()
      show(try await transfer(host.name, bouncer), at: host)
      let answer = try await verify(host.name, bouncer)
      #expect(answer.status == 400 && answer.message?.hasSuffix("host. (certificateNameMismatch)") == true)
      #expect(host.seen.isEmpty)
      #expect(try await bouncer.dump() == before)
    }
  }

  @Test(arguments: [("RSA+AESGCM", false), ("ECDHE+AESGCM", true)])
  func `is not believed without forward secrecy`(_ ciphers: String, isFine: Bool) async throws {
    try await OthersHost.run(ciphers: ciphers) { host in
      let verifier = HostVerifier(caFile: host.caFile, allowPrivateAddresses: true, timeout: .seconds(60))
      let (hostname, token) = (try Hostname(host.name), try AccessToken(parameter: "abc"))
      let refusal = await #expect(throws: APIError.self) {
        try await verifier.verificationSecret(at: hostname, accessToken: token)
      }
      #expect(refusal?.message.contains(isFine ? "404" : "SSL") == true)
      #expect(host.seen.count == (isFine ? 1 : 0))
    }
  }

  @Test
  func `is not waited for longer than the time there is, not even byte by byte`() async throws {
    try await OthersHost.run { host in
      let verifier = HostVerifier(
        caFile: host.caFile, allowPrivateAddresses: true, timeout: .milliseconds(300))
      let hostname = try Hostname(host.name)
      let token = try AccessToken(parameter: "abc")
      func expectTimeout() async {
        let refusal = await #expect(throws: APIError.self) {
          try await verifier.verificationSecret(at: hostname, accessToken: token)
        }
        #expect(refusal?.message == "The request timed out while communicating with the host.")
      }
      host.reply { _ in
        try await Task.sleep(for: .seconds(3))
        return Response(status: .ok)
      }
      await expectTimeout()
      host.reply { _ in
        Response(
          status: .ok,
          body: ResponseBody { writer in
            for _ in 0..<30 {
              try await writer.write(ByteBuffer(string: "x"))
              try await Task.sleep(for: .milliseconds(100))
            }
          })
      }
      await expectTimeout()
    }
  }

  @Test
  func
    `that is new comes in by a challenge where hostnames are verified, as a stock server's command does it`()
    async throws
  {
    try await OthersHost.run { host in
      try await Bouncer.test(verifying(host)) { bouncer in
        func register(_ hostname: String, _ id: String, _ key: String) async throws -> Answer {
          try await self.register(hostname, Credentials(id: id, key: key), bouncer)
        }
        let ownID = UUID().uuidString.lowercased()
        let ownKey = String(repeating: "k", count: 64)
        let refused = try await register(host.name, ownID, ownKey)
        #expect(refused.status == 403)
        #expect(refused.code == "HOSTNAME_NOT_VERIFIED")
        #expect(refused.message?.contains("\(host.name) is its own") == true)
        #expect(refused.message?.contains("manage.py register_server --registration-transfer") == true)
        #expect(try await register("chat.example.net", ownID, ownKey).code == "SERVER_REGISTRATION_CLOSED")
        // No secret for who may not come in, nothing for who does not show it.
        for name in ["chat.example.net", "localhost:1"] {
          #expect(
            try await bouncer.post("server/register/transfer", [("hostname", name)]).message
              == "\(name) not yet registered")
          #expect(try await verify(name, bouncer).message == "Registration not found for this hostname")
        }
        let secret = try await transfer(host.name, bouncer)
        show(try await transfer("chat.example.org", bouncer), at: host)
        #expect(
          try await verify(host.name, bouncer).message
            == "The verification secret is for a different hostname")
        #expect(try await bouncer.servers.all().isEmpty)

        show(secret, at: host)
        let answer = try await verify(host.name, bouncer)
        let id = try #require(answer.json["zulip_org_id"]?.string)
        let key = try #require(answer.json["zulip_org_key"]?.string)
        let registered = try await register(host.name, id, key)
        #expect(registered.json["created"] == false)
        let server = try #require(try await bouncer.servers.all().first?.server)
        #expect(server.hostname == host.name)
        #expect(server.contactEmail == "admin@example.org")
        let credentials = Credentials(id: id, key: key)
        #expect(
          try await bouncer.call("server/analytics/status", .get, authorization: credentials.header).isSuccess
        )
        // Nor does it get another's name by moving there.
        let moved = try await register("other.example.org", id, key)
        #expect(moved.code == "HOSTNAME_NOT_VERIFIED")
        #expect(moved.message?.contains("manage.py register_server --registration-transfer") == true)
        #expect(try await register("chat.example.net", id, key).code == "SERVER_REGISTRATION_CLOSED")
        #expect(try await bouncer.servers.all().map(\.server.hostname) == [host.name])
      }
    }
  }

  @Test
  func `has a secret that is good for ten seconds of a right clock, its hostname and this service`() throws {
    let (key, other) = (
      StorageKey(bytes: [UInt8](repeating: 1, count: 32)), StorageKey(bytes: [UInt8](repeating: 2, count: 32))
    )
    let (hostname, now) = (try Hostname("chat.example.org"), Date(timeIntervalSince1970: 1_790_000_000))
    func check(_ secret: String, after seconds: Double = 0, isClockTrusted: Bool = true) -> String? {
      do throws(APIError) {
        try VerificationSecret.check(
          secret, for: hostname, key, now: now + seconds, isClockTrusted: isClockTrusted)
        return nil
      } catch {
        return error.message.replacing("The verification secret ", with: "")
      }
    }
    let secret = VerificationSecret.make(for: hostname, key, now: now)
    for seconds in [-10.0, 0, 10] { #expect(check(secret, after: seconds) == nil) }
    for seconds in [-10.001, 10.001] { #expect(check(secret, after: seconds) == "has expired") }
    #expect(check(secret, after: 11, isClockTrusted: false) == "API usage exceeded rate limit")
    for text in ["nothex", secret.lowercased(), secret + "A"] { #expect(check(text) == "is malformed") }
    for text in ["", "ABCD", secret + "AB", VerificationSecret.make(for: hostname, other, now: now)] {
      #expect(check(text) == "is invalid")
    }
    let others = VerificationSecret.make(for: try Hostname("other.example.org"), key, now: now)
    #expect(check(others) == "is for a different hostname")
  }

  @Test(arguments: ["", "..", "a/b", "a?b", "a b", "a%2Fb", "ä", String(repeating: "a", count: 257)])
  func `is refused an access token that would not be a path`(token: String) {
    #expect(throws: APIError.self) { try AccessToken(parameter: token) }
  }
}
