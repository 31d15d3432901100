import TestDatabase
import TestSupport
import Testing

@testable import SQL

@Suite(
  "Groups of several nodes", .enabled(if: DatabaseEngine.available.contains(.postgreSQL), "no PostgreSQL"))
struct LockOrderTests {
  /// Each node's group would lock its first row, and then wait for the other's.
  @Test
  func `lock the rows that they share in one order`() async throws {
    let rows = (1...9).map { "(\($0), 0)" }.joined(separator: ", ")
    let script = "CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT NOT NULL); INSERT INTO t VALUES \(rows)"
    let (test, sessions) = try await withPostgreSQL(script: script) { first, test in
      let second = try await PostgreSQLDatabase.open(url: try test.serverURL())
      return try await second.closing(after: "") {
        try await meet(first, second, on: test.database)
        let session = Statement("SELECT CAST(pg_backend_pid() AS BIGINT) AS pid")
        let rows = try await first.execute(session) + second.execute(session)
        return (test, try rows.map { try $0.value("pid") })
      }
    }
    try await eventually("both have gone, and their statistics are there") {
      try await test.database.query(
        Statement("SELECT 1 FROM pg_stat_activity WHERE pid IN ($list)", list: sessions)
      ).isEmpty
    }
    let deadlocks = try await test.database.query(
      Statement("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"))
    #expect(try deadlocks.integer == 0)
    // Each was written, by both.
    let written = try await test.database.query(Statement("SELECT b FROM t ORDER BY a"))
    #expect(try written.map { try $0.int64("b") } == [2, 2, 0, 0, 2, 0, 0, 1, 1])
  }

  private func meet(
    _ first: PostgreSQLDatabase, _ second: PostgreSQLDatabase, on third: any Database
  ) async throws {
    func lock(_ rows: Int64...) -> @Sendable (any Connection) throws -> Void {
      { connection in
        for row in rows {
          _ = try connection.query(Statement("SELECT b FROM t WHERE a = $1 FOR UPDATE", .integer(row)))
        }
      }
    }
    try await withThrowingTaskGroup { group in
      try await third.behindGate(after: lock(5)) { letThrough in
        // Behind a row of its own each node gathers a group.
        try await third.behindGate(after: lock(8, 9)) { begin in
          for (database, rows) in [(first, [8, 1, 5, 2]), (second, [9, 2, 5, 1])] as [(_, [Int64])] {
            for (index, row) in rows.enumerated() {
              group.addTask {
                _ = try await database.execute(
                  Statement("UPDATE t SET b = b + 1 WHERE a = $1", .integer(row)))
              }
              while database.writes.runningCount == 0 || database.writes.waitingCount < index {
                await Task.yield()
              }
            }
          }
          begin()
        }
        try await eventually("both wait within their groups") {
          guard first.writes.runningCount == 3, second.writes.runningCount == 3 else { return false }
          return try await third.query(
            Statement(
              """
              SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
              """)
          ).count == 2
        }
        letThrough()
      }
      try await group.waitForAll()
    }
  }
}
