import SQL
import TestDatabase
import Testing

@testable import Operator

@Suite struct DeviceCountsTests {
  @Test(arguments: DatabaseEngine.available)
  func `Devices are counted by server and realm`(_ engine: DatabaseEngine) async throws {
    try await TestDatabase.with(engine) { database in
      try await database.write { connection in
        _ = try connection.run("INSERT INTO metadata (name, value) VALUES ('test', $1)", .bytes([1]))
        try connection.runScript(
          """
          INSERT INTO remote_servers (id, uuid, hostname, hostname_key, contact_email, key_hash, created_at, updated_at)
          SELECT n, 'server-' || n, 'Chat' || n, 'chat' || n, '', value, 0, 0
          FROM (SELECT 1 AS n UNION SELECT 2) numbers, metadata;
          INSERT INTO remote_realms
            (id, server_id, uuid, owner_secret_hash, host, name, is_system_bot_realm, authentication_methods, org_type,
             is_deactivated, is_locally_deleted, date_created)
          SELECT n, (n + 1) / 2, 'realm-' || n, value, 'realm' || n, 'Realm ' || n, 0, '{}', 0, 0, 0, 0
          FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3) numbers, metadata;
          """)
        // Two users of one device, and one of another.
        for (realm, user, token) in [("1", 1, 1), ("1", 2, 1), ("2", 4, 1), ("NULL", 3, 2)] {
          try connection.runScript(
            """
            INSERT INTO registrations (wire, server_id, realm_id, user_id, kind, token, token_hash, registered_at)
            SELECT 2, 1, \(realm), \(user), 2, value, \(token), 0 FROM metadata
            """)
        }
        for (realm, token, end) in [(1, 5, "NULL"), (3, 5, "NULL"), (3, 6, "NULL"), (3, 7, "1")] {
          try connection.runScript(
            """
            INSERT INTO registrations (wire, realm_id, token_id, kind, token, token_hash, registered_at, ended_at)
            SELECT 1, \(realm), \(token), 2, value, \(token), 0, \(end) FROM metadata
            """)
        }
      }
      #expect(
        try await DeviceCounts.all(in: database) == [
          .init(server: 1, realm: 1): .init(legacy: 1, e2ee: 1),
          .init(server: 1, realm: 2): .init(legacy: 1, e2ee: 0),
          .init(server: 1, realm: 0): .init(legacy: 1, e2ee: 0),
          .init(server: 2, realm: 3): .init(legacy: 0, e2ee: 2),
        ])
    }
  }
}
