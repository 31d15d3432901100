internal import Foundation
internal import Registrations
internal import SQL

/// What is written down of a migration beside the rows it brings in, in the same transactions: how far it
/// is, what it has counted and refused, and what the source's ids are here.
struct MigrationJournal: Sendable {
  let database: any Database

  /// A run, from its first start to its end.
  struct Run: Sendable {
    let startedAt: Date
    let firstLegacyID: Int64
  }

  /// How far a table is.
  struct Progress: Sendable {
    var position: Int64 = 0
    var counts = MigrationCounts()
  }

  /// Goes on with the run of this source that was stopped, or else begins one.
  func begin(_ identity: String, now: Date) async throws -> Run {
    let now = now.stored
    return try await database.write { connection in
      let rows = try connection.query(
        Statement(
          """
          SELECT started_at, first_legacy_id FROM zulip_migration_runs WHERE source = $1 AND finished_at IS NULL
          """, .text(identity)))
      if let row = rows.first {
        return Run(startedAt: Date(milliseconds: try row.int64(0)), firstLegacyID: try row.int64(1))
      }
      for table in ["runs", "progress", "servers", "realms", "rejects"] {
        try connection.run(Statement("DELETE FROM zulip_migration_\(table)"))
      }
      let first = try RegistrationImport.nextLegacyID(on: connection)
      try connection.run(
        Statement(
          "INSERT INTO zulip_migration_runs (id, source, started_at, first_legacy_id) VALUES (1, $1, $2, $3)",
          .text(identity), .integer(now.milliseconds), .integer(first)))
      for table in ZulipTable.allCases {
        try connection.run(
          Statement(
            "INSERT INTO zulip_migration_progress (table_name, position, counts) VALUES ($1, 0, $2)",
            .text(table.rawValue), .text(try Self.encoded(MigrationCounts()))))
      }
      return Run(startedAt: now, firstLegacyID: first)
    }
  }

  /// Ends the run: the next one begins anew. What only a run needs goes, its counts stay until then.
  func finish(now: Date) async throws {
    try await database.write { connection in
      try connection.run(
        Statement("UPDATE zulip_migration_runs SET finished_at = $1", .integer(now.milliseconds)))
      try connection.run(Statement("DELETE FROM zulip_migration_servers"))
      try connection.run(Statement("DELETE FROM zulip_migration_realms"))
    }
  }

  /// How far each table is.
  func progress() async throws -> [ZulipTable: Progress] {
    let rows = try await database.read { connection in
      try connection.query(Statement("SELECT table_name, position, counts FROM zulip_migration_progress"))
    }
    var progress: [ZulipTable: Progress] = [:]
    for row in rows {
      guard let table = ZulipTable(rawValue: try row.text(0)) else { continue }
      progress[table] = Progress(
        position: try row.int64(1),
        counts: try JSONDecoder().decode(MigrationCounts.self, from: Data(try row.text(2).utf8)))
    }
    return progress
  }

  /// Writes down how far a table is, if it was as far as this run left it.
  static func advance(
    _ table: ZulipTable, from old: Progress, to new: Progress, on connection: any Connection
  ) throws {
    let before = try encoded(old.counts)
    let changed = try connection.run(
      Statement(
        """
        UPDATE zulip_migration_progress SET position = $4, counts = $5
        WHERE table_name = $1 AND position = $2 AND counts = $3
        """, .text(table.rawValue), .integer(old.position), .text(before), .integer(new.position),
        .text(try encoded(new.counts))))
    guard changed == 1 else { throw MigrationDisturbed() }
  }

  private static func encoded(_ counts: MigrationCounts) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return String(decoding: try encoder.encode(counts), as: UTF8.self)
  }
}

/// Another program is bringing rows in at the same time.
package struct MigrationDisturbed: Error, Sendable, Hashable, CustomStringConvertible {
  /// What to do.
  package var description: String { "another migration is running: wait for its end, or end it" }
}
