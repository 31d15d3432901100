import Crypto
package import Foundation

/// Brings a database to the schema that the program knows.
///
/// What has been applied stands in `schema_migrations(number, name, checksum, applied_at)`. Each
/// migration is one transaction together with its row there, so it is applied wholly or not at
/// all, and by one process only: they take turns, and whoever finds the row there leaves the
/// migration to the other.
package enum Migrator {
  /// Applies what `migrations` has and `database` has not, in the order of their numbers.
  ///
  /// - Returns: what was applied, in order; empty if the database was up to date.
  /// - Throws: ``DatabaseError``: as ``check(_:_:)`` does, before anything is changed, or why a migration
  ///   failed, which its text names. Those before it stay.
  @discardableResult
  package static func migrate(
    _ database: any Database, _ migrations: [Migration], now: Date = Date()
  ) async throws -> [Migration] {
    try await database.write { connection in
      try connection.lockSchema()
      try connection.runScript(createTable)
      try check(connection, migrations)
    }
    let appliedAt = Int64(now.timeIntervalSince1970 * 1000)
    var applied: [Migration] = []
    for migration in migrations.sorted(by: { $0.number < $1.number }) {
      do {
        let isOurs = try await database.write { connection in
          try connection.lockSchema()
          let isOurs = try connection.run(migration.insertion(at: appliedAt)) == 1
          if isOurs { try connection.runScript(migration.sql) }
          return isOurs
        }
        if isOurs { applied.append(migration) }
      } catch let error as DatabaseError {
        throw DatabaseError(
          error.code, "migration \(migration.number) (\(migration.name)) failed: \(error.message)",
          constraint: error.constraint)
      }
    }
    return applied
  }

  /// Checks that `migrations` know all that `database` has applied, which must not be empty. Changes nothing.
  ///
  /// - Throws: ``DatabaseError``: ``DatabaseError/Code/newerSchema`` if a newer program has migrated the database,
  ///   ``DatabaseError/Code/changedMigration`` if an applied migration has since been edited or removed.
  package static func check(_ database: any Database, _ migrations: [Migration]) async throws {
    try await database.read { try check($0, migrations) }
  }

  private static func check(_ connection: any Connection, _ migrations: [Migration]) throws {
    let newest = migrations.map(\.number).max() ?? 0
    let applied = try connection.query(
      Statement("SELECT number, name, checksum FROM schema_migrations ORDER BY number DESC")
    ).map { (number: Int(try $0.int64(0)), name: try $0.text(1), checksum: try $0.text(2)) }
    if let newer = applied.first, newer.number > newest {
      throw DatabaseError(
        .newerSchema,
        """
        the database is at migration \(newer.number) (\(newer.name)), this program knows those up to \
        \(newest): use the newer program again, or restore a backup made before it
        """)
    }
    let unknown = applied.last { row in
      !migrations.contains { $0.number == row.number && $0.checksum == row.checksum }
    }
    guard let unknown else { return }
    throw DatabaseError(
      .changedMigration,
      "migration \(unknown.number) (\(unknown.name)), which the database has applied, is not this program's")
  }

  /// The number of the last migration that `database` has applied; 0 if it is empty.
  package static func version(of database: any Database) async throws -> Int {
    let isThere =
      switch database.engine {
      case .sqlite: "SELECT COUNT(*) FROM sqlite_master WHERE name = 'schema_migrations'"
      case .postgreSQL: "SELECT to_regclass('schema_migrations') IS NOT NULL"
      }
    return try await database.read { connection in
      guard try connection.query(Statement(isThere)).first?.flag(0) == true else { return 0 }
      let last = Statement("SELECT COALESCE(MAX(number), 0) FROM schema_migrations")
      return Int(try connection.query(last).first?.int64(0) ?? 0)
    }
  }

  private static let createTable = """
    CREATE TABLE IF NOT EXISTS schema_migrations (
      number BIGINT PRIMARY KEY,
      name TEXT NOT NULL,
      checksum TEXT NOT NULL,
      applied_at BIGINT NOT NULL
    )
    """
}

/// One numbered change of the schema. Once released it is never edited: the next change is the
/// next migration.
package struct Migration: Sendable, Hashable {
  /// Its place in the order, from 1.
  package let number: Int
  /// What it is about, as in its file's name: `0001_schema.sql` is `schema`.
  package let name: String
  /// The statements, separated by semicolons.
  package let sql: String
  /// SHA-256 of the text, in hex: tells when a migration was edited after it had been applied.
  package let checksum: String

  package init(_ number: Int, _ name: String, sql: String) {
    self.number = number
    self.name = name
    self.sql = sql
    checksum = SHA256.hash(data: Array(sql.utf8)).map { byte in
      let hex = String(byte, radix: 16)
      return byte < 16 ? "0" + hex : hex
    }.joined()
  }

  /// The migration with a text for every engine: what engines write differently stands there as a token, a
  /// dollar and a word. A word that is no token stays as it is, and fails when it is run.
  package init(_ number: Int, _ name: String, template: String, for engine: DatabaseEngine) {
    let tokens = engine.tokens
    self.init(number, name, sql: template.replacing(/\$([a-z_]+)/) { tokens[String($0.1)] ?? String($0.0) })
  }

  fileprivate func insertion(at time: Int64) -> Statement {
    Statement(
      """
      INSERT INTO schema_migrations (number, name, checksum, applied_at) VALUES ($1, $2, $3, $4)
      ON CONFLICT (number) DO NOTHING
      """,
      .integer(Int64(number)), .text(name), .text(checksum), .integer(time))
  }
}

extension DatabaseEngine {
  /// What the tokens of a migration's text stand for.
  fileprivate var tokens: [String: String] {
    switch self {
    case .sqlite:
      [
        "id": "INTEGER PRIMARY KEY", "fresh_id": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "int": "INTEGER", "bytes": "BLOB", "text": "TEXT",
        "strict": "STRICT", "strict_by_key": "STRICT, WITHOUT ROWID",
      ]
    case .postgreSQL:
      [
        "id": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "fresh_id": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "int": "BIGINT", "bytes": "BYTEA", "text": "TEXT COLLATE \"C\"",
        "strict": "", "strict_by_key": "",
      ]
    }
  }
}
