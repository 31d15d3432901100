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
  /// - Throws: ``DatabaseError``: ``DatabaseError/Code/newerSchema`` if a newer program has
  ///   migrated the database, ``DatabaseError/Code/changedMigration`` if an applied migration
  ///   has since been edited or removed (both before anything is changed), else why a migration
  ///   failed, which its text names. Those before it stay.
  @discardableResult
  package static func migrate(
    _ database: any Database, _ migrations: [Migration], now: Date = Date()
  ) async throws -> [Migration] {
    let known = migrations.sorted { $0.number < $1.number }
    let applied = try await database.write { connection in
      try connection.lockSchema()
      try connection.run(createTable)
      return try connection.query(selectApplied).map(Applied.init)
    }
    try check(applied, against: known)
    let appliedAt = Int64(now.timeIntervalSince1970 * 1000)
    let numbers = Set(applied.map(\.number))
    var fresh: [Migration] = []
    for migration in known where !numbers.contains(migration.number) {
      if try await apply(migration, to: database, at: appliedAt) { fresh.append(migration) }
    }
    return fresh
  }

  /// Checks that `migrations` know all that `database` has applied, which must not be empty. Changes nothing.
  ///
  /// - Throws: ``DatabaseError``: ``DatabaseError/Code/newerSchema`` or ``DatabaseError/Code/changedMigration``.
  package static func check(_ database: any Database, _ migrations: [Migration]) async throws {
    let applied = try await database.read { try $0.query(selectApplied).map(Applied.init) }
    try check(applied, against: migrations.sorted { $0.number < $1.number })
  }

  /// The number of the last migration that `database` has applied; 0 if it is empty.
  package static func version(of database: any Database) async throws -> Int {
    let engine = database.engine
    return try await database.read { connection in
      guard try connection.query(selectTable(engine)).first?.flag(0) == true else { return 0 }
      return Int(try connection.query(selectVersion).first?.int64(0) ?? 0)
    }
  }

  /// Returns false if another process was quicker.
  private static func apply(
    _ migration: Migration, to database: any Database, at appliedAt: Int64
  ) async throws -> Bool {
    do {
      return try await database.write { connection in
        try connection.lockSchema()
        let isOurs = try connection.run(insertApplied(migration, at: appliedAt)) == 1
        if isOurs { try connection.runScript(migration.sql) }
        return isOurs
      }
    } catch let error as DatabaseError {
      throw DatabaseError(
        error.code, "migration \(migration.number) (\(migration.name)) failed: \(error.message)",
        constraint: error.constraint)
    }
  }

  private static func check(_ applied: [Applied], against known: [Migration]) throws(DatabaseError) {
    let newest = known.last?.number ?? 0
    if let newer = applied.last, newer.number > newest {
      throw DatabaseError(
        .newerSchema,
        """
        the database is at migration \(newer.number) (\(newer.name)), this program knows those up to \
        \(newest): use the newer program again, or restore a backup made before it
        """)
    }
    let byNumber = Dictionary(known.map { ($0.number, $0) }, uniquingKeysWith: { first, _ in first })
    for row in applied where byNumber[row.number]?.checksum != row.checksum {
      throw DatabaseError(
        .changedMigration,
        "migration \(row.number) (\(row.name)), which the database has applied, is not this program's")
    }
  }
}

/// A row of `schema_migrations`.
private struct Applied: Sendable {
  let number: Int
  let name: String
  let checksum: String

  init(_ row: Row) throws {
    number = Int(try row.int64(0))
    name = try row.text(1)
    checksum = try row.text(2)
  }
}

private let createTable = Statement(
  """
  CREATE TABLE IF NOT EXISTS schema_migrations (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at BIGINT NOT NULL
  )
  """)

private let selectApplied = Statement(
  "SELECT number, name, checksum FROM schema_migrations ORDER BY number")

private let selectVersion = Statement("SELECT COALESCE(MAX(number), 0) FROM schema_migrations")

/// Whether there is a table of applied migrations.
private func selectTable(_ engine: DatabaseEngine) -> Statement {
  switch engine {
  case .sqlite: Statement("SELECT COUNT(*) FROM sqlite_master WHERE name = 'schema_migrations'")
  case .postgreSQL: Statement("SELECT to_regclass('schema_migrations') IS NOT NULL")
  }
}

private func insertApplied(_ migration: Migration, at appliedAt: Int64) -> Statement {
  Statement(
    """
    INSERT INTO schema_migrations (number, name, checksum, applied_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (number) DO NOTHING
    """,
    .integer(Int64(migration.number)), .text(migration.name), .text(migration.checksum),
    .integer(appliedAt))
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

  /// The migration with the given text.
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
