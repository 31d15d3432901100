import Crypto
import Foundation
import HTTP
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo

@Suite struct ServeTests {
  private var place: Workplace { Fixture.current }

  @Test(.place(begun: true)) func `The operator sees routes, key files and requests, with the token`()
    async throws
  {
    try place.write("Keys/apns/AuthKey_main.p8", P256.Signing.PrivateKey().pemRepresentation)
    try place.write(
      "Keys/apns/main.json",
      """
      {"key_file": "AuthKey_main.p8", "key_id": "ABCDE12345", "team_id": "TEAM123456", \
      "topics": ["org.example.chat"], "environment": "production"}
      """)
    try await place.serve("--admin.token", "hunter2") { running in
      func metrics() async throws -> String {
        try await running.call(
          "admin", path: "/metrics", headers: [("Authorization", "Bearer hunter2")]
        ).text
      }
      #expect(try await running.call("admin", path: "/metrics").status == 401)
      #expect(try await running.call("admin", path: "/healthz").json["status"] == "ok")
      #expect(try await running.call("admin", path: "/readyz").json["status"] == "ready")
      for path in ["/nothing", "/metrics", "/healthz"] {
        let unknown = try await running.call(path: path, headers: [("X-Request-Id", "caller-1")])
        #expect(unknown.status == 404)
      }
      await eventually("log lines with the id") {
        running.lines.filter { $0["request_id"] == "caller-1" && $0["route"] != nil }.count == 3
      }
      for line in [
        #"push_bouncer_http_requests_total{method="GET",path="unmatched",status="404"} 3"#,
        #"push_bouncer_route_up{provider="apns",credential="main",target="org.example.chat"} 1"#,
        "# TYPE push_bouncer_database_duration_seconds histogram", "push_bouncer_key_problems 0",
        "push_bouncer_registrations{",
      ] { try await eventually("\(line)") { try await metrics().contains(line) } }

      try place.write("Keys/apns/main.json", "hunter2")
      running.send(SIGHUP)
      try await eventually("degraded") {
        try await running.call("admin", path: "/readyz").json["status"] == "degraded"
      }
      #expect(try await metrics().contains("push_bouncer_key_problems 1"))
      #expect(!running.logged.contains("hunter2"))
    }
  }

  @Test(.place(), arguments: [SIGTERM, SIGINT]) func `A signal ends it well`(_ signal: Int32) async throws {
    try await place.serve { running in
      running.send(signal)
      #expect(await running.status() == 0)
      #expect(running.lines.last?["message"]?.string == "stopped")
    }
    // Whoever comes next finds the database as it should be.
    #expect(try await place.run("server", "list").status == 0)
  }

  @Test(.place()) func `A hang up reads the keys again`() async throws {
    try await place.serve { running in
      let key = try #require(try await place.run("keys", "generate", "--json").json["public_key"]?.string)
      running.send(SIGHUP)
      try await eventually("ready") {
        try await running.call("admin", path: "/readyz").status == 200
      }
      let server = try await place.run("server", "add", "--hostname", "chat.example.org", "--json").json
      try await running.register(VirtualPhone(.fcm, appID: nil), of: server, bouncerKey: key)
      #expect(running.process.isRunning)
    }
  }

  @Test(.place(), .enabled(if: FileManager.default.fileExists(atPath: "/proc/net/if_inet6"), "wants IPv6"))
  func `A proxy is trusted by its range on a listener for both families`() async throws {
    try await place.serve(
      "--http.host", "::", "--http.trusted_proxies", "127.0.0.0/8", "--http.rate_limit.per_address", "2/1h"
    ) { running throws in
      func call(from address: String) async throws -> Int {
        try await running.call(
          "public", path: "/api/v1/remotes/server/register/transfer", method: "POST",
          headers: [("X-Forwarded-For", address)]
        ).status
      }
      for address in ["2001:db8::1", "192.0.2.1", "::ffff:192.0.2.2"] {
        for _ in 0..<2 { #expect(try await call(from: address) == 400) }
      }
      for address in ["2001:db8::2", "::ffff:192.0.2.1", "192.0.2.2"] {
        #expect(try await call(from: address) == 429)
      }
    }
  }

  @Test(.place()) func `Nothing secret is ever logged`() async throws {
    let key = try #require(try await place.run("init", "--json").json["public_key"]?.string)
    let server = try await place.run("server", "add", "--hostname", "chat.example.org", "--json").json
    let orgKey = try #require(server["org_key"]?.string)
    let id = try #require(server["org_id"]?.string)
    let phone = VirtualPhone(.fcm, appID: nil)
    try await place.serve(
      "--log.level", "trace", "--admin.token", "admin-hunter2", "--backend.token",
      "backend-hunter2-hunter2",
      "--providers.proxy", "http://me:proxy-hunter2@127.0.0.1:9"
    ) { running in
      try await running.register(phone, of: server, bouncerKey: key)
      for path in [
        "/api/v1/remotes/push/e2ee/notify", "/api/v1/remotes/server/analytics", "/other-hunter2",
      ] {
        for user in [(id, orgKey), (id, "wrong-hunter2")] {
          _ = try await running.call(
            path: "\(path)?query-hunter2=1", method: "POST", headers: [("X-Odd", "header-hunter2")],
            user: user,
            body: Array(#"{"payload": "body-hunter2"}"#.utf8))
        }
      }
      _ = try await running.call(
        "admin", path: "/metrics", headers: [("Authorization", "Bearer admin-hunter2")])
      _ = try await running.call(
        "admin", path: "/metrics", headers: [("Authorization", "Bearer wrong-hunter2")])
      await running.end()
      let logged = running.logged
      #expect(logged.contains(#""message":"request""#))
      for secret in [
        orgKey, phone.token, "hunter2", "kept-by-the-server", Base64.encode("\(id):\(orgKey)".utf8),
      ] {
        #expect(!logged.contains(secret), "\(logged.split(separator: "\n").filter { $0.contains(secret) })")
      }
      #expect(logged.split(separator: "\n").allSatisfy { (try? JSON.parse(String($0))) != nil })
    }
  }
}
