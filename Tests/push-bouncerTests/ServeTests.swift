import Crypto
import Foundation
import HTTP
import Sealing
import TestSupport
import Testing

@testable import Demo

@Suite struct ServeTests {
  @Test func `Both listeners answer as the contract says`() async throws {
    try await Workplace.test { place in
      #expect(try await place.run("init").status == 0)
      try await place.serve { running in
        let root = try await running.call(path: "/")
        #expect(root.status == 404)
        #expect(root.type?.hasPrefix("text/plain") == true)
        #expect(root.text == "404 page not found")

        for path in ["/nothing", "/api/v1/remotes/nothing", "//nothing?a=b", "/metrics", "/healthz"] {
          let unknown = try await running.call(path: path)
          #expect(unknown.status == 404)
          #expect(unknown.type?.hasPrefix("application/json") == true)
          #expect(unknown.json == ["result": "error", "msg": "Not found", "code": "BAD_REQUEST"])
        }

        #expect(try await running.call("admin", path: "/healthz").json["status"]?.string == "ok")
        let ready = try await running.call("admin", path: "/readyz")
        #expect(ready.status == 200)
        #expect(ready.json["status"]?.string == "ready")
        let metrics = try await running.call("admin", path: "/metrics")
        #expect(metrics.status == 200)
        #expect(
          metrics.text.contains(
            #"push_bouncer_http_requests_total{method="GET",route="unmatched",status="404"} 5"#))
        #expect(metrics.text.contains("# TYPE push_bouncer_database_duration_seconds histogram"))
        #expect(metrics.text.contains("push_bouncer_key_problems 0"))
        #expect(metrics.text.contains("# TYPE push_bouncer_route_up gauge"))
        #expect(metrics.text.contains("push_bouncer_registrations{"))
      }
    }
  }

  @Test func `Every answer has an ID the callers if it is sane`() async throws {
    try await Workplace.test { place in
      try await place.serve { running in
        for path in ["/", "/nothing", "/api/v1/remotes/server/register"] {
          let own = try await running.call(path: path, headers: [("X-Request-Id", "caller-1")])
          #expect(own.requestID == "caller-1")
          let odd = try await running.call(path: path, headers: [("X-Request-Id", "a b\"c")])
          #expect(odd.requestID?.isEmpty == false)
          #expect(odd.requestID?.contains(" ") == false)
        }
        await eventually("log lines with the id") {
          running.lines.filter { $0["request_id"]?.string == "caller-1" && $0["route"] != nil }.count == 3
        }
      }
    }
  }

  @Test func `Without a bouncer key it runs and says it is not ready`() async throws {
    try await Workplace.test { place in
      try await place.serve { running in
        let ready = try await running.call("admin", path: "/readyz")
        #expect(ready.status == 503)
        #expect(ready.json["status"]?.string == "unavailable")
        #expect(try await running.call("admin", path: "/healthz").status == 200)
      }
    }
  }

  @Test func `A body that is too large is refused`() async throws {
    try await Workplace.test(begun: true) { place in
      let server = try await place.run("server", "add", "--hostname", "a.example.org", "--json").json
      let user = (server["org_id"]?.string ?? "", server["org_key"]?.string ?? "")
      try await place.serve("--http.max_body_bytes", "1000") { running in
        let path = "/api/v1/remotes/push/e2ee/notify"
        let json = [("Content-Type", "application/json")]
        let small = try await running.call(
          path: path, method: "POST", headers: json, user: user, body: [UInt8](repeating: 0x20, count: 1000))
        #expect(small.status == 400)
        let large = try await running.call(
          path: path, method: "POST", headers: json, user: user, body: [UInt8](repeating: 0x20, count: 1001))
        #expect(large.status == 413)
        #expect(large.json["result"]?.string == "error")
      }
    }
  }

  @Test(arguments: [SIGTERM, SIGINT]) func `A signal ends it well`(_ signal: Int32) async throws {
    try await Workplace.test { place in
      try await place.serve { running in
        running.send(signal)
        #expect(await running.status() == 0)
        #expect(running.lines.last?["message"]?.string == "stopped")
      }
      // Whoever comes next finds the database as it should be.
      #expect(try await place.run("server", "list").status == 0)
    }
  }

  @Test func `A hang up reads the keys again`() async throws {
    try await Workplace.test { place in
      try await place.serve { running in
        let key = try #require(try await place.run("keys", "generate", "--json").json["public_key"]?.string)
        running.send(SIGHUP)
        try await eventually("ready", within: .seconds(5)) {
          try await running.call("admin", path: "/readyz").status == 200
        }
        let server = try await place.run("server", "add", "--hostname", "chat.example.org", "--json").json
        try await running.register(VirtualPhone(.fcm, appID: nil), of: server, bouncerKey: key)
        #expect(running.process.isRunning)
      }
    }
  }

  @Test func `A broken key file degrades and is counted`() async throws {
    try await Workplace.test { place in
      #expect(try await place.run("init").status == 0)
      try await place.serve { running in
        try place.write("Keys/apns/main.json", "hunter2")
        running.send(SIGHUP)
        try await eventually("degraded") {
          try await running.call("admin", path: "/readyz").json["status"]?.string == "degraded"
        }
        #expect(
          try await running.call("admin", path: "/metrics").text.contains("push_bouncer_key_problems 1"))
        #expect(!running.logged.contains("hunter2"))
      }
    }
  }

  @Test func `Every route is a gauge`() async throws {
    try await Workplace.test { place in
      try place.write("Keys/apns/AuthKey_main.p8", P256.Signing.PrivateKey().pemRepresentation)
      try place.write(
        "Keys/apns/main.json",
        """
        {"key_file": "AuthKey_main.p8", "key_id": "ABCDE12345", "team_id": "TEAM123456", \
        "topics": ["org.example.chat"], "environment": "production"}
        """)
      try await place.serve { running in
        let metrics = try await running.call("admin", path: "/metrics").text
        #expect(
          metrics.contains(
            #"push_bouncer_route_up{provider="apns",credential="main",target="org.example.chat"} 1"#))
      }
    }
  }

  @Test func `A foreign storage key refuses the start`() async throws {
    try await Workplace.test(begun: true) { place in
      #expect(try await place.run("server", "add", "--hostname", "a.example.org").status == 0)
      let good = try place.text(of: "Keys/storage.key")
      try place.write("Keys/storage.key", String(decoding: StorageKeyFile.generate().utf8, as: UTF8.self))
      for arguments in [["serve", "--http.port", "0", "--admin.port", "0"], ["server", "list"]] {
        let result = try await place.run(arguments)
        #expect(result.status == 1)
        #expect(result.errors.contains("storage.key"))
        #expect(!result.errors.contains(good))
      }
      try place.write("Keys/storage.key", "hunter2")
      let broken = try await place.run("serve", "--http.port", "0", "--admin.port", "0")
      #expect(broken.status == 1)
      #expect(broken.errors.contains("storage.key"))
      #expect(!broken.errors.contains("hunter2"))
      try place.write("Keys/storage.key", good)
      #expect(try await place.run("server", "list").status == 0)
    }
  }

  @Test func `A port that is taken ends the start with one`() async throws {
    try await Workplace.test { place in
      try await place.serve { running in
        let port = try #require(running.port(of: "public"))
        let second = try await place.run(
          "serve", "--http.port", "\(port)", "--admin.port", "0", "--database.url", "sqlite:other.sqlite")
        #expect(second.status == 1)
      }
    }
  }

  @Test func `The metrics want the token`() async throws {
    try await Workplace.test { place in
      try await place.serve("--admin.token", "hunter2") { running in
        #expect(try await running.call("admin", path: "/metrics").status == 401)
        let shown = try await running.call(
          "admin", path: "/metrics", headers: [("Authorization", "Bearer hunter2")])
        #expect(shown.status == 200)
        #expect(!running.logged.contains("hunter2"))
      }
    }
  }

  @Test(arguments: [("backend.token", "hunter2"), ("admin.host", "0.0.0.0")])
  func `A weak token and an open door refuse the start`(key: String, value: String) async throws {
    try await Workplace.test { place in
      let result = try await place.run("serve", "--http.port", "0", "--admin.port", "0", "--\(key)", value)
      #expect(result.status == 1)
      #expect(result.errors.contains(key))
      #expect(!result.errors.contains("hunter2"))
    }
  }

  @Test func `An open door is fine where a long token guards it`() async throws {
    try await Workplace.test { place in
      try await place.serve("--admin.host", "0.0.0.0", "--admin.token", "0123456789abcdef") { running in
        #expect(running.port(of: "admin") != nil)
      }
    }
  }

  @Test(.enabled(if: FileManager.default.fileExists(atPath: "/proc/net/if_inet6"), "wants IPv6"))
  func `A proxy is trusted by its range on a listener for both families`() async throws {
    try await Workplace.test { place in
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
  }

  @Test func `Nothing secret is ever logged`() async throws {
    try await Workplace.test { place in
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
}
