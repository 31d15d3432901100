import SQL
import TestDatabase
import Testing

@Suite("Values and statements")
struct ValueTests {
  @Test(
    arguments: DatabaseEngine.available,
    [
      Value.null, .integer(.min), .integer(.max), .integer(0), .text(""), .text("naïve 🐘"), .bytes([]),
      .bytes([0, 1, 255]), .text("'; DROP TABLE t; --"),
    ])
  func `every value comes back as it went in`(engine: DatabaseEngine, value: Value) async throws {
    try await withDatabase(engine, script: "CREATE TABLE t (integers BIGINT, texts TEXT, bytes BYTEA)") {
      database in
      let column =
        switch value {
        case .integer: "integers"
        case .text, .null: "texts"
        case .bytes: "bytes"
        }
      _ = try await database.execute(Statement("INSERT INTO t (\(column)) VALUES ($1)", value))
      _ = try await database.write { try $0.run(Statement("INSERT INTO t (\(column)) VALUES ($1)", value)) }
      let rows = try await database.query(Statement("SELECT \(column) FROM t"))
      #expect(rows.map(\.values) == [[value], [value]])
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `text with U+0000 is refused instead of cut`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: "CREATE TABLE t (v TEXT)") { database in
      let error = try await databaseError {
        try await database.execute(Statement("INSERT INTO t VALUES ($1)", .text("a\0b")))
      }
      #expect(error?.code == .invalidArgument)
      #expect(try await database.integer("SELECT count(*) FROM t") == 0)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `arguments belong to the number of their parameter, in any order and repeated`(engine: DatabaseEngine)
    async throws
  {
    try await withDatabase(engine) { database in
      let rows = try await database.query(
        Statement(
          "SELECT $2, $1, $2, '' || $3", .integer(1), .text("two"), .text("three")))
      #expect(rows.map(\.values) == [[.text("two"), .integer(1), .text("two"), .text("three")]])
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `ten parameters and more keep their numbers`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine) { database in
      let values = (1...12).map { Value.integer($0) }
      let rows = try await database.query(
        Statement("SELECT $12, $11, $10, $1, $2, $3, $4, $5, $6, $7, $8, $9", arguments: values))
      #expect(rows[0].values == [12, 11, 10, 1, 2, 3, 4, 5, 6, 7, 8, 9].map { Value.integer($0) })
    }
  }

  @Test(arguments: [1, 3])
  func `too many and too few arguments are errors`(count: Int) async throws {
    try await withDatabase { database, _ in
      let statement = Statement("SELECT $1, $2", arguments: Array(repeating: .integer(1), count: count))
      let error = try await databaseError { try await database.query(statement) }
      #expect(error?.code == .invalidArgument)
    }
  }

  @Test(
    arguments: DatabaseEngine.available,
    [0, 1, 2, 3, 4, 5, 63, 64, 65, 1000])
  func `a list of any length finds what it names`(engine: DatabaseEngine, count: Int) async throws {
    try await withDatabase(engine, script: "CREATE TABLE t (a BIGINT, b BIGINT)") { database in
      try await database.write { connection in
        for number in 0..<Int64(2000) {
          try connection.run(
            Statement("INSERT INTO t VALUES ($1, $2)", .integer(number), .integer(number % 2)))
        }
      }
      let list = (0..<count).map { Value.integer(Int64($0)) }
      let rows = try await database.query(
        Statement("SELECT a FROM t WHERE b = $1 AND a IN ($list) ORDER BY a", .integer(0), list: list))
      #expect(try rows.map { try $0.int64("a") } == (0..<Int64(count)).filter { $0 % 2 == 0 })
    }
  }

  @Test
  func `lists of like length share one text, so that few statements are prepared`() {
    func text(_ count: Int) -> String {
      Statement("SELECT $1 IN ($list)", .null, list: Array(repeating: .null, count: count)).sql
    }
    #expect(text(5) == text(8))
    #expect(text(3) == "SELECT $1 IN ($2, $3, $4, $5)")
    #expect(text(0) == "SELECT $1 IN ($2)")
    #expect(text(2) == "SELECT $1 IN ($2, $3)")
    #expect(Set((0...1000).map(text)).count == 11)
  }

  @Test(arguments: DatabaseEngine.available)
  func `the longest list fits into a statement`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine) { database in
      let list = (1..<Statement.maximumArguments).map { Value.integer(Int64($0)) }
      let rows = try await database.query(
        Statement("SELECT $1 IN ($list) AS is_in", .integer(32_765), list: list))
      #expect(try rows[0].flag("is_in"))
    }
  }

  @Test
  func `a floating-point number comes as text`() async throws {
    try await withDatabase { database, _ in
      let rows = try await database.query(Statement("SELECT 0.5"))
      #expect(rows.map(\.values) == [[.text("0.5")]])
    }
  }
}
