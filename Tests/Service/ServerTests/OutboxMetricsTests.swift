import Foundation
import HTTPTypes
import SQL
import Server
import TestService
import TestSupport
import Testing

@Suite struct OutboxMetricsTests {
  @Test func `The age of what waits is told, and is nothing where a clock was ahead`() async throws {
    try await withTemporaryFolder { folder in
      let settings = [
        "database.url": "sqlite:\(folder.path)/test.sqlite", "keys.directory": "\(folder.path)/Keys",
      ]
      try await TestService.run(settings) { service in
        let now = Int64(service.clock.now.timeIntervalSince1970) * 1000
        try await service.service.store.database.write { connection in
          _ = try connection.run(
            "INSERT INTO outbox_routes (provider, credential, target) VALUES ('apns', 'a', 'b')")
          _ = try connection.run(
            """
            INSERT INTO outbox
              (route_id, wire, registration_id, registered_at, push, created_at, due_at, expires_at, attempts)
            VALUES (1, 1, 1, 0, $1, $2, $3, $4, 3)
            """, .bytes([1]), .integer(now - 100_000), .integer(now + 600_000), .integer(now + 900_000))
        }
      }
      // What an earlier run has left is counted as soon as the service works.
      try await TestService.run(settings, isWorking: true) { service in
        try await eventually("it is counted") {
          try await service.callOperator(.get, "/metrics").text.contains("push_bouncer_outbox_entries 1\n")
        }
        for (change, age) in [(0.0, "100"), (-200, "0")] {
          service.clock.advance(change)
          let text = try await service.callOperator(.get, "/metrics").text
          for name in ["age", "late"] {
            #expect(text.contains("push_bouncer_outbox_\(name)_seconds \(age)\n"), "\(name)")
          }
        }
      }
    }
  }
}
