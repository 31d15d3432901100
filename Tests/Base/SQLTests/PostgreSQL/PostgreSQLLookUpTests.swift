import TestDatabase
import TestSupport
import Testing

@testable import SQL

@Suite("Lookups on PostgreSQL", .needsPostgreSQL)
struct PostgreSQLLookUpTests {
  private static let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

  @Test
  func `those that waited share a snapshot, and one that fails fails alone`() async throws {
    try await withPostgreSQL { database, _ in
      try await behindLock(database) { open in
        let results = await database.results(20) { index in
          try await database.lookUp(
            "SELECT CAST(now() AS TEXT) AS text, 1 / $1 AS one", .integer(index == 7 ? 0 : 1))
        } meanwhile: {
          while database.lookups.waitingCount < 20 { await Task.yield() }
          open()
        }
        let begun = try results.enumerated().filter { $0.offset != 7 }.map {
          try $0.element.get()[0].text("text")
        }
        #expect(results[7].databaseCode == .other)
        // Each connection takes half of what waits.
        #expect(Set(begun).count < 10)
      }
    }
  }

  @Test
  func `those whose connection breaks are read again`() async throws {
    try await withPostgreSQL { database, test in
      try await behindLock(database) { open in
        let results = try await database.results(20) { index in
          try await database.lookUp("SELECT CAST($1 AS BIGINT) AS number", .integer(Int64(index)))[0].int64(
            "number")
        } meanwhile: {
          while database.lookups.waitingCount < 20 { await Task.yield() }
          _ = try? await database.integer(
            """
            SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
            """)
          open()
        }.map { try $0.get() }
        #expect(results == Array(0..<20))
      }
    }
  }

  @Test
  func `with many keys go another way, which others need not wait for`() async throws {
    try await withPostgreSQL(script: "CREATE TABLE t (a BIGINT PRIMARY KEY)") { database, _ in
      try await behindLock(database) { open in
        let keys = (0..<100).map { Value.integer($0) }
        let rows = try await database.lookUp("SELECT a FROM t WHERE a IN ($list)", list: keys)
        #expect(rows.isEmpty)
        open()
      }
    }
  }

  @Test
  func `leave out what was given up`() async throws {
    try await withPostgreSQL { database, _ in
      try await behindLock(database) { open in
        let all = PostgreSQLDatabase.Options().lookupConnections
        let results = await DatabaseWait.limit(eachCallTo: .milliseconds(50)) {
          await database.results(all) { _ in try await database.lookUp("SELECT pg_sleep(3600)") }
        }
        #expect(results.allSatisfy { $0.databaseCode == .connectionLost })
        open()
      }
      // At once, because nothing sleeps on either connection.
      let ones = try await database.results(4) { _ in try await database.lookUp("SELECT 1") }.map {
        try $0.get()
      }
      #expect(ones.count == 4)
    }
  }

  /// Runs `body` while all connections for lookups wait for a lock, until `body` opens it.
  private func behindLock(
    _ database: PostgreSQLDatabase, _ body: (_ open: @escaping @Sendable () -> Void) async throws -> Void
  ) async throws {
    try await database.behindGate(after: { _ = try $0.query("SELECT pg_advisory_xact_lock(1)") }) { open in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<PostgreSQLDatabase.Options().lookupConnections {
          group.addTask { _ = try await database.lookUp("SELECT pg_advisory_xact_lock_shared(1)") }
        }
        let all = Int64(PostgreSQLDatabase.Options().lookupConnections)
        while try await database.integer(Self.waiting) < all {}
        try await body(open)
        try await group.waitForAll()
      }
    }
  }
}
