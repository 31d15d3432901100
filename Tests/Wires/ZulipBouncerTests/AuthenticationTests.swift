import Basics
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
  private var bouncer: Bouncer { Fixture.current }

  private static let endpoints: [(String, HTTPRequest.Method)] = [
    ("server/deactivate", .post), ("server/analytics/status", .get), ("server/analytics", .post),
    ("server/billing", .post), ("push/e2ee/register", .post), ("push/e2ee/notify", .post),
  ]

  @Test(.bouncer())
  func `with wrong keys are held up, and neither those with the right one nor a server that repeats its own`()
    async throws
  {
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

  @Test(.bouncer())
  func `are noted, though not those that were refused`() async throws {
    let server = try await bouncer.server()
    _ = try await bouncer.call("server/analytics/status", .get, authorization: server.header + "x")
    try await bouncer.requestTimes.flush()
    #expect(try await bouncer.servers.all()[0].server.lastRequestAt == nil)
    _ = try await bouncer.call("server/analytics/status", .get, authorization: server.header)
    try await bouncer.requestTimes.flush()
    #expect(try await bouncer.servers.all()[0].server.lastRequestAt == bouncer.clock.now)
  }

  @Test(.bouncer(["bouncer.rate_limit.per_server": "1/60s"]))
  func `count against a server's limit only when it has proved to be the caller`() async throws {
    let server = try await bouncer.server()
    func status(_ server: Credentials) async throws -> Int {
      try await bouncer.call("server/analytics/status", .get, authorization: server.header).status
    }
    for _ in 0..<5 { _ = try await status(Credentials(id: server.id, key: "wrong")) }
    #expect(try await [status(server), status(server)] == [200, 429])
  }

  @Test(.bouncer())
  func `to a database that is closing may be made again`() async throws {
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

  @Test
  func `to register a device are limited per server, far away`() async throws {
    try await Bouncer.test(adjust: { $0.rateLimitOfRegistrations = RateLimit(calls: 1, seconds: 60) }) {
      bouncer in
      let server = try await bouncer.server()
      #expect(try await bouncer.post("push/e2ee/register", [], as: server).status == 400)
      let limited = try await bouncer.post("push/e2ee/register", [], as: server)
      #expect(limited.status == 429 && limited.code == "RATE_LIMIT_HIT")
      #expect(limited.headers[.retryAfter] == "60.0")
    }
  }

  @Test(.bouncer())
  func `to a database that is broken fail, registrations in passing only`() async throws {
    let server = try await bouncer.server()
    try await bouncer.database.write { try $0.runScript("ALTER TABLE remote_servers RENAME TO elsewhere") }
    let status = try await bouncer.call("server/analytics/status", .get, authorization: server.header)
    #expect(status.status == 500)
    #expect(status.message == "Internal server error")
    #expect(try await bouncer.post("push/e2ee/register", [], as: server).status == 429)
  }
}
