import AsyncHTTPClient
import Foundation
import HTTP
import NIOCore
import NIOHTTP1
import Providers
import Sealing
import TestDatabase
import TestSupport
import Testing

@testable import Demo

/// Tests a PostgreSQL server that accepts connections but does not answer, as behind a broken network or on a
/// stuck disk, or that is away for a moment.
@Suite(.needsPostgreSQL) struct FrozenDatabaseTests {
  @Test func `Everybody is answered and the service goes on`() async throws {
    try await PostgreSQLServer.test { cluster in
      try await Stage.test(database: cluster.url) { stage in
        try await stage.serve(
          "--backend.token", "0123456789abcdef0123456789abcdef", "--nextcloud.enabled", "true"
        ) { running, server in
          let phone = try await stage.phones(1, at: server)
          try cluster.freeze()
          let start = ContinuousClock.now
          var settings = HTTPClient.Configuration()
          settings.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 200
          typealias Answer = (path: String, status: Int)
          let answers = try await HTTPClient.withHTTPClient(configuration: settings) { client in
            try await withThrowingTaskGroup(of: Answer.self) { group in
              for index in 0..<200 {
                let call = Self.calls[index % Self.calls.count]
                var request = HTTPClientRequest(url: running.url("public") + call.path)
                request.method = .init(rawValue: call.method)
                for (name, value) in call.headers { request.headers.add(name: name, value: value) }
                if let body = call.body { request.body = .bytes(ByteBuffer(string: body)) }
                group.addTask { [request] in
                  (
                    call.path,
                    Int(try await client.execute(request, timeout: TimeAmount(longestWait)).status.code)
                  )
                }
              }
              // They are told what they always are.
              for _ in 0..<3 {
                #expect(try await running.call("admin", path: "/healthz").status == 200)
                let ready = try await running.call("admin", path: "/readyz")
                #expect(ready.status == 503)
                #expect(ready.json["checks"]?["database"]?["reason"]?.string != nil)
                let metrics = try await running.call("admin", path: "/metrics")
                #expect(metrics.status == 200)
                #expect(metrics.text.contains("push_bouncer_outbox_entries"))
                #expect(!metrics.text.contains("push_bouncer_outbox_age_seconds"))
              }
              return try await group.reduce(into: [Answer]()) { $0.append($1) }
            }
          }
          for answer in answers { #expect([401, 403, 429, 503].contains(answer.status), "\(answer)") }
          print("answered in \(ContinuousClock.now - start)")
          try cluster.thaw()
          await eventually("a service that is ready") {
            (try? await running.call("admin", path: "/readyz").status) == 200
          }
          let promise = try await server.mark(phone)
          await stage.expectArrival(of: Set(promise.marks))
          #expect(
            try await running.call("admin", path: "/metrics").text.contains("push_bouncer_outbox_age_seconds")
          )
        }
      }
    }
  }

  @Test func `What is sent while it is restarted waits for it, at every wire`() async throws {
    try await PostgreSQLServer.test { cluster in
      try await Stage.test(database: cluster.url) { stage in
        try await stage.serve("--nextcloud.enabled", "true") { running, server in
          let phone = try await stage.phones(1, at: server)
          let endpoint = try await server.subscribe(Stage.phone(.fcm))
          try cluster.shutDown()
          async let promise = server.mark(phone)
          async let message = server.post(to: endpoint)
          async let answer = running.call(
            path: "/notifications", method: "POST", headers: [("Content-Type", "application/json")],
            body: Self.unknownDevice)
          try cluster.start()
          await stage.expectArrival(of: Set(try await promise.marks))
          _ = try await message
          let told = try await answer
          #expect(told.status == 200, "\(told.text)")
        }
      }
    }
  }

  /// A notification for a device that the push proxy does not know.
  private static let unknownDevice: [UInt8] = {
    func text(_ count: Int) -> JSON { .string(Base64.encode([UInt8](repeating: 7, count: count))) }
    let entry: JSON = [
      "deviceIdentifier": text(64), "pushTokenHash": .string(String(repeating: "07", count: 64)),
      "subject": text(256), "signature": text(256), "priority": "normal", "type": "alert",
    ]
    let body: JSON = ["notifications": [.string(entry.text)]]
    return body.bytes
  }()

  /// Calls of every part of the service that ask the database before anything else.
  private static let calls: [(method: String, path: String, headers: [(String, String)], body: String?)] = {
    let basic = (
      "Authorization", "Basic " + Base64.encode(Array("a@example.org:0123456789abcdef0123456789abcdef".utf8))
    )
    let organization = (
      "Authorization",
      "Basic "
        + Base64.encode(Array("\(UUID().uuidString.lowercased()):\(String(repeating: "k", count: 64))".utf8))
    )
    let backend = ("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
    let form = ("Content-Type", "application/x-www-form-urlencoded")
    return [
      ("POST", "/api/v1/remotes/push/e2ee/notify", [organization], #"{"realm_uuid":"x","push_requests":[]}"#),
      ("POST", "/api/v1/remotes/server/analytics", [organization, form], "realms=[]"),
      ("GET", "/api/v1/remotes/server/analytics/status", [organization], nil),
      ("POST", "/api/v1/mobile_push/register", [basic, form], "device_id=1"),
      ("GET", "/api/v1/events", [basic], nil),
      ("GET", "/ocs/v2.php/cloud/user?format=json", [basic, ("OCS-APIRequest", "true")], nil),
      (
        "PUT", "/backend/v1/realms/\(UUID().uuidString.lowercased())", [backend],
        #"{"name":"n","url":"https://x.example"}"#
      ),
    ]
  }()
}
