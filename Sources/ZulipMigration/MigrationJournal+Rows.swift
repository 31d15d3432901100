internal import SQL

// MARK: - What the source's ids are here

extension MigrationJournal {
  /// A realm of the source as it is here.
  struct KnownRealm: Sendable {
    let realm: Int64
    let server: Int64
  }

  /// The rows here of servers there.
  func servers(_ ids: Set<Int64>) async throws -> [Int64: Int64] {
    try await map(ids, "SELECT id, server_id FROM zulip_migration_servers WHERE id IN ($list)") {
      try $0.int64(1)
    }
  }

  /// The rows here of realms there, with those of their servers.
  func realms(_ ids: Set<Int64>) async throws -> [Int64: KnownRealm] {
    try await map(ids, "SELECT id, server_id, realm_id FROM zulip_migration_realms WHERE id IN ($list)") {
      KnownRealm(realm: try $0.int64(2), server: try $0.int64(1))
    }
  }

  private func map<Known>(
    _ ids: Set<Int64>, _ sql: String, _ read: (Row) throws -> Known
  ) async throws -> [Int64: Known] {
    guard !ids.isEmpty else { return [:] }
    let statement = Statement(sql, list: ids.map { .integer($0) })
    let rows = try await database.query(statement)
    return try rows.reduce(into: [:]) { $0[try $1.int64(0)] = try read($1) }
  }

  /// Notes what a server is here.
  static func note(server id: Int64, as server: Int64, on connection: any Connection) throws {
    try connection.run(
      Statement(
        "INSERT INTO zulip_migration_servers (id, server_id) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING",
        .integer(id), .integer(server)))
  }

  /// Notes what a realm is here.
  static func note(realm id: Int64, as known: KnownRealm, on connection: any Connection) throws {
    try connection.run(
      Statement(
        """
        INSERT INTO zulip_migration_realms (id, server_id, realm_id) VALUES ($1, $2, $3)
        ON CONFLICT (id) DO NOTHING
        """, .integer(id), .integer(known.server), .integer(known.realm)))
  }
}

// MARK: - What was refused

extension MigrationJournal {
  /// A row that was refused.
  struct Reject: Sendable, Hashable {
    let id: Int64
    let reason: Refusal
  }

  /// Notes rows that were refused.
  static func note(_ rejects: [Reject], in table: ZulipTable, on connection: any Connection) throws {
    for reject in rejects {
      try connection.run(
        Statement(
          "INSERT INTO zulip_migration_rejects (table_name, row_id, reason) VALUES ($1, $2, $3)",
          .text(table.rawValue), .integer(reject.id), .text(reject.reason.rawValue)))
    }
  }

  /// Everything that the run has refused so far, a page at a time.
  func rejects(_ body: (_ table: String, _ id: Int64, _ reason: String) throws -> Void) async throws {
    var last: Int64 = 0
    while true {
      let statement = Statement(
        """
        SELECT id, table_name, row_id, reason FROM zulip_migration_rejects WHERE id > $1 ORDER BY id LIMIT 1000
        """, .integer(last))
      let rows = try await database.query(statement)
      guard let end = rows.last else { return }
      for row in rows { try body(try row.text(1), try row.int64(2), try row.text(3)) }
      last = try end.int64(0)
    }
  }
}
