import TestDatabase

@testable import SQL

/// Runs `body` with a new PostgreSQL database and closes it.
func withPostgreSQL<Result>(
  options: PostgreSQLDatabase.Options = .init(), observer: DatabaseObserver? = nil, script: String = "",
  _ body: (PostgreSQLDatabase, TestDatabase) async throws -> Result
) async throws -> Result {
  let test = try await TestDatabase(.postgreSQL, migrated: false)
  let database = try await PostgreSQLDatabase.open(
    url: try test.serverURL(), options: options, observer: observer)
  return try await database.closing(after: script) { try await body(database, test) }
}

extension TestDatabase {
  /// The connection URI for libpq.
  func serverURL() throws -> String {
    guard case .postgreSQL(let url) = url.target else { throw DatabaseError(.invalidURL, "no server") }
    return url
  }

  /// Ends all connections of `database`, but for this one's own.
  func terminateOthers() async throws -> Int64 {
    let ended = try await database.write { connection in
      try connection.query(
        Statement(
          """
          SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid()
          """))
    }
    return try ended.integer
  }
}
