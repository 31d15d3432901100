import Foundation
import TestDatabase
import TestSupport
import Testing

@testable import SQL

@Suite("A server that lets nobody in any more", .needsPostgreSQL)
struct RefusedConnectionTests {
  private static let words: [(DatabaseError.Code, String)] = [
    (.loginRefused, #"FATAL:  password authentication failed for user "push""#),
    (.loginRefused, "fe_sendauth: no password supplied"),
    (.loginRefused, #"FATAL:  role "push" does not exist"#),
    (.loginRefused, #"FATAL:  role "push" is not permitted to log in"#),
    (
      .notAdmitted,
      #"FATAL:  no pg_hba.conf entry for host "::1", user "push", database "push", no encryption"#
    ),
    (.databaseMissing, #"FATAL:  database "push" does not exist"#),
    (.tooManyConnections, "FATAL:  sorry, too many clients already"),
    (.tooManyConnections, #"FATAL:  too many connections for role "push""#),
    (
      .tooManyConnections,
      "FATAL:  remaining connection slots are reserved for non-replication superuser connections"
    ),
    (.starting, "FATAL:  the database system is starting up"),
    (.starting, "FATAL:  the database system is shutting down"),
    (.starting, "FATAL:  the database system is not yet accepting connections"),
    (.tlsFailed, "SSL error: certificate verify failed"),
    (.tlsFailed, #"server certificate for "db" does not match host name "db.example.org""#),
    (.tlsFailed, "server does not support SSL, but SSL was required"),
    (.nameNotResolved, #"could not translate host name "db" to address: Name or service not known"#),
    (.readOnly, "session is read-only"),
    (.unreachable, "Connection refused; Is the server running on that host"),
    (.unreachable, "FATAL:  Passwort-Authentifizierung für Benutzer »push« fehlgeschlagen"),
    // Of several hosts.
    (.readOnly, "a: Connection refused; b: session is read-only"),
    (.loginRefused, #"a: Connection refused; b: FATAL:  password authentication failed for user "push""#),
  ]

  @Test func `is known by libpq's words`() {
    for (code, words) in Self.words {
      let error = DatabaseError(connecting: "connection to server failed: \(words)")
      #expect(error.code == code && error.message.hasSuffix(words) && error.isTransient, "\(words)")
    }
  }

  /// What an operator does to the server, what the calls then meet, and how it is undone.
  private static let changes: [(code: DatabaseError.Code, do: [String], undo: [String])] = [
    (.loginRefused, ["ALTER ROLE push PASSWORD 'other'"], ["ALTER ROLE push PASSWORD 'secret'"]),
    (.loginRefused, ["ALTER ROLE push NOLOGIN"], ["ALTER ROLE push LOGIN"]),
    (.tooManyConnections, ["ALTER ROLE push CONNECTION LIMIT 0"], ["ALTER ROLE push CONNECTION LIMIT -1"]),
    (.databaseMissing, ["ALTER DATABASE push RENAME TO gone"], ["ALTER DATABASE gone RENAME TO push"]),
  ]

  @Test func `is named by calls, and by what is known before they fail`() async throws {
    try await PostgreSQLServer.test { server in
      let admission = URL(filePath: server.folder).appending(path: "data/pg_hba.conf")
      let trusting = try String(contentsOf: admission, encoding: .utf8)
      func admit(_ lines: String) async throws {
        try Data((lines + "\n" + trusting).utf8).write(to: admission)
        try await server.run("SELECT pg_reload_conf()")
      }
      try await server.run("CREATE ROLE push LOGIN PASSWORD 'secret'")
      try await server.run("CREATE DATABASE push OWNER push")
      try await admit("local all push scram-sha-256")
      let database = try await PostgreSQLDatabase.open(
        url: "postgres://push:secret@/push?host=\(server.folder)")
      func expect(_ code: DatabaseError.Code) async throws {
        try await eventually("\(code)") {
          // Sessions go on after whatever was changed.
          try await server.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'push'")
          let error = try await databaseError {
            try await DatabaseWait.limit(eachCallTo: .milliseconds(300)) {
              try await database.query("SELECT 1")
            }
          }
          return error?.code == code && database.trouble?.error.code == code
        }
      }
      func expectWork() async throws {
        await eventually("an answer") { (try? await database.query("SELECT 1")) != nil }
        // What a write has met is over when something is written.
        try await database.execute("SELECT 1")
        #expect(database.trouble == nil)
      }
      for change in Self.changes {
        for sql in change.do {
          // A database in use cannot be renamed.
          try await eventually("\(sql)") {
            try await server.run(
              "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'push'")
            return try await databaseError { try await server.run(sql) } == nil
          }
        }
        try await expect(change.code)
        for sql in change.undo { try await server.run(sql) }
        try await expectWork()
      }
      try await admit("local all push reject")
      try await expect(.notAdmitted)
      try await admit("local all push scram-sha-256")
      try await expectWork()
      try server.shutDown()
      await eventually("no server") {
        _ = try? await DatabaseWait.limit(eachCallTo: .milliseconds(300)) {
          try await database.query("SELECT 1")
        }
        return database.trouble?.error.code == .unreachable
      }
      await database.close()
    }
  }
}
