import SQL
import TestDatabase
import Testing

@Suite("Locks")
struct LockTests {
  @Test(arguments: DatabaseEngine.available)
  func `programs that pick work at once each pick other rows`(engine: DatabaseEngine) async throws {
    let script = "CREATE TABLE jobs (id BIGINT PRIMARY KEY, due_at BIGINT NOT NULL)"
    let test = try await TestDatabase(engine, migrated: false)
    try await test.database.write { connection in
      try connection.runScript(script)
      for id in 0..<Int64(200) {
        try connection.run(Statement("INSERT INTO jobs VALUES ($1, 0)", .integer(id)))
      }
    }
    let other = try await openDatabase(url: test.url)
    let pick = Statement(
      """
      UPDATE jobs SET due_at = 1 WHERE id IN (
        SELECT id FROM jobs WHERE due_at <= 0 ORDER BY due_at LIMIT $1 $skip_locked) RETURNING id
      """, .integer(7))
    let picked = try await withThrowingTaskGroup(of: [Int64].self) { group in
      for (index, database) in [test.database, other, test.database, other].enumerated() {
        group.addTask {
          var picked: [Int64] = []
          while true {
            let rows =
              index < 2 ? try await database.execute(pick) : try await database.write { try $0.query(pick) }
            if rows.isEmpty { return picked }
            picked += try rows.map { try $0.int64("id") }
          }
        }
      }
      return try await group.reduce(into: []) { $0 += $1 }
    }
    // Each once: none twice, and none left over.
    #expect(picked.sorted() == Array(0..<200))
    await other.close()
    await test.database.close()
  }
}
