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
  func `gets a new one by showing a secret at its hostname, and the old one is dead at once`() async throws {
    try await withHost { bouncer, host in
      let old = try await bouncer.server(host.name)
      let secret = try await transfer(host.name, bouncer)
      #expect(secret.allSatisfy { "0123456789ABCDEF".contains($0) })
      show(secret, at: host)
      bouncer.clock.advance(10)
      let answer = try await verify(host.name.uppercased(), bouncer)
      #expect(answer.isSuccess)
      #expect(host.seen.map(\.path) == ["/api/v1/zulip-services/verify/abc_DEF-123/"])
      #expect(answer.json["zulip_org_id"]?.string == old.id)
      let key = try #require(answer.json["zulip_org_key"]?.string)
      #expect(key.count == 64)
      #expect(
        try await bouncer.call("server/analytics/status", .get, authorization: old.header).status == 401)
      let new = Credentials(id: old.id, key: key)
      #expect(try await bouncer.call("server/analytics/status", .get, authorization: new.header).isSuccess)
    }
  }

  @Test
  func `keeps its key where another has no more than a certificate of its address`() async throws {
    try await withHost(at: [127, 0, 0, 1]) { bouncer, host in
      _ = try await bouncer.server(host.name)
      let before = try await bouncer.dump()
      show(try await transfer(host.name, bouncer), at: host)
      let answer = try await verify(host.name, bouncer)
      #expect(answer.status == 400 && answer.message?.contains("SSL") == true)
      #expect(host.seen.isEmpty)
      #expect(try await bouncer.dump() == before)
    }
  }

  @Test
  func `is told by transfer what is wrong with its hostname`() async throws {
    try await Bouncer.test { bouncer in
      for (form, message) in [
        ([], "Missing 'hostname' argument"),
        ([("hostname", "a.org/b")], "a.org/b contains invalid components (e.g., path, query, fragment)."),
        ([("hostname", "dotless")], "dotless is not a valid hostname"),
        ([("hostname", "new.example.org")], "new.example.org not yet registered"),
      ] {
        let answer = try await bouncer.post("server/register/transfer", form)
        #expect(answer.status == 400)
        #expect(answer.message == message)
      }
    }
  }

  @Test
  func `keeps its key when the host does not show the right secret`() async throws {
    try await withHost { bouncer, host in
      _ = try await bouncer.server(host.name)
      _ = try await bouncer.server("other.example.org")
      let before = try await bouncer.dump()
      let secret = try await transfer(host.name, bouncer)
      let others = try await transfer("other.example.org", bouncer)
      let forged = VerificationSecrets(
        storageKey: StorageKey(bytes: [UInt8](repeating: 1, count: 32)),
        now: { [clock = bouncer.clock] in clock.now }
      ).make(for: try Hostname(host.name))
      for (shown, message) in [
        ("nothex", "The verification secret is malformed"),
        (secret.lowercased(), "The verification secret is malformed"),
        (secret + "A", "The verification secret is malformed"), ("", "The verification secret is invalid"),
        ("ABCD", "The verification secret is invalid"), (forged, "The verification secret is invalid"),
        (secret + "AB", "The verification secret is invalid"),
        (others, "The verification secret is for a different hostname"),
      ] {
        show(shown, at: host)
        let answer = try await verify(host.name, bouncer)
        #expect(answer.status == 400)
        #expect(answer.message == message)
      }
      show(secret, at: host)
      bouncer.clock.advance(10.001)
      #expect(try await verify(host.name, bouncer).message == "The verification secret has expired")
      #expect(try await bouncer.dump() == before)
    }
  }

  @Test
  func `keeps its key when the host says something else`() async throws {
    try await withHost { bouncer, host in
      _ = try await bouncer.server(host.name)
      let before = try await bouncer.dump()
      let notPrepared =
        #"{"result":"error","msg":"Verification secret not prepared","code":"REMOTE_SERVER_VERIFICATION_SECRET_NOT_PREPARED"}"#
      let other = "An error occurred while communicating with the host."
      let table: [(HTTPResponse.Status, String, String)] = [
        (.badRequest, notPrepared, "The host reported it has no verification secret."),
        (.badRequest, "{}", "Error response received from the host: 400"),
        (.notFound, notPrepared, "Error response received from the host: 404"),
        (.internalServerError, "<html>", "Error response received from the host: 500"),
        (.ok, "<html>", other), (.ok, #"{"verification_secret":5}"#, other),
        (.ok, String(repeating: "x", count: 16 * 1024 + 1), other),
      ]
      for (status, body, message) in table {
        host.reply(status.code, body)
        let answer = try await verify(host.name, bouncer)
        #expect(answer.status == 400)
        #expect(answer.message == message)
      }
      let calls = host.seen.count
      let here = "https://\(host.name)/elsewhere"
      host.reply { _ in Response(status: .found, headers: [.location: here]) }
      #expect(
        try await verify(host.name, bouncer).message == "Error response received from the host: 302")
      #expect(host.seen.count == calls + 1)
      #expect(try await bouncer.dump() == before)
    }
  }

  @Test
  func `keeps its key when its host cannot be reached or trusted`() async throws {
    try await withHost { bouncer, host in
      let connection = "Connection error occurred while communicating with the host."
      // A free port, a moment ago.
      for hostname in ["localhost:1", "no-such-name.invalid"] {
        _ = try await bouncer.server(hostname)
        #expect(try await verify(hostname, bouncer).message == connection)
      }
      // The certificate is for another name.
      let address = "127.0.0.1:" + (host.name.split(separator: ":").last ?? "")
      _ = try await bouncer.server(address)
      #expect(
        try await verify(address, bouncer).message == "SSL error occurred while communicating with the host.")
      #expect(host.seen.isEmpty)
    }
  }

  @Test
  func `is not called at a private address, unless that is allowed`() async throws {
    try await OthersHost.run { host in
      try await Bouncer.test(["bouncer.verify_ca_file": host.caFile]) { bouncer in
        _ = try await bouncer.server(host.name)
        let answer = try await verify(host.name, bouncer)
        #expect(answer.message == "Connection error occurred while communicating with the host.")
        #expect(host.seen.isEmpty)
      }
    }
  }

  @Test
  func `is not trusted for a certificate that nobody vouches for`() async throws {
    try await OthersHost.run { host in
      try await Bouncer.test(["bouncer.verify_allow_private_addresses": "true"]) { bouncer in
        _ = try await bouncer.server(host.name)
        let answer = try await verify(host.name, bouncer)
        #expect(answer.message == "SSL error occurred while communicating with the host.")
      }
    }
  }

  @Test(arguments: [("RSA+AESGCM", false), ("ECDHE+AESGCM", true)])
  func `is not believed without forward secrecy`(_ ciphers: String, isFine: Bool) async throws {
    try await OthersHost.run(ciphers: ciphers) { host in
      let verifier = HostVerifier(caFile: host.caFile, allowPrivateAddresses: true, timeout: .seconds(60))
      let (hostname, token) = (try Hostname(host.name), try AccessToken(parameter: "abc"))
      await #expect(throws: isFine ? HostVerifier.Failure.status(404) : .tls) {
        try await verifier.verificationSecret(at: hostname, accessToken: token)
      }
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
      host.reply { _ in
        try await Task.sleep(for: .seconds(3))
        return Response(status: .ok)
      }
      await #expect(throws: HostVerifier.Failure.timeout) {
        try await verifier.verificationSecret(at: hostname, accessToken: token)
      }
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
      await #expect(throws: HostVerifier.Failure.timeout) {
        try await verifier.verificationSecret(at: hostname, accessToken: token)
      }
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
  func `that has another hostname now keeps realms and devices, as a stock server's command moves it`()
    async throws
  {
    try await OthersHost.run { host in
      try await Bouncer.test(verifying(host)) { bouncer in
        let old = try await bouncer.server("old.example.org")
        let (realm, user) = (try await bouncer.realm(of: old), OldUser(id: 10))
        for (endpoint, form) in [
          ("push/e2ee/register", try bouncer.registerForm(realm: realm, bouncer.apns())),
          ("push/register", user.register("fcm-a", .fcm, realm: realm)),
          ("push/register", user.register("fcm-b", .fcm, named: .id)),
        ] {
          #expect(try await bouncer.post(endpoint, form, as: old).isSuccess)
        }
        func notify(as server: Credentials) async throws -> (encrypted: Answer, legacy: Answer) {
          let item: JSON = [
            "token_id": .string(TokenID(token: "c0ffee").base64),
            "http_headers": ["apns_priority": 10, "apns_push_type": "alert"],
            "payload": ["push_key_id": 1, "encrypted_data": "x"],
          ]
          return try await (
            bouncer.post(
              "push/e2ee/notify", json: ["realm_uuid": .string(realm), "push_requests": [item]], as: server),
            bouncer.post("push/notify", json: user.notification("x", realm: realm), as: server)
          )
        }
        #expect(try await register(host.name, old, bouncer).code == "HOSTNAME_NOT_VERIFIED")

        show(try await transfer(host.name, bouncer), at: host)
        let given = try await verify(host.name, bouncer)
        let new = Credentials(
          id: try #require(given.json["zulip_org_id"]?.string),
          key: try #require(given.json["zulip_org_key"]?.string))
        #expect(try await register(host.name, new, bouncer).json["created"] == false)
        #expect(
          try await bouncer.call("server/analytics/status", .get, authorization: new.header).isSuccess)
        let upload = bouncer.analytics([bouncer.realmJSON(realm)])
        #expect(try await bouncer.post("server/analytics", upload, as: new).isSuccess)

        let (encrypted, legacy) = try await notify(as: new)
        #expect(encrypted.json["delete_token_ids"] == [])
        #expect(legacy.json["total_android_devices"] == 2)
        // What has not been started anew yet hears what to do.
        let late = try await notify(as: old)
        for answer in [late.encrypted, late.legacy] {
          #expect(answer.status == 403 && answer.code == "REMOTE_REALM_SERVER_MISMATCH_ERROR")
          #expect(answer.message?.hasSuffix(Bouncer.gettingBack(realm)) == true)
        }
      }
    }
  }

  @Test
  func `is refused what would not be a path, and a hostname that is not there`() async throws {
    try await Bouncer.test { bouncer in
      _ = try await bouncer.server("chat.example.org")
      for token in ["", "..", "a/b", "a?b", "a b", "a%2Fb", "ä", String(repeating: "a", count: 257)] {
        #expect(
          try await verify("chat.example.org", bouncer, token: token).message
            == "access_token has invalid format")
      }
      for hostname in ["new.example.org", "new.example.org/x", ""] {
        #expect(try await verify(hostname, bouncer).message == "Registration not found for this hostname")
      }
      #expect(
        try await bouncer.post("server/register/verify_challenge", [("hostname", "a.org")]).message
          == "Missing 'access_token' argument")
    }
  }

  @Test
  func `may try thirty times an hour, whoever else tries`() async throws {
    try await Bouncer.test(["http.rate_limit.per_address": "0"]) { bouncer in
      // Their calls fail at once: nothing here may be called.
      for name in ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"] {
        _ = try await bouncer.server(name)
      }
      // A hostname that nobody has costs nobody anything.
      for _ in 0..<200 { #expect(try await verify("new.example.org", bouncer).status == 400) }
      for _ in 0..<30 { #expect(try await verify("127.0.0.2", bouncer).status == 400) }
      #expect(try await verify("127.0.0.2", bouncer).status == 429)
      #expect(try await verify("127.0.0.3", bouncer).status == 400)
      // All have a brake, which holds for a minute.
      for name in ["127.0.0.4", "127.0.0.5", "127.0.0.6"] {
        for _ in 0..<30 { _ = try await verify(name, bouncer) }
      }
      let answer = try await verify("127.0.0.3", bouncer)
      #expect(answer.status == 429)
      #expect(answer.code == "RATE_LIMIT_HIT")
      #expect(
        answer.message == """
          The global limits on recent usage of this endpoint have been reached. Please try again later or reach out \
          to the operator of this service for assistance.
          """)
      bouncer.clock.advance(60)
      #expect(try await verify("127.0.0.3", bouncer).status == 400)
      #expect(try await verify("127.0.0.2", bouncer).status == 429)
      bouncer.clock.advance(3600)
      #expect(try await verify("127.0.0.2", bouncer).status == 400)
    }
  }
}
