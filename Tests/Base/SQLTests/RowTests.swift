import SQL
import TestDatabase
import Testing

@Suite("Rows")
struct RowTests {
  private static let script = """
    CREATE TABLE realms (id BIGINT PRIMARY KEY, name TEXT);
    CREATE TABLE users (id BIGINT PRIMARY KEY, realm_id BIGINT, name TEXT, photo BYTEA);
    INSERT INTO realms VALUES (1, 'here');
    INSERT INTO users VALUES (7, 1, 'Ann', NULL), (8, 1, NULL, NULL)
    """

  private static let row = Row(
    Columns(["number", "name", "photo", "nothing", "twice", "twice"]),
    values: [.integer(1), .text("secret"), .bytes([2]), .null, .integer(3), .integer(4)])

  @Test
  func `are read by name and type, and NULL as nil`() throws {
    let row = Self.row
    #expect(try row.int64("number") == 1)
    #expect(try row.flag("number"))
    #expect(try row.text("name") == "secret")
    #expect(try row.bytes("photo") == [2])
    #expect(try row.value("photo") == .bytes([2]))
    #expect(try row.optionalInt64("number") == 1)
    #expect(try row.optionalText("name") == "secret")
    #expect(try row.optionalBytes("photo") == [2])
    #expect(try row.value("nothing") == .null)
    #expect(try row.optionalInt64("nothing") == nil)
    #expect(try row.optionalText("nothing") == nil)
    #expect(try row.optionalBytes("nothing") == nil)
    #expect(try row.optionalDate("nothing") == nil)
  }

  @Test
  func `of another type, without the column or with several fail by its name, and show no value`() throws {
    let row = Self.row
    let mistakes: [(name: String, () throws -> Void)] = [
      ("number", { _ = try row.text("number") }),
      ("number", { _ = try row.optionalText("number") }),
      ("name", { _ = try row.int64("name") }),
      ("name", { _ = try row.bytes("name") }),
      ("name", { _ = try row.flag("name") }),
      ("name", { _ = try row.uuid("name") }),
      ("name", { _ = try row.optionalBytes("name") }),
      ("nothing", { _ = try row.int64("nothing") }),
      ("nobody", { _ = try row.text("nobody") }),
      ("Name", { _ = try row.text("Name") }),
      ("", { _ = try row.value("") }),
      ("twice", { _ = try row.int64("twice") }),
    ]
    for (name, mistake) in mistakes {
      let error = #expect(throws: DatabaseError.self) { try mistake() }
      #expect(error?.code == .typeMismatch)
      #expect(error?.description.contains("column \(name) ") == true)
      #expect(error?.description.contains("secret") == false)
      #expect(error?.isTransient == false)
    }
  }

  @Test(
    arguments: DatabaseEngine.available,
    [
      (
        "SELECT u.id, r.id AS realm, u.photo FROM users u JOIN realms r ON r.id = u.realm_id",
        ["id", "realm", "photo"]
      ),
      ("SELECT COUNT(*) AS number, CAST(SUM(id) AS BIGINT) AS sum FROM users", ["number", "sum"]),
      ("SELECT o.id, o.who FROM (SELECT id, name AS who FROM users) AS o WHERE o.id > 0", ["id", "who"]),
      ("SELECT id, NULL AS name FROM realms UNION ALL SELECT id, name FROM users", ["id", "name"]),
      ("SELECT id, name, id FROM users", ["id", "name", "id"]),
      ("SELECT * FROM realms", ["id", "name"]),
      ("UPDATE users SET name = 'Bob' WHERE id = 7 RETURNING id, (SELECT 1) AS one", ["id", "one"]),
    ])
  func `have the names that the statement gives, whichever engine runs it`(
    engine: DatabaseEngine, _ statement: (sql: String, names: [String])
  ) async throws {
    try await withDatabase(engine, script: Self.script) { database in
      // The first run prepares the statement, the second finds it prepared.
      for _ in 0..<2 {
        let rows = try await database.write { try $0.query(statement.sql) }
        #expect(rows.first?.columns.names == statement.names)
      }
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `of a query are read by name`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: Self.script) { database in
      let rows = try await database.query(
        "SELECT u.id, u.name, r.id AS realm, r.name AS realm FROM users u JOIN realms r ON r.id = u.realm_id ORDER BY u.id"
      )
      #expect(try rows.map { try $0.int64("id") } == [7, 8])
      #expect(try rows.map { try $0.optionalText("name") } == ["Ann", nil])
      for name in ["realm", "nobody"] {
        let error = #expect(throws: DatabaseError.self) { _ = try rows[0].value(name) }
        #expect(error?.code == .typeMismatch && error?.message.contains(name) == true)
      }
    }
  }

  @Test
  func `have the present names after the schema of an SQLite file has changed`() async throws {
    try await withDatabase(script: Self.script) { database, _ in
      let select = Statement("SELECT * FROM realms")
      #expect(try await database.query(select).first?.columns.names == ["id", "name"])
      try await database.write { try $0.runScript("ALTER TABLE realms RENAME COLUMN name TO title") }
      #expect(try await database.query(select).first?.text("title") == "here")
    }
  }
}
