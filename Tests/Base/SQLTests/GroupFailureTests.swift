import SQL
import TestDatabase
import Testing

@Suite("Failures of a whole group")
struct GroupFailureTests {
  private static let schema = "CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)"
  private static let large = Value.bytes(Array(repeating: 0x5A, count: 1 << 20))

  /// Leaves the database room for a few pages more, or for any number.
  private func limit(_ database: SQLiteDatabase, toFewMore few: Bool) async throws {
    try await database.write { connection in
      let count = try connection.query(Statement("PRAGMA page_count")).integer
      _ = try connection.query(Statement("PRAGMA max_page_count = \(few ? count + 4 : 1 << 30)"))
    }
  }

  @Test
  func `a single statement gets the error, and the database works again when there is room`() async throws {
    try await withDatabase(script: Self.schema) { database, _ in
      _ = try await database.execute(Statement("INSERT INTO t VALUES (1, $1)", .bytes([1])))
      try await limit(database, toFewMore: true)
      let statement = Statement("INSERT INTO t VALUES (2, $1)", Self.large)
      let error = try await databaseError { try await database.execute(statement) }
      #expect(error?.code == .full)
      #expect(error?.isTransient == true)
      #expect(try await database.integer("SELECT count(*) FROM t") == 1)
      try await limit(database, toFewMore: false)
      _ = try await database.execute(statement)
      #expect(try await database.integer("SELECT count(*) FROM t") == 2)
      #expect(
        try await database.query(Statement("PRAGMA integrity_check"))[0].text("integrity_check") == "ok")
    }
  }

  @Test
  func `whoever was told that it is written finds it, and nobody else anything`() async throws {
    try await withDatabase(script: Self.schema) { database, _ in
      try await limit(database, toFewMore: true)
      let kept = try await withThrowingTaskGroup(of: Int64?.self) { group in
        for index in 0..<Int64(200) {
          group.addTask {
            let error = try await databaseError {
              try await database.write { connection in
                // Two rows each: one without the other would be half of a write.
                try connection.run(Statement("INSERT INTO t VALUES ($1, NULL)", .integer(index * 2)))
                let bytes = index % 10 == 5 ? Self.large : .bytes([1])
                try connection.run(Statement("INSERT INTO t VALUES ($1, $2)", .integer(index * 2 + 1), bytes))
              }
            }
            if let error { #expect(error.code == .full) }
            return error == nil ? index : nil
          }
        }
        return try await group.reduce(into: Set<Int64>()) { kept, index in
          if let index { kept.insert(index) }
        }
      }
      let rows = try await database.query(Statement("SELECT a FROM t"))
      #expect(try Set(rows.map { try $0.int64("a") }) == Set(kept.flatMap { [$0 * 2, $0 * 2 + 1] }))
      #expect(kept.allSatisfy { $0 % 10 != 5 })
      _ = try await database.execute(Statement("INSERT INTO t VALUES (-1, NULL)"))
    }
  }

  @Test
  func `a body that goes on after the error writes nothing`() async throws {
    try await withDatabase(script: Self.schema) { database, _ in
      try await limit(database, toFewMore: true)
      let error = try await databaseError {
        try await database.write { connection in
          try connection.run(Statement("INSERT INTO t VALUES (1, NULL)"))
          _ = try? connection.run(Statement("INSERT INTO t VALUES (2, $1)", Self.large))
          _ = try? connection.run(Statement("INSERT INTO t VALUES (3, NULL)"))
        }
      }
      // SQLite has rolled back the transaction; a third row would have been committed on its own.
      #expect(error?.code == .full)
      #expect(try await database.integer("SELECT count(*) FROM t") == 0)
    }
  }

  @Test
  func `a commit that fails fails for all who shared it`() async throws {
    // A deferred constraint is the one thing that makes SQLite refuse a commit on demand.
    let schema = """
      CREATE TABLE parents (id INTEGER PRIMARY KEY);
      CREATE TABLE children (parent INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED);
      """
    try await withDatabase(script: schema) { database, _ in
      let results = try await database.together(100) { index in
        if index == 50 { return try await database.execute(Statement("INSERT INTO children VALUES (999)")) }
        return try await database.execute(
          Statement("INSERT INTO parents VALUES ($1)", .integer(Int64(index))))
      }
      #expect(results.allSatisfy { $0.databaseCode == .foreignKeyViolation })
      #expect(try await database.integer("SELECT count(*) FROM parents") == 0)
      #expect(try await database.integer("SELECT count(*) FROM children") == 0)
      _ = try await database.execute(Statement("INSERT INTO parents VALUES (1000)"))
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `what a body writes after an error that it ignores is not kept`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: "CREATE TABLE t (a BIGINT PRIMARY KEY)") { database in
      let insert = Statement("INSERT INTO t VALUES (1)")
      let error = try await databaseError {
        try await database.write { connection in
          try connection.run(insert)
          _ = try? connection.run(insert)
          _ = try? connection.run(Statement("INSERT INTO t VALUES (2)"))
        }
      }
      #expect(error?.code == .uniqueViolation)
      _ = try await database.write { try $0.run(Statement("INSERT INTO t VALUES (3)")) }
      #expect(try await database.query(Statement("SELECT a FROM t")).map(\.values) == [[.integer(3)]])
    }
  }
}
