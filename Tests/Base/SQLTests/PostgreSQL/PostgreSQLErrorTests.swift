import TestDatabase
import Testing

@testable import SQL

@Suite("Errors of PostgreSQL", .needsPostgreSQL)
struct PostgreSQLErrorTests {
  private static let schema = """
    CREATE TABLE parents (id BIGINT PRIMARY KEY, name TEXT NOT NULL UNIQUE, age BIGINT CHECK (age > 0));
    CREATE TABLE children (parent BIGINT NOT NULL REFERENCES parents (id), a BIGINT, b BIGINT, PRIMARY KEY (a, b));
    INSERT INTO parents VALUES (1, 'secret', 30);
    INSERT INTO children VALUES (1, 1, 1);
    """

  @Test(arguments: [
    (
      "INSERT INTO parents VALUES (2, 'secret', 1)", DatabaseError.Code.uniqueViolation,
      "parents_name_key" as String?
    ),
    ("INSERT INTO parents VALUES (1, 'other', 1)", .uniqueViolation, "parents_pkey"),
    ("INSERT INTO children VALUES (1, 1, 1)", .uniqueViolation, "children_pkey"),
    ("INSERT INTO children VALUES (9, 2, 2)", .foreignKeyViolation, "children_parent_fkey"),
    ("DELETE FROM parents WHERE name = 'secret'", .foreignKeyViolation, "children_parent_fkey"),
    ("INSERT INTO parents VALUES (3, 'secret!', -1)", .checkViolation, "parents_age_check"),
    ("INSERT INTO parents VALUES (3, NULL, 1)", .notNullViolation, "parents.name"),
    ("SELECT CAST(CAST('secret' AS TEXT) AS BIGINT)", .other, nil),
    ("SELECT no_column FROM nowhere", .other, nil),
    ("SELEKT 1", .other, nil),
  ])
  func `violations keep their kind and name the constraint, never the value`(
    sql: String, code: DatabaseError.Code, constraint: String?
  ) async throws {
    try await withPostgreSQL(script: Self.schema) { database, _ in
      let alone = try #require(try await databaseError { try await database.execute(Statement(sql)) })
      let inTransaction = try #require(
        try await databaseError { try await database.write { try $0.query(Statement(sql)) } })
      #expect(alone == inTransaction)
      #expect(alone.code == code)
      #expect(alone.constraint == constraint)
      #expect(!alone.description.contains("secret"))
      #expect(!alone.isTransient)
    }
  }

  @Test(arguments: [
    ("40001", DatabaseError.Code.serializationFailure), ("40P01", .serializationFailure),
    ("53100", .full), ("53200", .io), ("53300", .busy), ("25006", .readOnly),
    ("26000", .pooled), ("42501", .notPermitted), ("58030", .io),
    ("08006", .connectionLost), ("57P01", .connectionLost), ("57P02", .connectionLost),
    ("57P03", .connectionLost), ("57014", .busy), ("XX001", .corrupt), ("XX002", .corrupt),
    ("XX000", .other),
  ])
  func `states have the same meaning as SQLite's codes`(state: String, code: DatabaseError.Code) {
    #expect(DatabaseError.Code(sqlState: state) == code)
  }

  @Test
  func `a column of another type is refused as SQLite's strict tables do`() async throws {
    try await withPostgreSQL(script: Self.schema) { database, _ in
      let error = try await databaseError {
        try await database.execute(Statement("INSERT INTO parents VALUES ($1, 'x', 1)", .text("1")))
      }
      #expect(error?.code == .checkViolation)
    }
  }
}
