import Basics
import Foundation
import HTTPClient
import SQL
import Synchronization
import TestStore
import TestSupport
import Testing

@testable import Registrations

@Suite("Remote servers that register at two nodes at once")
struct RemoteServersRaceTests {
  private let store: Store

  init() async throws {
    store = try await Store()
  }

  /// Registers at a node while another one registers `rival`, whose row gets in the way of the node's own.
  ///
  /// - Parameters:
  ///   - uuid: of the row that the node inserts then, in SQL; likewise the hostname.
  private func register(
    _ application: RemoteServers.Application, overtakenBy rival: RemoteServers.Application, uuid: String,
    hostname: String
  ) async throws -> Bool {
    let collision = Statement(
      """
      INSERT INTO remote_servers
        (uuid, hostname, hostname_key, contact_email, key_hash, created_at, updated_at)
      SELECT \(uuid), \(hostname), \(hostname), '', key_hash, 0, 0 FROM remote_servers
      """)
    let database = RacedDatabase(store.database) { [store] in
      _ = try await store.servers.register(rival, mayCreate: true)
      _ = try await store.database.execute(collision)
    }
    let node = RemoteServers(
      database: database, storageKey: store.storageKey, now: { [clock = store.clock] in clock.now })
    return try await node.register(application, mayCreate: true)
  }

  private func application(_ uuid: UUID, _ hostname: String, key: String = "k") throws
    -> RemoteServers.Application
  {
    .init(uuid: uuid, key: key, hostname: try Hostname(hostname), contactEmail: "a@b.org")
  }

  @Test
  func `are one, where it is the same`() async throws {
    let application = try application(UUID(), "new.example.org")
    let isNew = try await register(
      application, overtakenBy: application, uuid: "uuid", hostname: "'other.example.org'")
    #expect(!isNew)
    #expect(try await store.servers.all().map(\.server.uuid) == [application.uuid])
  }

  @Test
  func `get what the other one left`() async throws {
    let (uuid, rival) = (UUID(), try application(UUID(), "new.example.org"))
    await #expect(throws: RemoteServers.RegistrationError.hostnameTaken) {
      try await register(
        try application(uuid, "new.example.org"), overtakenBy: rival, uuid: "'other'", hostname: "hostname")
    }
    await #expect(throws: RemoteServers.RegistrationError.wrongKey) {
      try await register(
        try application(rival.uuid, "third.example.org", key: "another"), overtakenBy: rival, uuid: "uuid",
        hostname: "'other.example.org'")
    }
    #expect(try await store.servers.all().map(\.server.uuid) == [rival.uuid])
  }
}

/// A database on which another node comes first at the first write, which fails with what that causes.
private final class RacedDatabase: Database {
  private let database: any Database
  private let rival: Mutex<(@Sendable () async throws -> Void)?>

  init(_ database: any Database, rival: @escaping @Sendable () async throws -> Void) {
    self.database = database
    self.rival = Mutex(rival)
  }

  var engine: DatabaseEngine { database.engine }

  func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await rival.withLock { exchange(&$0, with: nil) }?()
    try await database.transaction(kind, work)
  }

  func query(_ statement: Statement) async throws -> [Row] { try await database.query(statement) }

  func execute(_ statement: Statement) async throws -> [Row] { try await database.execute(statement) }

  func close() async {}
}
