import SQL
import TestDatabase
import Testing

@Suite("Closing")
struct ClosingTests {
  @Test(arguments: DatabaseEngine.available)
  func `a closed database answers every call, and closing twice is nothing`(engine: DatabaseEngine)
    async throws
  {
    try await withDatabase(engine) { database in
      await database.close()
      await database.close()
      #expect(try await databaseError { try await database.read { _ in } }?.code == .closed)
      #expect(try await databaseError { try await database.write { _ in } }?.code == .closed)
      let error = try await databaseError { try await database.execute(Statement("SELECT 1")) }
      #expect(error?.code == .closed)
      #expect(error?.isTransient == true)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `closing while busy finishes what has begun and refuses the rest`(engine: DatabaseEngine) async throws
  {
    let test = try await TestDatabase(engine, migrated: false)
    let database = test.database
    try await database.write { try $0.runScript("CREATE TABLE t (a BIGINT PRIMARY KEY)") }
    let kept = try await withThrowingTaskGroup(of: Int64?.self) { group in
      for number in 0..<Int64(500) {
        group.addTask {
          if number == 250 { await database.close() }
          let error = try await databaseError {
            let statement = Statement("INSERT INTO t VALUES ($1)", .integer(number))
            if number % 2 == 0 {
              _ = try await database.execute(statement)
            } else {
              _ = try await database.write { try $0.run(statement) }
            }
          }
          if let error { #expect(error.code == .closed) }
          return error == nil ? number : nil
        }
      }
      return try await group.reduce(into: Set<Int64>()) { kept, number in
        if let number { kept.insert(number) }
      }
    }
    #expect(kept.count < 500)
    let again = try await openDatabase(url: test.url)
    let rows = try await again.query(Statement("SELECT a FROM t"))
    #expect(try Set(rows.map { try $0.int64("a") }) == kept)
    await again.close()
  }

  @Test(arguments: DatabaseEngine.available)
  func `reads cannot write`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: "CREATE TABLE t (a BIGINT)") { database in
      let error = try await databaseError {
        try await database.read { try $0.run(Statement("INSERT INTO t VALUES (1)")) }
      }
      #expect(error?.code == .readOnly)
      #expect(try await database.integer("SELECT count(*) FROM t") == 0)
    }
  }
}
