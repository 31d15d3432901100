import Foundation
import TestDatabase
import TestSupport
import Testing

@testable import SQL

private let program = "/usr/sbin/pgbouncer"

@Suite(
  "A pooler before PostgreSQL", .needsPostgreSQL,
  .enabled(if: FileManager.default.fileExists(atPath: program), "pgbouncer is not installed"))
struct PoolerTests {
  /// Runs `body` with the URL of a database behind PgBouncer.
  private func withPooler(_ mode: String, _ body: (_ url: String) async throws -> Void) async throws {
    let test = try await TestDatabase(.postgreSQL, migrated: false)
    await test.database.close()
    let server = try PostgreSQLSettings.parse(try test.serverURL())
    try await withTemporaryFolder { folder in
      let file = folder.appending(path: "pgbouncer.ini").path
      let name = try #require(server["dbname"])
      try """
      [databases]
      \(name) = host=\(server["host"] ?? "127.0.0.1") port=\(server["port"] ?? "5432") user=\(server["user"] ?? "postgres") \
      dbname=\(name) \(server["password"].map { "password='\($0)'" } ?? "")
      [pgbouncer]
      pool_mode = \(mode)
      auth_type = any
      unix_socket_dir = \(folder.path)
      """.write(toFile: file, atomically: true, encoding: .utf8)
      let pooler = Process()
      pooler.executableURL = URL(fileURLWithPath: program)
      // It refuses to be root.
      pooler.arguments = (geteuid() == 0 ? ["-u", "postgres"] : []) + ["-q", file]
      if geteuid() == 0 {
        for path in [folder.path, file] { chmod(path, 0o777) }
      }
      try pooler.run()
      defer {
        // It inherits a mask that may hold back other signals.
        kill(pooler.processIdentifier, SIGKILL)
        pooler.waitUntilExit()
      }
      let url = "postgres:///\(name)?host=\(folder.path)&port=6432"
      let settings = try PostgreSQLSettings(url: url, statementTimeout: 0)
      // Its socket is there a moment before it listens.
      await eventually("the pooler listens") { (try? PostgreSQLHandle(settings)) != nil }
      try await body(url)
    }
  }

  private func open(_ url: String) async throws -> DatabaseError? {
    try await databaseError { try await PostgreSQLDatabase.open(url: url).close() }
  }

  @Test(arguments: ["transaction", "statement"])
  func `that pools less than sessions is found out at once`(mode: String) async throws {
    try await withPooler(mode) { url in
      for _ in 1...3 {
        let error = try await open(url)
        #expect(error?.code == .pooled)
      }
    }
  }

  @Test
  func `that pools sessions is none to anybody`() async throws {
    try await withPooler("session") { url in
      for _ in 1...3 {
        let error = try await open(url)
        #expect(error == nil)
      }
    }
  }

  @Test
  func `that changes sessions later is found out by the statements that are lost`() async throws {
    try await withPooler("transaction") { url in
      let settings = try PostgreSQLSettings(url: url, statementTimeout: 0)
      let (first, second) = (try PostgreSQLHandle(settings), try PostgreSQLHandle(settings))
      _ = try first.session()
      // The first one's session is taken by the second, so the first gets a new one.
      try second.runScript("BEGIN")
      let error = #expect(throws: DatabaseError.self) { try first.session() }
      #expect(error?.code == .pooled)
    }
  }
}
