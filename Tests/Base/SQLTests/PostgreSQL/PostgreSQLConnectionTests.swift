import Foundation
import TestDatabase
import Testing

@testable import SQL

@Suite("Connections to PostgreSQL")
struct PostgreSQLConnectionTests {
  @Test(
    .enabled(
      if: getenv("PGSSLMODE") == nil && getenv("PGHOST") == nil, "libpq's environment says what to do"),
    arguments: [
      ("postgres://db.example.org/push", "require" as String?),
      ("postgresql://u:p@10.0.0.1:5433/push", "require"),
      ("postgres://db.example.org/push?sslmode=verify-full", "verify-full"),
      ("postgres://db.example.org/push?sslmode=disable", "disable"),
      ("postgres://localhost/push", nil), ("postgres://127.0.0.1/push", nil), ("postgres://[::1]/push", nil),
      ("postgres://127.evil.example.org/push", "require"),
      ("postgres:///push?host=/run/postgresql", nil), ("postgres:///push?host=@push", nil),
      ("postgres://localhost,db.example.org/push", "require"),
      ("postgres://localhost/push?hostaddr=192.0.2.1", "require"),
    ])
  func `TLS is asked for wherever the network is not this machine's own, unless the URL says otherwise`(
    url: String, mode: String?
  ) throws {
    #expect(try PostgreSQLSettings(url: url, statementTimeout: 1).sslMode == mode)
  }

  @Test(arguments: [
    ("postgres://a:1,b:2,c:3/d", "b", "2", ["host": "a,c,b", "port": "1,3,2"]),
    ("postgres://a:1,a:2,a:3/d", "a", "2", ["host": "a,a,a", "port": "1,3,2"]),
    (
      "postgres://a,b,c/d?hostaddr=10.0.0.1,10.0.0.2,10.0.0.3", "10.0.0.1", "5432",
      ["host": "b,c,a", "hostaddr": "10.0.0.2,10.0.0.3,10.0.0.1"]
    ),
    ("postgres://a,b:2/d", "a", "5432", ["host": "b,a", "port": "2,"]),
    ("postgres://a:1,b:1/d", "c", "1", ["host": "a,b"]), ("postgres://a:1/d", "a", "1", ["host": "a"]),
  ])
  func `the server that another has replaced is tried last`(
    url: String, host: String, port: String, expected: [String: String]
  ) throws {
    let settings = try PostgreSQLSettings(url: url, statementTimeout: 1)
    let options = settings.last(.init(host: host, port: port, startedAt: "")).options
    #expect(options.filter { expected[$0.key] != nil } == expected)
  }

  @Test(arguments: ["postgres://u:secret@host/name?no_such_option=1", "postgres://u:sec%zzret@host/n"])
  func `a URL that libpq does not understand is refused without being repeated`(url: String) async throws {
    let error = try await databaseError { try await PostgreSQLDatabase.open(url: url) }
    #expect(error?.code == .invalidURL)
    #expect(error?.description.contains("sec") == false)
  }

  @Test(arguments: [
    ("postgres://u:hunter2@127.0.0.1:1/d", #"connection to server at "127.0.0.1", port 1 failed: "#),
    (
      "postgres://u:hunter2@nosuch.invalid/d", #"could not translate host name "nosuch.invalid" to address: "#
    ),
    ("postgres:///d?host=/nowhere", #"connection to server on socket "/nowhere/.s.PGSQL.5432" failed: "#),
  ])
  func `a server that cannot be used is told in libpq's words`(_ url: String, _ says: String) async throws {
    for openDatabase in [
      { _ = try await PostgreSQLDatabase.open(url: url) },
      { try await ForeignPostgreSQL.snapshot(of: DatabaseURL(url)) { _ in } },
    ] as [() async throws -> Void] {
      let error = try await databaseError(openDatabase)
      #expect(
        error?.code == (says.contains("host name") ? .nameNotResolved : .unreachable)
          && error?.message.hasPrefix(says) == true, "\(String(describing: error))")
      #expect(error?.message.contains("hunter2") == false)
    }
  }

  @Test(.needsPostgreSQL)
  func `a server that refuses is told in its own words`() async throws {
    let test = try await TestDatabase(.postgreSQL, migrated: false)
    let url = try test.serverURL().replacing(/\/[^\/?]*(\?|$)/, maxReplacements: 1) {
      "/no_such_database\($0.1)"
    }
    let error = try await databaseError { try await PostgreSQLDatabase.open(url: url) }
    #expect(error?.code == .databaseMissing)
    #expect(error?.message.contains("no_such_database") == true, "\(String(describing: error))")
  }

  @Test(.needsPostgreSQL)
  func `each connection is set up`() async throws {
    try await withPostgreSQL { database, test in
      try await database.write {
        try $0.runScript("ALTER DATABASE \(currentDatabase($0)) SET synchronous_commit = off")
      }
      let other = try await PostgreSQLDatabase.open(url: try test.serverURL())
      let names = ["statement_timeout", "client_min_messages", "application_name", "synchronous_commit"]
      let values = try await other.read { connection in
        try names.map { name in
          try connection.query(Statement("SELECT current_setting($1) AS value", .text(name)))[0].text("value")
        }
      }
      #expect(values == ["30s", "warning", "push-bouncer", "on"])
      await other.close()
    }
  }

  @Test(.needsPostgreSQL)
  func `statements that make room for others still work afterwards`() async throws {
    var options = PostgreSQLDatabase.Options()
    options.preparedStatements = 4
    options.connections = 1
    try await withPostgreSQL(options: options) { database, _ in
      for _ in 0..<2 {
        let values = try await database.read { connection in
          try (0..<Int64(10)).map {
            try connection.query(Statement("SELECT \($0) + $1", .integer(1))).integer
          }
        }
        #expect(values == Array(1...10))
      }
      // Those of this connection, this one included.
      #expect(try await database.integer("SELECT count(*) FROM pg_prepared_statements") <= 5)
    }
  }

  @Test(.needsPostgreSQL)
  func `one text serves values and NULL alike`() async throws {
    try await withPostgreSQL(script: "CREATE TABLE t (a BIGINT, b TEXT, c BYTEA)") { database, _ in
      let insert = "INSERT INTO t VALUES ($1, $2, $3)"
      _ = try await database.execute(Statement(insert, .null, .null, .null))
      _ = try await database.execute(Statement(insert, .integer(1), .text("b"), .bytes([3])))
      let rows = try await database.query(Statement("SELECT * FROM t ORDER BY a"))
      #expect(rows.map(\.values) == [[.integer(1), .text("b"), .bytes([3])], [.null, .null, .null]])
    }
  }

  @Test(.needsPostgreSQL)
  func `connections are opened when they are needed, and no more than there may be`() async throws {
    try await withPostgreSQL { database, _ in
      let count =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'push-bouncer'"
      // The template's connection to it, and that of a migration, are other databases'. One that has just
      // answered may not be free again when the next call comes.
      let few = try await database.integer(count)
      #expect(few <= 4)
      _ = await database.results(50) { _ in try await database.query(Statement("SELECT pg_sleep(0.05)")) }
      let many = try await database.integer(count)
      #expect(many > few)
      #expect(many <= 10)
    }
  }
}

private func currentDatabase(_ connection: any Connection) throws -> String {
  try connection.query(Statement("SELECT current_database() AS name"))[0].text("name")
}
