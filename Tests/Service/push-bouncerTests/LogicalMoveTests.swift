import Foundation
import HTTP
import TestDatabase
import TestSupport
import Testing

@testable import Demo

/// Tests a move to another PostgreSQL server by logical replication, which copies the rows and leaves the sequences as they
/// were (`Documentation/Operating.md`).
@Suite(.needsPostgreSQL) struct LogicalMoveTests {
  @Test func `After a move by logical replication everybody registers as before`() async throws {
    try await PostgreSQLServer.test("wal_level=logical") { old in
      try await PostgreSQLServer.test { new in
        try await Stage.test(database: old.url) { stage in
          var phones: [VirtualPhone] = []
          try await stage.serve { running, server in
            phones = try await stage.phones(3, at: server)
            #expect(succeeds("/bin/sh", "-c", "pg_dump --schema-only '\(old.url)' | psql -q '\(new.url)'"))
            try await old.run("CREATE PUBLICATION push_bouncer FOR ALL TABLES")
            try await new.run(
              """
              CREATE SUBSCRIPTION push_bouncer CONNECTION 'host=\(old.folder) user=postgres dbname=postgres'
              PUBLICATION push_bouncer
              """)
            try await new.untilRow(
              of: "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM pg_subscription_rel WHERE srsubstate <> 'r')")
            // The service goes on meanwhile: each table can be replicated.
            phones += try await stage.phones(3, at: server)
            await running.end()
          }
          try await old.untilRow(
            of:
              """
              SELECT 1 FROM pg_replication_slots
              WHERE slot_name = 'push_bouncer' AND confirmed_flush_lsn >= pg_current_wal_lsn()
              """)
          try await new.run("DROP SUBSCRIPTION push_bouncer")

          try await stage.serve("--database.url", new.url, "--bouncer.allowed_hostnames", "*.example.org") {
            running, server in
            let notice = try #require(running.lines.first { $0["tables"] != nil })
            #expect(notice["level"] == "notice")
            #expect(notice["message"]?.string?.hasPrefix("sequences of the database were behind") == true)
            #expect(notice["tables"]?.string?.contains("registrations, remote_") == true, "\(notice)")
            phones += try await stage.phones(2, at: server)
            try await Self.expectRegistration(of: "new.example.org", at: running)

            // Or while it runs, as behind an address that now leads to another server.
            for table in ["registrations", "remote_servers"] {
              try await new.run("SELECT setval('\(table)_id_seq', 1, false)")
            }
            phones += try await stage.phones(2, at: server)
            try await Self.expectRegistration(of: "newer.example.org", at: running)
            #expect(
              running.lines.compactMap { $0["tables"]?.string }.dropFirst() == [
                "registrations", "remote_servers",
              ])
            let promise = try await server.mark(phones)
            #expect(promise.sent == 10 && promise.deleted.isEmpty)
            await stage.expectArrival(of: Set(promise.marks))
          }
        }
      }
    }
  }

  private static func expectRegistration(of hostname: String, at running: Running) async throws {
    let form = [
      "zulip_org_id=\(UUID().uuidString.lowercased())", "zulip_org_key=\(String(repeating: "k", count: 64))",
      "hostname=\(hostname)", "contact_email=admin%40example.org",
    ]
    let answer = try await running.call(
      path: "/api/v1/remotes/server/register", method: "POST",
      headers: [("Content-Type", "application/x-www-form-urlencoded")],
      body: Array(form.joined(separator: "&").utf8))
    #expect(answer.status == 200 && answer.json["created"] == true, "\(answer.text)")
  }
}
