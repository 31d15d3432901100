import Foundation
import SQL
import Synchronization
import TestDatabase
import Testing

@testable import Operator

@Suite struct MigrationStatusTests {
  private final class Place: Sendable {
    let test: TestDatabase
    let days = Mutex(20_000.0)

    init(_ engine: DatabaseEngine = .chosen) async throws {
      test = try await TestDatabase(engine)
      try await run(
        """
        INSERT INTO remote_servers (id, uuid, hostname, hostname_key, contact_email, key_hash, created_at, updated_at)
        SELECT n, 'server-' || n, 'Chat' || n, 'chat' || n, '', (SELECT value FROM metadata LIMIT 1), 0, 0
        FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3) numbers;
        INSERT INTO remote_realms
          (id, server_id, uuid, owner_secret_hash, host, name, is_system_bot_realm, authentication_methods, org_type,
           is_deactivated, is_locally_deleted, date_created)
        SELECT n, (n + 1) / 2, 'realm-' || n, (SELECT value FROM metadata LIMIT 1), 'realm' || n, 'Realm ' || n, 0,
          '{}', 0, 0, 0, 0
        FROM (SELECT 1 AS n UNION SELECT 2 UNION SELECT 3) numbers;
        """)
    }

    var status: MigrationStatus {
      MigrationStatus(
        database: test.database,
        now: { Date(timeIntervalSince1970: self.days.withLock { $0 } * 86_400 + 3600) })
    }

    func run(_ sql: String) async throws {
      try await test.database.write { connection in
        try connection.run(
          Statement(
            "INSERT INTO metadata (name, value) VALUES ('test', $1) ON CONFLICT (name) DO NOTHING",
            .bytes([1])))
        try connection.runScript(sql)
      }
    }

    func addLegacy(server: Int, realm: String, user: Int, token: Int) async throws {
      try await run(
        """
        INSERT INTO registrations (wire, server_id, realm_id, user_id, kind, token, token_hash, registered_at)
        VALUES (2, \(server), \(realm), \(user), 2, (SELECT value FROM metadata LIMIT 1), \(token), 0)
        """)
    }

    func addE2EE(realm: Int, token: Int, expired: String = "NULL") async throws {
      try await run(
        """
        INSERT INTO registrations (wire, realm_id, token_id, kind, token, token_hash, registered_at, ended_at)
        VALUES (1, \(realm), \(token), 2, (SELECT value FROM metadata LIMIT 1), \(token), 0, \(expired))
        """)
    }

    func nextDay(_ count: Double = 1) { days.withLock { $0 += count } }
  }

  @Test func `Devices are counted by server and realm`() async throws {
    let place = try await Place()
    // Two users of one device, and one of another.
    try await place.addLegacy(server: 1, realm: "1", user: 1, token: 1)
    try await place.addLegacy(server: 1, realm: "1", user: 2, token: 1)
    try await place.addLegacy(server: 1, realm: "2", user: 4, token: 1)
    try await place.addLegacy(server: 1, realm: "NULL", user: 3, token: 2)
    try await place.addE2EE(realm: 1, token: 5)
    try await place.addE2EE(realm: 3, token: 5)
    try await place.addE2EE(realm: 3, token: 6)
    try await place.addE2EE(realm: 3, token: 7, expired: "1")
    let report = try await place.status.report()
    #expect(report.servers.map(\.hostname) == ["Chat1", "Chat2"])
    #expect(report.servers.map(\.devices) == [.init(legacy: 3, e2ee: 1), .init(legacy: 0, e2ee: 2)])
    #expect(report.servers[0].realms.map(\.host) == ["realm1", "realm2", nil])
    #expect(
      report.servers[0].realms.map(\.devices) == [
        .init(legacy: 1, e2ee: 1), .init(legacy: 1, e2ee: 0), .init(legacy: 1, e2ee: 0),
      ])
    #expect(report.history.map(\.devices) == [.init(legacy: 3, e2ee: 3)])
    #expect(report.cleanup == .init(outstanding: 0, oldestAt: nil, lastFailure: nil))
  }

  @Test func `The way is shown by the day`() async throws {
    let place = try await Place()
    try await place.addLegacy(server: 1, realm: "1", user: 1, token: 1)
    try await place.addLegacy(server: 2, realm: "3", user: 1, token: 2)
    try await place.status.record()
    place.nextDay()
    try await place.status.record()
    place.nextDay()
    try await place.status.record()
    try await place.run("DELETE FROM registrations WHERE wire = 2 AND server_id = 1")
    try await place.addE2EE(realm: 1, token: 1)
    // Twice on a day: the later one counts.
    try await place.status.record()
    place.nextDay(3)
    try await place.run("DELETE FROM registrations WHERE wire = 1")
    try await place.status.record()

    let rows = try await place.test.database.read { connection in
      try connection.query(Statement("SELECT COUNT(*) FROM migration_history"))
    }
    // Two at first, and two changes: days on which nothing happens take no room.
    #expect(try rows.first?.int64(0) == 4)
    let report = try await place.status.report()
    let first = Date(timeIntervalSince1970: 20_000 * 86_400)
    #expect(
      report.history == [
        .init(date: first, devices: .init(legacy: 2, e2ee: 0)),
        .init(date: first + 2 * 86_400, devices: .init(legacy: 1, e2ee: 1)),
        .init(date: first + 5 * 86_400, devices: .init(legacy: 1, e2ee: 0)),
      ])
    #expect(report.servers.first?.realms.first?.history.map(\.devices.legacy) == [1, 0, 0])
  }

  @Test func `The history does not grow for ever, and keeps its sums`() async throws {
    let place = try await Place()
    for token in 1...6 {
      try await place.addE2EE(realm: 1, token: token)
      try await place.status.record()
      place.nextDay(300)
    }
    try await place.addE2EE(realm: 3, token: 1)
    try await place.status.record()
    let rows = try await place.test.database.read { connection in
      try connection.query(Statement("SELECT day FROM migration_history WHERE realm_id = 1 ORDER BY day"))
    }
    // On day 21 800 those before 21 000 go, but for the latest of them.
    #expect(try rows.map { try $0.int64(0) } == [20_900, 21_200, 21_500])
    #expect(try await place.status.report().history.map(\.devices.e2ee) == [4, 5, 6, 7])
  }

  @Test func `A server keeps its last numbers, whatever others have`() async throws {
    let place = try await Place()
    for server in [2, 1] {
      try await place.addLegacy(server: server, realm: "NULL", user: 1, token: server)
      try await place.status.record()
      place.nextDay(1000)
    }
    try await place.status.record()
    let rows = try await place.test.database.read { connection in
      try connection.query(Statement("SELECT server_id FROM migration_history ORDER BY server_id"))
    }
    #expect(try rows.map { try $0.int64(0) } == [1, 2])
  }

  /// More than one transaction has.
  @Test func `Each of many realms is written down once`() async throws {
    let place = try await Place(.sqlite)
    let numbers =
      "WITH RECURSIVE numbers (n) AS (SELECT 4 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1200)"
    try await place.run(
      """
      \(numbers)
      INSERT INTO remote_realms
        (id, server_id, uuid, owner_secret_hash, host, name, is_system_bot_realm, authentication_methods, org_type,
         is_deactivated, is_locally_deleted, date_created)
      SELECT n, 1, 'realm-' || n, value, 'realm' || n, 'Realm', 0, '{}', 0, 0, 0, 0
      FROM numbers, metadata WHERE name = 'test';
      \(numbers)
      INSERT INTO registrations (wire, realm_id, token_id, kind, token, token_hash, registered_at)
      SELECT 1, n, n, 2, value, n, 0 FROM numbers, metadata WHERE name = 'test';
      """)
    try await place.test.database.write { connection in
      _ = try connection.run(
        "CREATE TRIGGER once BEFORE UPDATE ON migration_history BEGIN SELECT RAISE(ABORT, 'twice'); END")
    }
    try await place.status.record()
    let rows = try await place.test.database.query(Statement("SELECT COUNT(*) FROM migration_history"))
    #expect(try rows.first?.int64(0) == 1197)
  }

  @Test func `What the bouncer has not been told is shown`() async throws {
    let place = try await Place()
    for (number, failure) in [(3, "'older'"), (1, "NULL"), (2, "'timeout'")] {
      try await place.run(
        """
        INSERT INTO legacy_unregistrations (realm_uuid, user_uuid, user_id, requested_at, due_at, attempts, failure)
        VALUES ('r', 'u', 1, \(number * 1000), \(9 - number), 1, \(failure))
        """)
    }
    #expect(
      try await place.status.report().cleanup
        == .init(outstanding: 3, oldestAt: Date(timeIntervalSince1970: 1), lastFailure: "timeout"))
  }
}
