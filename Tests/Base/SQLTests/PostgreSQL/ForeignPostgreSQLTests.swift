import TestDatabase
import Testing

@testable import SQL

@Suite(.needsPostgreSQL) struct ForeignPostgreSQLTests {
  private static let script = """
    CREATE TABLE numbers (id INTEGER PRIMARY KEY, at TIMESTAMPTZ);
    INSERT INTO numbers SELECT n, '2024-05-06 07:08:09.5+02' FROM generate_series(1, 2500) n
    """

  @Test func `A cursor gives all rows of one moment, in batches`() async throws {
    try await withPostgreSQL(script: Self.script) { database, test in
      try await ForeignPostgreSQL.snapshot(of: test.url) { snapshot in
        let cursor = try await snapshot.cursor(
          Statement("SELECT id, at::text FROM numbers WHERE id > $1 ORDER BY id", .integer(100)), batch: 1000)
        var rows = try await cursor.next()
        #expect(rows.count == 1000)
        #expect(rows.first?.values == [.integer(101), .text("2024-05-06 05:08:09.5+00")])
        _ = try await database.execute(Statement("DELETE FROM numbers"))
        while true {
          let more = try await cursor.next()
          if more.isEmpty { break }
          rows += more
        }
        #expect(rows.count == 2400 && rows.last?.values.first == .integer(2500))
        let count = try await snapshot.query(Statement("SELECT COUNT(*) FROM numbers"))
        #expect(count.map(\.values) == [[.integer(2500)]])
      }
    }
  }

  @Test func `Nothing can be written`() async throws {
    try await withPostgreSQL(script: Self.script) { _, test in
      let error = await #expect(throws: DatabaseError.self) {
        try await ForeignPostgreSQL.snapshot(of: test.url) { snapshot in
          _ = try await snapshot.query(Statement("DELETE FROM numbers"))
        }
      }
      #expect(error?.code == .readOnly)
    }
  }

  @Test func `A snapshot of another engine's database is an error`() async throws {
    let error = await #expect(throws: DatabaseError.self) {
      try await ForeignPostgreSQL.snapshot(of: try DatabaseURL("sqlite:x.sqlite")) { _ in }
    }
    #expect(error?.code == .invalidURL)
  }
}
