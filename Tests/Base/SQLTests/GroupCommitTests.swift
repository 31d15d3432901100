import Foundation
import SQL
import Synchronization
import TestDatabase
import TestSupport
import Testing

private struct OwnError: Error, Equatable {}

@Suite("Group commit")
struct GroupCommitTests {
  private static let schema = "CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT)"

  @Test(arguments: DatabaseEngine.available)
  func `what fails in a group leaves its neighbours committed`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: Self.schema) { database in
      let results = try await database.atOnce(60) { index in
        try await database.write { connection in
          try connection.run(Statement("INSERT INTO t VALUES ($1, 'kept')", .integer(Int64(index))))
          if index % 3 == 1 { throw OwnError() }
          if index % 3 == 2 {
            try connection.run(Statement("INSERT INTO t VALUES ($1, 'twice')", .integer(Int64(index))))
          }
        }
      }
      for (index, result) in results.enumerated() {
        switch index % 3 {
        case 0: #expect(throws: Never.self) { try result.get() }
        case 1: #expect(throws: OwnError()) { try result.get() }
        default: #expect(result.databaseCode == .uniqueViolation)
        }
      }
      let rows = try await database.query(Statement("SELECT a FROM t ORDER BY a"))
      #expect(try rows.map { try $0.int64("a") } == stride(from: 0, to: 60, by: 3).map(Int64.init))
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `a single statement that fails undoes itself, all its rows, and nothing else`(engine: DatabaseEngine)
    async throws
  {
    try await withDatabase(engine, script: Self.schema) { database in
      let results = try await database.atOnce(20) { index in
        let row = Int64(index) * 10
        // An odd one fails at its second row.
        return try await database.execute(
          Statement(
            "INSERT INTO t VALUES ($1, ''), ($2, '')", .integer(row), .integer(row + (index % 2 == 0 ? 1 : 0))
          ))
      }
      #expect(results.filter { (try? $0.get()) != nil }.count == 10)
      #expect(try await database.integer("SELECT count(*) FROM t") == 20)
      #expect(try await database.integer("SELECT count(*) FROM t WHERE (a / 10) % 2 = 1") == 0)
    }
  }

  @Test(arguments: [(200, nil, 1), (70, 7, 10)] as [(Int, Int?, Int)])
  func `what gathers is committed together, in groups no larger than their limit`(
    count: Int, limit: Int?, groups: Int
  ) async throws {
    let commits = Counter()
    let observer: DatabaseObserver = { operation, _ in
      if operation == .commit { commits.increment() }
    }
    var options = SQLiteDatabase.Options()
    if let limit { options.maximumWriteGroup = limit }
    try await withDatabase(options: options, observer: observer, script: Self.schema) { database, _ in
      let before = commits.value
      _ = try await database.together(count) { index in
        try await database.execute(Statement("INSERT INTO t VALUES ($1, '')", .integer(Int64(index))))
      }
      // That of the write they gathered behind, and theirs.
      #expect(commits.value - before == 1 + groups)
      #expect(try await database.integer("SELECT count(*) FROM t") == Int64(count))
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `thousands of callers at once lose nothing`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: "CREATE TABLE counters (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)")
    {
      database in
      let upsert =
        "INSERT INTO counters VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET n = counters.n + 1 RETURNING n"
      try await withThrowingTaskGroup(of: Void.self) { group in
        for index in 0..<Int64(4000) {
          group.addTask {
            if index % 4 == 0 {
              _ = try await database.write { try $0.query(Statement(upsert, .integer(index % 10))) }
            } else {
              let rows = try await database.execute(Statement(upsert, .integer(index % 10)))
              #expect(try rows[0].int64("n") > 0)
            }
          }
        }
        try await group.waitForAll()
      }
      #expect(try await database.integer("SELECT CAST(sum(n) AS BIGINT) FROM counters") == 4000)
      #expect(try await database.integer("SELECT count(*) FROM counters WHERE n = 400") == 10)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `whoever has written reads what they wrote`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: Self.schema) { database in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for index in 0..<Int64(1000) {
          group.addTask {
            _ = try await database.execute(Statement("INSERT INTO t VALUES ($1, '')", .integer(index)))
            let count = try await database.integer("SELECT count(*) FROM t WHERE a = $1", .integer(index))
            #expect(count == 1)
          }
        }
        try await group.waitForAll()
      }
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `a read sees one moment, whatever is written meanwhile`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: Self.schema) { database in
      let entered = AsyncStream<Void>.makeStream()
      let goOn = Gate()
      async let counts = database.read { connection in
        let count = Statement("SELECT count(*) AS count FROM t")
        let first = try connection.query(count)[0].int64("count")
        entered.continuation.finish()
        goOn.wait()
        return [first, try connection.query(count)[0].int64("count")]
      }
      for await _ in entered.stream {}
      _ = try await database.execute(Statement("INSERT INTO t VALUES (1, '')"))
      #expect(try await database.integer("SELECT count(*) FROM t") == 1)
      goOn.open()
      #expect(try await counts == [0, 0])
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `a read that fails leaves those that share its snapshot alone`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: Self.schema) { database in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for index in 0..<200 {
          group.addTask {
            switch index % 3 {
            case 0:
              let value = try await database.integer("SELECT $1", .integer(Int64(index)))
              #expect(value == Int64(index))
            case 1:
              await #expect(throws: OwnError()) { try await database.read { _ in throw OwnError() } }
            default:
              await #expect(throws: DatabaseError.self) { try await database.integer("SELECT nothing") }
            }
          }
        }
        try await group.waitForAll()
      }
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `changed rows are counted, and none where nothing changes`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: Self.schema) { database in
      let counts = try await database.write { connection in
        [
          try connection.run(Statement("INSERT INTO t VALUES (1, ''), (2, ''), (3, '')")),
          try connection.run(Statement("UPDATE t SET b = 'x' WHERE a > 1 RETURNING a")),
          try connection.run(Statement("SELECT * FROM t")),
          try connection.run(Statement("CREATE TABLE u (a BIGINT)")),
          try connection.run(Statement("DELETE FROM t WHERE a > 9")),
          try connection.run(Statement("DELETE FROM t")),
        ]
      }
      #expect(counts == [3, 2, 0, 0, 0, 3])
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `a statement that would end the shared transaction takes nothing with it unnoticed`(
    engine: DatabaseEngine
  ) async throws {
    try await withDatabase(engine, script: Self.schema) { database in
      let results = try await database.atOnce(3) { index in
        try await database.write { connection in
          try connection.run(Statement("INSERT INTO t VALUES ($1, '')", .integer(Int64(index))))
          if index == 1 { try connection.run(Statement("ROLLBACK")) }
          try connection.run(Statement("INSERT INTO t VALUES ($1, '')", .integer(Int64(index + 10))))
        }
      }
      let succeeded = results.indices.filter { (try? results[$0].get()) != nil }
      #expect(!succeeded.contains(1))
      let rows = try await database.query(Statement("SELECT a FROM t ORDER BY a"))
      #expect(try rows.map { try $0.int64("a") } == (succeeded + succeeded.map { $0 + 10 }).map(Int64.init))
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `durations of reads, writes and commits are observed, failures too`(engine: DatabaseEngine)
    async throws
  {
    let seen = Mutex<[DatabaseOperation: Int]>([:])
    let observer: DatabaseObserver = { operation, duration in
      #expect(duration > .zero)
      seen.withLock { $0[operation, default: 0] += 1 }
    }
    try await withDatabase(engine, observer: observer) { database in
      _ = try await database.integer("SELECT 1")
      _ = try await database.execute(Statement("CREATE TABLE t (a BIGINT)"))
      _ = try? await database.write { _ in throw OwnError() }
      _ = try? await database.integer("SELECT nothing")
    }
    // Nothing is committed of a write that failed alone.
    #expect(seen.withLock { $0 } == [.read: 2, .write: 2, .commit: 1])
  }
}
