extension Database {
  /// PostgreSQL's timeline, 8 hex digits: each promotion of a standby and each recovery to a point in time
  /// begins another one. nil on SQLite, and where the server does not tell it, as some managed ones.
  package func timeline() async throws -> String? {
    guard engine == .postgreSQL else { return nil }
    do {
      let rows = try await query("SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline")
      return try rows.first?.text("timeline")
    } catch let error as DatabaseError where !error.isTransient {
      return nil
    }
  }
}
