import Basics
import Foundation
import HTTPClient
import HTTPTypes
import Registrations
import SQL
import Server
import TestService
import TestSupport
import Testing

/// The operator's page of a chat server.
@Suite struct ServerPageTests {
  @Test func `A realm that its server has deleted is not shown`() async throws {
    try await TestService.run { service in
      let store = service.service.store
      let (server, _) = try await store.servers.add(
        hostname: try Hostname("chat.example.org"), contactEmail: "a@example.org")
      try await store.database.write { connection in
        for (host, isDeleted) in [("kept.example", 0), ("gone.example", 1)] as [(String, Int64)] {
          _ = try connection.run(
            """
            INSERT INTO remote_realms (server_id, uuid, owner_secret_hash, host, name, is_system_bot_realm,
              authentication_methods, org_type, is_deactivated, is_locally_deleted, date_created)
            VALUES ($1, $2, $3, $2, $2, 0, '{}', 10, 0, $4, 0)
            """, .integer(server.id), .text(host), .bytes([1]), .integer(isDeleted))
        }
      }
      let page = try await service.callOperator(.get, "/admin/servers/\(server.id)").text
      #expect(page.contains("kept.example") && !page.contains("gone.example"))
    }
  }

  @Test func `A server's chart begins a week ago`() async throws {
    try await TestService.run { service in
      let store = service.service.store
      let (server, _) = try await store.servers.add(
        hostname: try Hostname("chat.example.org"), contactEmail: "a@example.org")
      let now = service.clock.now
      _ = try await store.database.execute(
        "INSERT INTO hourly_counts (event, hour, subject, detail, count) VALUES ('sent', $1, $2, '', 3)",
        .integer(Int64(now.timeIntervalSince1970 / 3600)), .text("\(server.id)"))
      let page = try await service.callOperator(.get, "/admin/servers/\(server.id)").text
      let day = (now - 167 * 3600).formatted(.iso8601.year().month().day())
      #expect(page.contains("<div class=\"axis\"><span>\(day)</span><span>now</span></div>"))
      #expect(page.contains("3 notifications in 7 days, 0 refused"))
      // The last of 168 bars.
      #expect(page.contains(#"x="994.0" y="0.0" width="4.8" height="100.0""#))
    }
  }
}
