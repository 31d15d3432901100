/// What tells a PostgreSQL server and its standbys from others, and a primary from the one before it.
package struct PostgreSQLCluster: Sendable, Hashable {
  /// The same for a primary and its standbys.
  package let system: String
  /// 8 hex digits: each promotion of a standby and each recovery to a point in time begins another one.
  package let timeline: String

  package init(system: String, timeline: String) {
    self.system = system
    self.timeline = timeline
  }
}

extension Database {
  /// The timeline of ``PostgreSQLCluster``. nil on SQLite, and where the server does not tell it, as some managed ones.
  package func timeline() async throws -> String? {
    try await answer(to: "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline") {
      try $0.text("timeline")
    }
  }

  /// nil on SQLite, and where the server does not tell it, as some managed ones.
  package func cluster() async throws -> PostgreSQLCluster? {
    try await answer(
      to: """
        SELECT CAST(system_identifier AS TEXT) AS system,
          substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS timeline
        FROM pg_control_system()
        """
    ) { PostgreSQLCluster(system: try $0.text("system"), timeline: try $0.text("timeline")) }
  }

  private func answer<Result>(to sql: String, _ read: (Row) throws -> Result) async throws -> Result? {
    guard engine == .postgreSQL else { return nil }
    do { return try await query(Statement(sql)).first.map(read) } catch let error as DatabaseError
      where !error.isTransient || error.code == .notPermitted
    {
      return nil
    }
  }
}
