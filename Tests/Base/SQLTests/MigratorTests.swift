import Foundation
import Migrations
import SQL
import TestDatabase
import TestSupport
import Testing

@Suite("Migrations")
struct MigratorTests {
  private static let first = Migration(
    1, "first", sql: "CREATE TABLE a (id BIGINT); CREATE TABLE b (id BIGINT);")
  private static let second = Migration(
    2, "second", sql: "-- a comment; with a semicolon\nINSERT INTO a VALUES (1);\n")
  private static let third = Migration(3, "third", sql: "CREATE TABLE c (text TEXT DEFAULT ';')")

  private func numbers(_ database: any Database) async throws -> [Int64] {
    try await database.query(Statement("SELECT number FROM schema_migrations ORDER BY number")).map {
      try $0.int64("number")
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `migrations are applied in order, once`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine) { database in
      let now = Date(timeIntervalSince1970: 1_800_000_000)
      let applied = try await Migrator.migrate(database, [Self.second, Self.first], now: now)
      #expect(applied == [Self.first, Self.second])
      #expect(try await Migrator.migrate(database, [Self.first, Self.second]) == [])
      #expect(try await Migrator.migrate(database, [Self.first, Self.second, Self.third]) == [Self.third])
      #expect(try await database.integer("SELECT count(*) FROM a") == 1)
      let rows = try await database.query(
        Statement("SELECT number, name, checksum, applied_at FROM schema_migrations WHERE number = 1"))
      #expect(
        rows.map(\.values) == [
          [.integer(1), .text("first"), .text(Self.first.checksum), .integer(1_800_000_000_000)]
        ])
    }
  }

  @Test
  func `a checksum is SHA-256 in hex`() {
    #expect(
      Migration(1, "empty", sql: "abc").checksum
        == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  }

  @Test(arguments: DatabaseEngine.available)
  func `a migration that fails is not half applied, and is applied when it is right`(engine: DatabaseEngine)
    async throws
  {
    try await withDatabase(engine) { database in
      let broken = Migration(2, "broken", sql: "CREATE TABLE c (id INTEGER); INSERT INTO nowhere VALUES (1);")
      let error = try await databaseError { try await Migrator.migrate(database, [Self.first, broken]) }
      #expect(error?.message.hasPrefix("migration 2 (broken) failed: ") == true)
      #expect(error?.message.contains("nowhere") == true)
      #expect(try await numbers(database) == [1])
      // The third one makes the table that the broken one has made and lost.
      try await Migrator.migrate(database, [Self.first, Self.second, Self.third])
      #expect(try await numbers(database) == [1, 2, 3])
    }
  }

  @Test
  func `a kill in the middle of a migration leaves none of it`() async throws {
    try await withTemporaryFolder { folder in
      let path = folder.databasePath
      await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
        let database = try await SQLiteDatabase.open(path: path)
        try await Migrator.migrate(database, [Self.first])
        try await database.write { connection in
          try connection.run(Statement("INSERT INTO schema_migrations VALUES (2, 'second', '', 2, 0)"))
          try connection.runScript("CREATE TABLE c (id INTEGER)")
          kill(getpid(), SIGKILL)
        }
      }
      let database = try await SQLiteDatabase.open(path: path)
      #expect(try await numbers(database) == [1])
      #expect(
        try await Migrator.migrate(database, [Self.first, Self.second, Self.third]) == [
          Self.second, Self.third,
        ])
      await database.close()
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `a database newer than the program is refused, both numbers named`(engine: DatabaseEngine) async throws
  {
    try await withDatabase(engine) { database in
      try await Migrator.migrate(database, [Self.first, Self.second, Self.third])
      let error = try await databaseError { try await Migrator.migrate(database, [Self.first]) }
      #expect(error?.code == .newerSchema)
      #expect(error?.message.contains("migration 3 (third)") == true)
      #expect(error?.message.contains("up to 1") == true)
      #expect(try await databaseError { try await Migrator.migrate(database, []) }?.code == .newerSchema)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `a program goes on beside newer migrations that let one as old as it do so`(engine: DatabaseEngine)
    async throws
  {
    try await withDatabase(engine) { database in
      let adding = Migration(2, "adding", oldest: 1, sql: "ALTER TABLE a ADD COLUMN t TEXT")
      let removing = Migration(3, "removing", oldest: 2, sql: "DROP TABLE b")
      try await Migrator.migrate(database, [Self.first, adding])
      #expect(try await Migrator.migrate(database, [Self.first]) == [])
      try await Migrator.migrate(database, [Self.first, adding, removing])
      try await Migrator.check(database, [Self.first, adding])
      let error = try await databaseError { try await Migrator.check(database, [Self.first]) }
      #expect(error?.code == .newerSchema)
      #expect(error?.message.contains("migration 3 (removing)") == true)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `a migration that is not permitted is not applied, and may be later`(engine: DatabaseEngine)
    async throws
  {
    struct Forbidden: Error {}
    try await withDatabase(engine) { database in
      await #expect(throws: Forbidden.self) {
        try await Migrator.migrate(database, [Self.first, Self.second, Self.third]) { migration, _ in
          if migration == Self.second { throw Forbidden() }
        }
      }
      #expect(try await numbers(database) == [1])
      try await Migrator.migrate(database, [Self.first, Self.second, Self.third])
      #expect(try await numbers(database) == [1, 2, 3])
    }
  }

  /// As while a backup is made, which reads all tables.
  @Test(.needsPostgreSQL)
  func `a migration that waits for a table lets others use it`() async throws {
    try await withPostgreSQL { database, other in
      try await Migrator.migrate(database, [Self.first])
      let reading = Statement("SELECT count(*) FROM a")
      let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'a'::regclass"
      try await other.database.behindGate(after: { _ = try $0.query(reading) }) { open in
        async let applied = Migrator.migrate(
          database, [Self.first, Migration(2, "adding", sql: "ALTER TABLE a ADD COLUMN t TEXT")])
        for _ in 0..<3 {
          try await eventually("a migration that waits") {
            try await database.integer(waiting) > 0
          }
          // Queues behind the migration, until that gives way.
          #expect(try await database.integer("SELECT count(*) FROM a") == 0)
        }
        open()
        #expect(try await applied.map(\.number) == [2])
      }
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `an edited or missing migration is refused, and nothing is changed`(engine: DatabaseEngine)
    async throws
  {
    try await withDatabase(engine) { database in
      try await Migrator.migrate(database, [Self.first, Self.second])
      let edited = Migration(1, "first", sql: Self.first.sql + " ")
      for migrations in [[edited, Self.second, Self.third], [Self.second, Self.third]] {
        let error = try await databaseError { try await Migrator.migrate(database, migrations) }
        #expect(error?.code == .changedMigration)
        #expect(error?.message.contains("migration 1 (first)") == true)
      }
      // The newest one, too.
      let newest = Migration(2, "second", sql: Self.second.sql + " ")
      let error = try await databaseError { try await Migrator.check(database, [Self.first, newest]) }
      #expect(error?.code == .changedMigration && error?.message.contains("migration 2") == true)
      #expect(try await numbers(database) == [1, 2])
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `programs that migrate at once apply each migration once`(engine: DatabaseEngine) async throws {
    let test = try await TestDatabase(engine, migrated: false)
    let migrations = (1...10).map { Migration($0, "m\($0)", sql: "CREATE TABLE t\($0) (id INTEGER)") }
    let applied = try await withThrowingTaskGroup(of: [Migration].self) { group in
      for _ in 0..<4 {
        group.addTask {
          let database = try await openDatabase(url: test.url)
          let applied = try await Migrator.migrate(database, migrations)
          await database.close()
          return applied
        }
      }
      return try await group.reduce(into: []) { $0 += $1 }
    }
    #expect(applied.map(\.number).sorted() == Array(1...10))
    #expect(try await Migrator.version(of: test.database) == 10)
  }

  @Test(arguments: DatabaseEngine.available)
  func `the migrations of this program apply, and are numbered as they stand`(engine: DatabaseEngine)
    async throws
  {
    try await withDatabase(engine) { database in
      #expect(try await Migrator.version(of: database) == 0)
      try await Schema.migrate(database)
      #expect(try await Migrator.version(of: database) == Schema.version)
      #expect(Schema.migrations(for: engine).map(\.number) == Array(1...Schema.version))
    }
  }

  @Test
  func `a migration has one text, of which each engine has its own words`() {
    let template = "CREATE TABLE a (id $id, n $int, b $bytes, t $text) $strict; -- $1, $nothing"
    #expect(
      Migration(1, "a", template: template, for: .sqlite).sql
        == "CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER, b BLOB, t TEXT) STRICT; -- $1, $nothing")
    #expect(
      Migration(1, "a", template: template, for: .postgreSQL).sql
        == """
        CREATE TABLE a (id BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n BIGINT, b BYTEA, \
        t TEXT COLLATE "C") ; -- $1, $nothing
        """)
  }
}
