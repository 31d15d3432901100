import Foundation
import Migrations
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Registrations
@testable import SQL

@Suite struct DatabaseCopyTests {
  /// Each engine to each.
  static let ways = DatabaseEngine.available.flatMap { from in
    DatabaseEngine.available.map { (from, $0) }
  }

  /// A source full of rows and an empty target.
  private func test(
    _ from: DatabaseEngine = .sqlite, _ to: DatabaseEngine = .sqlite, rows: Int = 1234,
    _ body: (_ source: any Database, _ target: any Database) async throws -> Void
  ) async throws {
    try await TestDatabase.with(from) { source in
      try await TestDatabase.with(to) { target in
        try await fill(source, rows)
        try await body(source, target)
      }
    }
  }

  private func tables(of database: any Database) async throws -> [TableDescription] {
    try await database.tables().filter {
      !["schema_migrations", "nodes", "node_bouncer_keys"].contains($0.name)
    }
  }

  /// Every table, with every kind of value in every column that takes it.
  private func fill(_ database: any Database, _ rows: Int) async throws {
    let tables = try await tables(of: database)
    let columns = try await TestDatabase.with(.sqlite) { schema in
      try await schema.read { connection in
        try Dictionary(uniqueKeysWithValues: tables.map { ($0.name, try connection.columns(of: $0.name)) })
      }
    }
    try await database.write { connection in
      for table in tables {
        let columns = columns[table.name] ?? []
        let few = ["metadata", "remote_servers", "upstream_links", "realms", "users", "nextcloud_keys"]
        let count = few.contains(table.name) ? 3 : rows
        for number in 1...count {
          let values = columns.map { column -> Value in
            switch (column.name, column.type) {
            // Exactly one of the two is there.
            case ("user_id", _) where table.name == "nextcloud_keys",
              ("server_id", _) where table.name == "upstream_links":
              .integer(Int64(number))
            // There is one without for each user.
            case ("app_password_id", _): .integer(Int64(number))
            case (_, _) where !column.isRequired && number.isMultiple(of: 3): .null
            case ("server_id", _),
              ("realm_id", _) where table.name != "remote_realm_counts",
              ("bouncer_key_id", _), ("route_id", _), ("dead_route_id", _), ("account_id", _),
              ("registration_id", _) where table.name == "nextcloud_pushes",
              ("user_id", _) where table.name != "users":
              .integer(1)
            case ("device_id", _): .integer(Int64(number))
            case (_, "INTEGER"): .integer(Int64(number) &* (column.isKey ? 1 : -7_919_777_777))
            case (_, "TEXT"): .text("\(column.name) é \(number)")
            default: .bytes([0, 255] + Array("\(number)".utf8))
            }
          }
          let names = columns.map(\.name)
          try connection.run(
            Statement(
              """
              INSERT INTO \(table.name) (\(names.joined(separator: ", ")))
              VALUES (\(Statement.placeholders(names.count)))
              """, arguments: values))
        }
      }
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `The catalog tells every table, its key first, each after those it refers to`(
    engine: DatabaseEngine
  ) async throws {
    try await TestDatabase.with(engine, migrated: false) { database in
      try await database.write { connection in
        try connection.runScript(
          """
          CREATE TABLE c (id BIGINT PRIMARY KEY);
          CREATE TABLE b (t TEXT, y BIGINT, x BIGINT REFERENCES c (id), PRIMARY KEY (x, y));
          CREATE TABLE a (id BIGINT PRIMARY KEY, c BIGINT REFERENCES a (id), y BIGINT, x BIGINT,
            FOREIGN KEY (x, y) REFERENCES b (x, y));
          CREATE TABLE sqlitetable (id BIGINT);
          """)
      }
      #expect(
        try await database.tables() == [
          TableDescription(name: "c", key: ["id"], columns: ["id"]),
          TableDescription(name: "sqlitetable", key: [], columns: ["id"]),
          TableDescription(name: "b", key: ["x", "y"], columns: ["x", "y", "t"]),
          TableDescription(name: "a", key: ["id"], columns: ["id", "c", "y", "x"]),
        ])
    }
  }

  @Test func `Both engines tell the same tables`() async throws {
    var tables: [Set<String>] = []
    for engine in DatabaseEngine.available {
      let found = try await TestDatabase.with(engine) { try await $0.tables() }
      #expect(found.allSatisfy { !$0.key.isEmpty })
      tables.append(Set(found.map { "\($0)" }))
    }
    #expect(Set(tables).count == 1 && tables[0].count > 30)
  }

  @Test(arguments: ways) func `Everything arrives, and new ids go on after it`(
    from: DatabaseEngine, to: DatabaseEngine
  ) async throws {
    try await test(from, to) { source, target in
      let progress = Mutex<[String: [Int]]>([:])
      let reports = try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run {
        table, copied in
        progress.withLock { $0[table, default: []].append(copied) }
      }
      #expect(progress.withLock(\.self)["registrations"] == [500, 1000, 1234])
      let tables = try await tables(of: source)
      #expect(reports.map(\.table) == tables.map(\.name) && tables.count > 25)
      for report in reports { #expect(report.rows == report.copied && report.rows >= 3) }
      for table in tables {
        let statement = Statement(
          """
          SELECT \(table.columns.joined(separator: ", ")) FROM \(table.name)
          ORDER BY \(table.key.joined(separator: ", "))
          """)
        let rows = try await source.query(statement).map(\.values)
        #expect(try await target.query(statement).map(\.values) == rows, "\(table.name)")
      }
      let id = try await target.execute(
        Statement("INSERT INTO devices (user_id, created_at) VALUES (1, 1) RETURNING id"))
      #expect(try id.first?.int64("id") == 1235)
    }
  }

  @Test func `A copy that was stopped anywhere goes on, and doubles nothing`() async throws {
    struct Stopped: Error {}
    try await test { source, target in
      // The target refuses from some row on, each time a little later.
      var copied = 0
      for stop in 1... {
        try await target.write { connection in
          try connection.runScript(
            """
            DROP TRIGGER IF EXISTS stop;
            CREATE TRIGGER stop BEFORE INSERT ON registrations WHEN new.id > \(stop * 500)
            BEGIN SELECT RAISE(ABORT, 'stopped'); END;
            """)
        }
        do {
          let reports = try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run { _, _ in
          }
          copied = reports.first { $0.table == "registrations" }?.copied ?? 0
          break
        } catch is DatabaseError {
          let there = try await target.read {
            try $0.query(Statement("SELECT COUNT(*) FROM registrations")).integer
          }
          #expect(there == Int64(stop * 500))
        }
      }
      #expect(copied == 1234 - 1000)
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `A copy that has not ended is refused until it has`(engine: DatabaseEngine) async throws {
    struct Refused: Error {}
    try await test(.sqlite, engine, rows: 5) { source, target in
      let copy = DatabaseCopy(from: source, to: target, tables: Schema.tables)
      let url = DatabaseURL(sqlitePath: "copy.sqlite")
      try await DatabaseCopy.checkIsWhole(target, url)
      for _ in 0..<2 {
        await #expect(throws: Refused.self) {
          try await copy.run { _, _ in
          } approve: {
            throw Refused()
          }
        }
        let fault = await #expect(throws: (any Error).self) {
          try await DatabaseCopy.checkIsWhole(target, url)
        }
        #expect("\(String(describing: fault))".contains("sqlite:copy.sqlite, an unfinished copy"))
      }
      #expect(try await copy.run { _, _ in }.allSatisfy { $0.copied == 0 })
      try await DatabaseCopy.checkIsWhole(target, url)
      try await DatabaseCopy.checkIsWhole(source, url)
    }
  }

  @Test func `What is neither empty nor an unfinished copy is left as it is`() async throws {
    try await test(rows: 5) { source, target in
      _ = try await target.execute("INSERT INTO metadata (name, value) VALUES ('own', $1)", .bytes([1]))
      await #expect(throws: DatabaseCopy.Failure.different(table: "bouncer_keys", row: 1)) {
        try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run { _, _ in }
      }
      #expect(try await target.query("SELECT 1 FROM registrations").isEmpty)
      #expect(try await target.query("SELECT name FROM metadata").map(\.values) == [[.text("own")]])
    }
  }

  @Test func `Tables of other programs are left alone`() async throws {
    try await test(rows: 5) { source, target in
      // Litestream's.
      let others =
        "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER); CREATE TABLE _litestream_lock (id INTEGER);"
      for database in [source, target] { try await database.write { try $0.runScript(others) } }
      _ = try await source.execute("INSERT INTO _litestream_seq VALUES (1, 7)")
      let reports = try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run { _, _ in }
      #expect(reports.count > 25 && !reports.contains { $0.table.hasPrefix("_") })
      #expect(try await target.query("SELECT * FROM _litestream_seq").isEmpty)
    }
  }

  @Test func `A copy of a copy copies nothing`() async throws {
    try await test { source, target in
      _ = try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run { _, _ in }
      let again = try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run { _, _ in }
      #expect(again.allSatisfy { $0.copied == 0 })
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `A database is not copied onto itself, whatever it is called`(engine: DatabaseEngine) async throws {
    let test = try await TestDatabase(engine)
    let other: any Database
    if let path = test.url.sqlitePath {
      let link = test.folder.appending(path: "link.sqlite").path
      try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: path)
      other = try await openDatabase(url: DatabaseURL(sqlitePath: link))
    } else {
      other = try await openDatabase(url: test.url)
    }
    try await withCleanUp {
      await #expect(throws: DatabaseCopy.Failure.sameDatabase) {
        try await DatabaseCopy(from: test.database, to: other, tables: Schema.tables).run { _, _ in }
      }
      let marks = try await test.database.query("SELECT 1 FROM metadata WHERE name = 'write_check'")
      #expect(marks.isEmpty)
    } cleanUp: {
      await other.close()
    }
  }

  @Test func `Rows that are not the same are found`() async throws {
    try await test { source, target in
      _ = try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run { _, _ in }
      _ = try await target.execute(Statement("UPDATE registrations SET failed_at = 1 WHERE id = 700"))
      await #expect(
        throws: DatabaseCopy.Failure.different(table: "registrations", row: 501)
      ) { try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run { _, _ in } }
      _ = try await target.execute(Statement("DELETE FROM devices WHERE id = 700"))
      await #expect(throws: DatabaseCopy.Failure.self) {
        try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run { _, _ in }
      }
    }
  }

  @Test func `Another service's database is left alone`() async throws {
    try await test(rows: 3) { source, target in
      for (database, key) in [(source, UInt8(1)), (target, 2)] {
        _ = try await database.execute(
          Statement("INSERT INTO metadata (name, value) VALUES ('storage_key', $1)", .bytes([key])))
      }
      await #expect(throws: DatabaseCopy.Failure.foreignTarget) {
        try await DatabaseCopy(from: source, to: target, tables: Schema.tables).run { _, _ in }
      }
      let count = try await target.read { try $0.query(Statement("SELECT COUNT(*) FROM remote_servers")) }
      #expect(try count.integer == 0)
    }
  }
}

private struct Column: Sendable {
  let name: String
  let type: String
  let isRequired: Bool
  let isKey: Bool
}

extension Connection {
  fileprivate func columns(of table: String) throws -> [Column] {
    try query(Statement("SELECT name, type, \"notnull\", pk FROM pragma_table_info('\(table)')")).map { row in
      let isKey = try row.int64("pk") > 0
      return Column(
        name: try row.text("name"), type: try row.text("type"), isRequired: try row.flag("notnull") || isKey,
        isKey: isKey)
    }
  }
}
