import SQL
import Testing

@Suite("Errors of SQLite")
struct SQLiteErrorTests {
  private static let schema = """
    CREATE TABLE parents (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, age INTEGER CHECK (age > 0));
    CREATE TABLE children (parent INTEGER NOT NULL REFERENCES parents (id), a, b, PRIMARY KEY (a, b));
    CREATE TABLE strict (number INTEGER) STRICT;
    INSERT INTO parents VALUES (1, 'secret', 30);
    INSERT INTO children VALUES (1, 1, 1);
    """

  @Test(arguments: [
    (
      "INSERT INTO parents VALUES (2, 'secret', 1)", DatabaseError.Code.uniqueViolation,
      "parents.name" as String?
    ),
    ("INSERT INTO parents VALUES (1, 'other', 1)", .uniqueViolation, "parents.id"),
    ("INSERT INTO children VALUES (1, 1, 1)", .uniqueViolation, "children.a, children.b"),
    ("INSERT INTO children VALUES (9, 2, 2)", .foreignKeyViolation, nil),
    ("DELETE FROM parents WHERE name = 'secret'", .foreignKeyViolation, nil),
    ("INSERT INTO parents VALUES (3, 'secret!', -1)", .checkViolation, "age > 0"),
    ("INSERT INTO parents VALUES (3, NULL, 1)", .notNullViolation, "parents.name"),
    ("INSERT INTO strict VALUES ('secret')", .checkViolation, nil),
    ("SELECT secret FROM nowhere", .other, nil),
    ("SELEKT 1", .other, nil),
  ])
  func `violations keep their kind and name the constraint, never the value`(
    sql: String, code: DatabaseError.Code, constraint: String?
  ) async throws {
    try await withDatabase(script: Self.schema) { database, _ in
      let error = try #require(
        try await databaseError { try await database.execute(Statement(sql)) })
      #expect(error.code == code)
      #expect(error.constraint == constraint)
      #expect(!error.description.contains("secret"))
      #expect(!error.isTransient)
    }
  }

  @Test
  func `codes are short words, fit for a label`() {
    #expect(DatabaseError.Code.uniqueViolation.description == "uniqueViolation")
    #expect(DatabaseError(.full, "no room").description == "full: no room")
    #expect(DatabaseError(.serializationFailure, "").isTransient)
    #expect(!DatabaseError(.corrupt, "").isTransient)
  }
}
