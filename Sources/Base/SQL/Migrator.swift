import Basics
import Crypto
package import Foundation

/// Migrates a database to the schema of this program.
///
/// The table `schema_migrations(number, name, checksum, oldest, applied_at)` lists the applied migrations. Each
/// migration and its row are one transaction, so it is applied completely or not at all. Processes take
/// turns, and one that finds the row of a migration skips it. Older programs may use the database meanwhile and
/// afterwards, as far as ``Migration/oldest`` allows.
package enum Migrator {
  /// Applies the missing migrations in the order of their numbers.
  ///
  /// - Parameter permit: called in the transaction of each missing migration, which is not applied if it throws.
  /// - Returns: the applied ones, in order; empty if the database was up to date.
  /// - Throws: ``DatabaseError``: that of ``check(_:_:)``, before any change, or why a migration, which the
  ///   text names, failed; or what `permit` threw. Those before it stay applied.
  @discardableResult
  package static func migrate(
    _ database: any Database, _ migrations: [Migration], now: Date = Date(),
    permit: @escaping @Sendable (Migration, any Connection) throws -> Void = { _, _ in }
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
        let isOurs = try await givingWay(on: database.engine) {
          try await database.write { connection in
            try connection.lockSchema()
            let isOurs = try connection.run(migration.insertion(at: appliedAt)) == 1
            if isOurs {
              try permit(migration, connection)
              try connection.runScript(migration.sql)
            }
            return isOurs
          }
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

  private static let tries = 12
  private static let backoff = Backoff(first: 1, longest: 8, shares: 0.5...1)

  /// Runs the transaction of a migration again if it did not get a lock soon enough, for about a minute.
  ///
  /// What other nodes do queues behind whoever waits for a table's lock, and that may wait for long: for a backup, say. So
  /// each try is short (``Connection/lockSchema()``), and the queue is let through before the next.
  private static func givingWay<Result>(
    on engine: DatabaseEngine, _ transaction: () async throws -> Result
  ) async throws -> Result {
    for attempt in 1..<tries where engine == .postgreSQL {
      do { return try await transaction() } catch let error as DatabaseError where error.code == .busy {
        try await Task.sleep(for: .seconds(backoff.pause(after: attempt)))
      }
    }
    return try await transaction()
  }

  /// Checks that a program with `migrations` can use `database`, which must not be empty. Changes nothing.
  ///
  /// - Throws: ``DatabaseError``: ``DatabaseError/Code/newerSchema`` if a newer program has migrated the database so
  ///   that this one cannot use it, ``DatabaseError/Code/changedMigration`` if an applied migration has since been
  ///   edited or removed.
  package static func check(_ database: any Database, _ migrations: [Migration]) async throws {
    try await database.read { try check($0, migrations) }
  }

  private static func check(_ connection: any Connection, _ migrations: [Migration]) throws {
    let newest = migrations.map(\.number).max() ?? 0
    try checkOldest(newest, on: connection)
    let applied = try connection.query(
      Statement(
        "SELECT number, name, checksum FROM schema_migrations WHERE number <= $1 ORDER BY number",
        .integer(Int64(newest)))
    ).map { row in
      (number: Int(try row.int64("number")), name: try row.text("name"), checksum: try row.text("checksum"))
    }
    let unknown = applied.first { row in
      !migrations.contains { $0.number == row.number && $0.checksum == row.checksum }
    }
    guard let unknown else { return }
    throw DatabaseError(
      .changedMigration,
      "migration \(unknown.number) (\(unknown.name)), which the database has applied, is not this program's")
  }

  /// Checks that a program that knows the migrations up to `newest` can use the database.
  ///
  /// - Throws: ``DatabaseError/Code/newerSchema``.
  package static func checkOldest(_ newest: Int, on connection: any Connection) throws {
    let tooNew = Statement(
      "SELECT number, name FROM schema_migrations WHERE oldest > $1 ORDER BY number DESC LIMIT 1",
      .integer(Int64(newest)))
    guard let row = try connection.query(tooNew).first else { return }
    throw DatabaseError(
      .newerSchema,
      """
      the database is at migration \(try row.int64("number")) (\(try row.text("name"))), this program knows those up \
      to \(newest): use the newer program again, or restore a backup made before it
      """)
  }

  /// The number of the last migration that `database` has applied; 0 if it is empty.
  package static func version(of database: any Database) async throws -> Int {
    let isThere =
      switch database.engine {
      case .sqlite: "SELECT COUNT(*) AS is_there FROM sqlite_master WHERE name = 'schema_migrations'"
      case .postgreSQL: "SELECT to_regclass('schema_migrations') IS NOT NULL AS is_there"
      }
    return try await database.read { connection in
      guard try connection.query(Statement(isThere)).first?.flag("is_there") == true else { return 0 }
      let last = Statement("SELECT COALESCE(MAX(number), 0) AS number FROM schema_migrations")
      return Int(try connection.query(last).first?.int64("number") ?? 0)
    }
  }

  private static let createTable = """
    CREATE TABLE IF NOT EXISTS schema_migrations (
      number BIGINT PRIMARY KEY,
      name TEXT NOT NULL,
      checksum TEXT NOT NULL,
      oldest BIGINT NOT NULL,
      applied_at BIGINT NOT NULL
    )
    """
}

/// One numbered change of the schema. Never edited once released: later changes are new migrations.
package struct Migration: Sendable, Hashable {
  /// The position in the order, from 1.
  package let number: Int
  /// The name in its file's name: `schema` for `0001_schema.sql`.
  package let name: String
  /// How old a program may be to serve once this is applied: the number of the last migration that it must at least know.
  /// 1 for one that only adds; its own number for one that no older program survives.
  package let oldest: Int
  /// Statements separated by semicolons.
  package let sql: String
  /// SHA-256 of the SQL, in hex, to detect a migration that was edited after it had been applied.
  package let checksum: String

  /// - Parameter oldest: ``oldest``; nil: the migration's own number.
  package init(_ number: Int, _ name: String, oldest: Int? = nil, sql: String) {
    self.number = number
    self.name = name
    self.oldest = oldest ?? number
    self.sql = sql
    checksum = SHA256.hash(data: Array(sql.utf8)).map { byte in
      let hex = String(byte, radix: 16)
      return byte < 16 ? "0" + hex : hex
    }.joined()
  }

  /// Creates the migration from a text for every engine. Syntax that differs between engines is written as a
  /// token, a dollar and a word. Unknown words stay as they are, and fail when run.
  package init(
    _ number: Int, _ name: String, oldest: Int? = nil, template: String, for engine: DatabaseEngine
  ) {
    let tokens = engine.tokens
    self.init(
      number, name, oldest: oldest,
      sql: template.replacing(/\$([a-z_]+)/) { tokens[String($0.1)] ?? String($0.0) })
  }

  fileprivate func insertion(at time: Int64) -> Statement {
    Statement(
      """
      INSERT INTO schema_migrations (number, name, checksum, oldest, applied_at) VALUES ($1, $2, $3, $4, $5)
      ON CONFLICT (number) DO NOTHING
      """,
      .integer(Int64(number)), .text(name), .text(checksum), .integer(Int64(oldest)), .integer(time))
  }
}

extension DatabaseEngine {
  /// What the tokens of a migration's text are replaced by.
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
