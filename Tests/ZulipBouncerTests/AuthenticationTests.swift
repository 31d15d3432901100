import Foundation
import HTTP
import HTTPTypes
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing
import ZulipBouncer

@Suite("Calls of a server")
struct AuthenticationTests {
  private static let endpoints: [(String, HTTPRequest.Method)] = [
    ("server/deactivate", .post), ("server/analytics/status", .get), ("server/analytics", .post),
    ("server/billing", .post), ("push/e2ee/register", .post), ("push/e2ee/notify", .post),
  ]

  @Test(arguments: endpoints)
  func `without good credentials are told what is wrong with them`(
    endpoint: String, method: HTTPRequest.Method
  ) async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let off = try await bouncer.server("off.example.org")
      let offID = try #require(try await bouncer.servers.find(hostname: "off.example.org")?.id)
      try await bouncer.servers.setDeactivated(offID, true)
      let before = try await bouncer.dump()
      let stranger = UUID().uuidString
      func basic(_ text: String) -> String { "Basic " + Base64.encode(text.utf8) }
      func unknown(_ role: String) -> String {
        "Zulip server auth failure: \(role) is not registered -- did you run `manage.py register_server`?"
      }
      let invalid = "Invalid authorization header for basic auth"
      let notBasic = "This endpoint requires HTTP basic authentication."
      let deactivated =
        "The mobile push notification service registration for your server has been deactivated"
      let table: [(header: String?, status: Int, code: String, message: String)] = [
        (nil, 401, "UNAUTHORIZED", "Missing authorization header for basic auth"),
        ("Bearer abc", 400, "BAD_REQUEST", notBasic),
        ("Digest a b c", 400, "BAD_REQUEST", notBasic),
        ("Basic", 401, "UNAUTHORIZED", invalid),
        ("Basic a b", 401, "UNAUTHORIZED", invalid),
        ("Basic !!!", 401, "UNAUTHORIZED", invalid),
        ("Basic " + Base64.encode([0xff, 0x3a, 0xff]), 401, "UNAUTHORIZED", invalid),
        (basic("nocolon"), 401, "UNAUTHORIZED", invalid),
        (basic("a:b:c"), 401, "UNAUTHORIZED", invalid),
        (basic("me@example.org:key"), 400, "BAD_REQUEST", "Must validate with valid Zulip server API key"),
        (basic("nobody:key"), 401, "UNAUTHORIZED", unknown("nobody")),
        (basic(":key"), 401, "UNAUTHORIZED", unknown("")),
        (basic("\(stranger):\(server.key)"), 401, "UNAUTHORIZED", unknown(stranger)),
        (
          basic("\(server.id):wrong"), 401, "UNAUTHORIZED",
          "Zulip server auth failure: key does not match role \(server.id)"
        ),
        (
          basic("\(server.id.uppercased()):wrong"), 401, "UNAUTHORIZED",
          "Zulip server auth failure: key does not match role \(server.id.uppercased())"
        ),
        (
          basic("\(off.id):wrong"), 401, "UNAUTHORIZED",
          "Zulip server auth failure: key does not match role \(off.id)"
        ),
        (off.header, 401, "UNAUTHORIZED", deactivated),
      ]
      for row in table {
        let answer = try await bouncer.call(endpoint, method, authorization: row.header)
        #expect(answer.status == row.status, "\(row)")
        #expect(answer.message == row.message, "\(row)")
        #expect(answer.code == row.code, "\(row)")
        #expect(
          (answer.headers[.wwwAuthenticate] == #"Basic realm="zulip""#) == (row.status == 401), "\(row)")
      }
      try await bouncer.requestTimes.flush()
      #expect(try await bouncer.dump() == before)
    }
  }

  @Test
  func `with wrong keys are held up, and neither those with the right one nor a server that repeats its own`()
    async throws
  {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      func call(_ key: String, from address: String) async throws -> Answer {
        try await bouncer.call(
          "server/analytics/status", .get,
          authorization: "Basic " + Base64.encode("\(server.id):\(key)".utf8),
          from: address)
      }
      for number in 0...20 { #expect(try await call("\(number)", from: "192.0.2.1").status == 401) }
      for key in ["21", server.key] {
        let answer = try await call(key, from: "192.0.2.1")
        #expect(answer.status == 429 && answer.code == "RATE_LIMIT_HIT")
        #expect(answer.headers[.retryAfter] == "2.0")
      }
      // Nobody locks a server out, from however many addresses.
      for number in 0..<120 { _ = try await call("x", from: "198.51.100.\(number)") }
      #expect(try await call(server.key, from: "192.0.2.2").status == 200)
      for _ in 0..<50 { #expect(try await call("rotated", from: "192.0.2.3").status == 401) }
      #expect(try await call(server.key, from: "192.0.2.3").status == 200)
      bouncer.clock.advance(2)
      #expect(try await call(server.key, from: "192.0.2.1").status == 200)
    }
  }

  @Test
  func `may spell their id as Python reads it`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      let bare = server.id.replacing("-", with: "")
      for id in [server.id.uppercased(), bare, "{\(server.id)}", bare.uppercased()] {
        let answer = try await bouncer.call(
          "server/analytics/status", .get, authorization: Credentials(id: id, key: server.key).header)
        #expect(answer.isSuccess, "\(id)")
      }
      let lower = "basic " + server.header.dropFirst(6)
      #expect(try await bouncer.call("server/analytics/status", .get, authorization: lower).isSuccess)
    }
  }

  @Test(arguments: endpoints)
  func `with another method are told so before anything else`(endpoint: String, method: HTTPRequest.Method)
    async throws
  {
    try await Bouncer.test { bouncer in
      for other in [HTTPRequest.Method.get, .post, .put, .patch, .delete] where other != method {
        let answer = try await bouncer.call(endpoint, other)
        #expect(answer.status == 405)
        #expect(answer.headers[.allow] == method.rawValue)
        #expect(
          answer.text
            == #"{"result":"error","msg":"Method Not Allowed","allowed_methods":["\#(method.rawValue)"]}"#)
      }
      let options = try await bouncer.call(endpoint, .options)
      #expect(options.status == 204)
      #expect(options.headers[.allow] == method.rawValue)
    }
  }

  @Test
  func `are noted, though not those that were refused`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      _ = try await bouncer.call("server/analytics/status", .get, authorization: server.header + "x")
      try await bouncer.requestTimes.flush()
      #expect(try await bouncer.servers.all()[0].server.lastRequestAt == nil)
      _ = try await bouncer.call("server/analytics/status", .get, authorization: server.header)
      try await bouncer.requestTimes.flush()
      #expect(try await bouncer.servers.all()[0].server.lastRequestAt == bouncer.clock.now)
    }
  }

  @Test
  func `are limited per server, after authentication, but for notifications and registrations of devices`()
    async throws
  {
    try await Bouncer.test(["bouncer.rate_limit.per_server": "2/60s"]) { bouncer in
      let server = try await bouncer.server()
      let other = try await bouncer.server("other.example.org")
      func status(_ server: Credentials) async throws -> Answer {
        try await bouncer.call("server/analytics/status", .get, authorization: server.header)
      }
      for _ in 0..<5 { _ = try await status(Credentials(id: server.id, key: "wrong")) }
      let first = try await status(server)
      #expect(first.isSuccess)
      #expect(first.headers[HTTPField.Name("X-RateLimit-Remaining")!] == "1")  // a valid token
      #expect(try await status(server).isSuccess)
      bouncer.clock.advance(10)
      let limited = try await status(server)
      #expect(limited.status == 429)
      #expect(limited.code == "RATE_LIMIT_HIT")
      #expect(limited.message == "API usage exceeded rate limit")
      #expect(limited.json["retry-after"] == .number("50.0"))
      #expect(limited.headers[.retryAfter] == "50.0")
      // What would be lost for good by that is not counted, nor refused.
      for endpoint in ["push/e2ee/register", "push/e2ee/notify", "push/notify"] {
        #expect(try await bouncer.post(endpoint, [], as: server).status == 400, "\(endpoint)")
      }
      #expect(try await status(other).isSuccess)
      bouncer.clock.advance(51)
      #expect(try await status(server).isSuccess)
    }
  }

  @Test
  func `to a database that is closing may be made again`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      await bouncer.database.close()
      for (endpoint, method) in Self.endpoints {
        let answer = try await bouncer.call(endpoint, method, authorization: server.header)
        let isRegistration = endpoint == "push/e2ee/register"
        #expect(answer.status == (isRegistration ? 429 : 503), "\(endpoint)")
        #expect(answer.headers[.retryAfter] == "5")
        if isRegistration { #expect(answer.json["retry-after"] == 5 && answer.code == "RATE_LIMIT_HIT") }
        #expect(answer.json["result"]?.string == "error")
      }
    }
  }

  @Test
  func `to register a device are limited per server, far away`() async throws {
    let configured = ZulipBouncerRoutes.Configuration(publicURL: { "" })
    #expect(configured.rateLimitOfRegistrations == RateLimit(calls: 60_000, seconds: 60))
    try await Bouncer.test(adjust: { $0.rateLimitOfRegistrations = RateLimit(calls: 1, seconds: 60) }) {
      bouncer in
      let server = try await bouncer.server()
      #expect(try await bouncer.post("push/e2ee/register", [], as: server).status == 400)
      let limited = try await bouncer.post("push/e2ee/register", [], as: server)
      #expect(limited.status == 429 && limited.code == "RATE_LIMIT_HIT")
      #expect(limited.headers[.retryAfter] == "60.0")
    }
  }

  @Test
  func `to a database that is broken fail, registrations in passing only`() async throws {
    try await Bouncer.test { bouncer in
      let server = try await bouncer.server()
      try await bouncer.database.write { try $0.runScript("ALTER TABLE remote_servers RENAME TO elsewhere") }
      let status = try await bouncer.call("server/analytics/status", .get, authorization: server.header)
      #expect(status.status == 500)
      #expect(status.message == "Internal server error")
      #expect(try await bouncer.post("push/e2ee/register", [], as: server).status == 429)
    }
  }
}

@Suite("Calls without credentials")
struct OpenCallTests {
  @Test
  func `are limited per address`() async throws {
    try await Bouncer.test(["http.rate_limit.per_address": "3/60s"]) { bouncer in
      for endpoint in ["server/register", "server/register/transfer", "server/register/verify_challenge"] {
        #expect(try await bouncer.post(endpoint, []).status == 400)
      }
      for endpoint in ["server/register", "server/register/transfer", "server/register/verify_challenge"] {
        let answer = try await bouncer.post(endpoint, [])
        #expect(answer.status == 429)
        #expect(answer.code == "RATE_LIMIT_HIT")
      }
      let server = try await bouncer.server()
      #expect(try await bouncer.call("server/analytics/status", .get, authorization: server.header).isSuccess)
    }
  }
}
