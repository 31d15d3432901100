import Foundation
import Registrations
import SQL
import Sealing
import TestDatabase
import Testing

@testable import ZulipImport

extension Trait where Self == ConditionTrait {
  /// Skips what needs a PostgreSQL server where there is none.
  static var needsPostgreSQL: Self {
    .enabled(
      if: DatabaseEngine.available.contains(.postgreSQL),
      "TEST_POSTGRESQL_URL is not set: Scripts/proof/postgresql starts a server and prints its URL")
  }
}

/// The database of a Zulip bouncer, for a test.
struct ZulipBouncerDatabase {
  let test: TestDatabase
  var database: any Database { test.database }
  var source: ZulipSource { .database(test.url) }

  /// A database with the rows of ``ZulipRows``, changed by a script.
  init(_ script: String = "") async throws {
    test = try await TestDatabase(.postgreSQL, migrated: false)
    let schema = String(decoding: PackageResources.zulip_sql, as: UTF8.self)
    try await test.database.write { connection in
      try connection.runScript(schema)
      try connection.runScript(ZulipRows.script)
    }
    if !script.isEmpty { try await run(script) }
  }

  func run(_ script: String) async throws {
    try await database.write { try $0.runScript(script) }
  }

  /// Writes the tables as CSV files, as an operator would.
  func export(to folder: URL) async throws {
    guard let url = test.postgreSQLURL else { throw CocoaError(.fileNoSuchFile) }
    let commands = ZulipTable.allCases.flatMap { table in
      let file = folder.appending(path: "\(table.rawValue).csv").path
      return ["--command", "\\copy (SELECT * FROM \(table.rawValue) ORDER BY 1) TO '\(file)' CSV HEADER"]
    }
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["psql", "--quiet", "--no-psqlrc", "--set", "ON_ERROR_STOP=1", url] + commands
    try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
      process.terminationHandler = { _ in continuation.resume() }
      do { try process.run() } catch { continuation.resume(throwing: error) }
    }
    try #require(process.terminationStatus == 0)
  }
}

/// The database into which a test imports.
struct ImportTarget {
  static let key = StorageKey(bytes: [UInt8](repeating: 9, count: 32))
  static let now = Date(timeIntervalSince1970: 1_790_000_000)

  let test: TestDatabase
  var database: any Database { test.database }

  init(_ engine: DatabaseEngine = .chosen) async throws { test = try await TestDatabase(engine) }

  var servers: RemoteServers {
    RemoteServers(database: database, storageKey: Self.key, now: { Self.now })
  }

  /// - Parameter batch: how many rows are read at a time.
  func importing(batch: Int = 2000, now: Date = Self.now) -> ImportRun {
    ImportRun(database: database, storageKey: Self.key, batch: batch, now: { now })
  }

  /// What there is in the tables of the domain, tokens opened, rows in an order of their own.
  func contents() async throws -> [String] {
    let queries = [
      """
      SELECT 'server', uuid, hostname, hostname_key, contact_email, deactivated_at, last_request_at, last_version,
        last_merge_base, last_api_feature_level, last_audit_log_update_at, key_hash, created_at
      FROM remote_servers
      """,
      """
      SELECT 'realm', r.uuid, s.uuid, r.owner_secret_hash, r.realm_id, host, name, is_system_bot_realm,
        authentication_methods, org_type, is_deactivated, is_locally_deleted, date_created, r.last_request_at
      FROM remote_realms r JOIN remote_servers s ON s.id = r.server_id
      """,
      """
      SELECT e.realm_id AS place_1, e.token_id AS place_2, NULL AS place_3, 'e2ee' AS kind_of_row, token, r.uuid, token_id, kind, token_hash, target, bouncer_key_id, registered_at, ended_at
      FROM registrations e JOIN remote_realms r ON r.id = e.realm_id WHERE wire = 1
      """,
      """
      SELECT l.server_id AS place_1, l.user_id AS place_2, l.user_uuid AS place_3, 'legacy' AS kind_of_row, token, s.uuid, r.uuid, user_id, user_uuid, kind, token_hash, target, registered_at
      FROM registrations l JOIN remote_servers s ON s.id = l.server_id
        LEFT JOIN remote_realms r ON r.id = l.realm_id WHERE wire = 2
      """,
    ]
    return try await database.read { connection in
      try queries.flatMap { sql in
        try connection.query(Statement(sql)).map { row in
          try row.values.dropFirst(3).map { value in
            if case .bytes(let bytes) = value, bytes.count != 32 {
              let place =
                try row.text("kind_of_row") == "e2ee"
                ? SealedPlace.token(realm: row.value("place_1"), tokenID: row.value("place_2"))
                : SealedPlace.token(
                  server: row.value("place_1"), user: row.value("place_2"), uuid: row.value("place_3"))
              return try #require(Self.key.openText(bytes, at: place))
            }
            return "\(value)"
          }.joined(separator: " ")
        }
      }.sorted()
    }
  }
}
