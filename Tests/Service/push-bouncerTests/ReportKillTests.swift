import Foundation
import HTTP
import NIOHTTP1
import SQL
import TestDatabase
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// `Documentation/Decisions` 0032: a report is stored in parts, and whatever comes between them, the server goes on from where
  /// its rows end.
  @Suite struct ReportKillTests {
    private static let rows = 20_000

    @Test(arguments: DatabaseEngine.available)
    func `A kill within a report leaves the rows up to where it has come`(_ engine: DatabaseEngine)
      async throws
    {
      switch engine {
      case .sqlite:
        try await Stage.test { stage in
          try await Self.run(stage)
          let path = stage.place.folder.appending(path: "push-bouncer.sqlite").path
          try await Self.check(try await SQLiteDatabase.open(path: path))
        }
      case .postgreSQL:
        try await PostgreSQLServer.test { postgres in
          try await Stage.test(database: postgres.url) { try await Self.run($0) }
          try await Self.check(try await PostgreSQLDatabase.open(url: postgres.url))
        }
      }
    }

    private static func report(_ ids: ClosedRange<Int>, from server: ChatServer) async throws {
      let rows = ids.map {
        #"{"id":\#($0),"realm":1,"property":"messages_read::hour","subgroup":null,"end_time":1790000000,"value":5}"#
      }
      _ = try await server.bouncer.call(
        .POST, "server/analytics",
        .form([("realm_counts", "[" + rows.joined(separator: ",") + "]"), ("installation_counts", "[]")]))
    }

    private static func last(_ server: ChatServer) async throws -> Int {
      let status = try await server.bouncer.call(.GET, "server/analytics/status")
      return Int(try #require(status["last_realm_count_id"]?.integer))
    }

    private static func run(_ stage: Stage) async throws {
      var seen = 0
      try await stage.serve("--log.level", "notice") { running, server in
        await withTaskGroup(of: Void.self) { group in
          group.addTask {
            // It has no answer, or comes to its end before the kill.
            try? await report(1...rows, from: server)
          }
          while seen == 0, let last = try? await Self.last(server) { seen = last }
          await running.end(SIGKILL, status: SIGKILL)
        }
      }
      #expect((1..<rows).contains(seen), "\(seen)")
      try await stage.serve("--log.level", "notice") { running, server in
        let last = try await Self.last(server)
        #expect((seen..<rows).contains(last), "\(last) after \(seen)")
        // What is there already is no error, and counts once.
        try await report(last...rows, from: server)
        #expect(try await Self.last(server) == rows)
        await running.end()
      }
    }

    private static func check(_ database: any Database) async throws {
      let row = try await database.query(
        """
        SELECT COUNT(*), MAX(remote_id), (SELECT MAX(report_rows) FROM remote_servers)
          - (SELECT COUNT(*) FROM remote_realm_audit_log) FROM remote_realm_counts
        """
      )[0]
      #expect(row.values == Array(repeating: .integer(Int64(rows)), count: 3))
      await database.close()
    }
  }
}
