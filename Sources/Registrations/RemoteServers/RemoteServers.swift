package import Foundation
package import SQL
package import Sealing

/// The chat servers that may use this bouncer.
package struct RemoteServers: Sendable {
  /// How long the previous key is accepted after a rotation (`Documentation/Decisions` 0011): stock
  /// `register_server --rotate-key` makes one more call with the old key before it saves the new.
  static let previousKeyGrace: TimeInterval = 10 * 60

  /// Of the chat server that is built in: a name that nobody else can have.
  package static let builtInHostname = "built-in.localhost"

  /// Characters in a key (`zulip_org_key`).
  package static let keyLength = 64

  package static let keyPurpose = StorageKey.Purpose("remote_servers.key")

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date
  let cache = CredentialCache()

  /// After so long a change made in another process is known in every other.
  package static let propagation = CredentialCache.lifetime

  /// The servers in `database`, whose keys are hashed under `storageKey`.
  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// The server with this UUID.
  package func find(uuid: UUID) async throws -> RemoteServer? {
    try await find("uuid = $1", .text(uuid.canonical))
  }

  /// The server with this hostname; deactivated ones too.
  package func find(hostname: Hostname) async throws -> RemoteServer? {
    try await find("hostname_key = $1", .text(hostname.text))
  }

  /// The server with this hostname, however it is spelled, or with what it has in place of one.
  package func find(hostname: String) async throws -> RemoteServer? {
    try await find("hostname_key = $1", .text(Hostname.key(of: hostname)))
  }

  private func find(_ condition: String, _ value: Value) async throws -> RemoteServer? {
    let statement = Statement("SELECT \(RemoteServer.columns) FROM remote_servers WHERE \(condition)", value)
    return try await database.lookUp(statement).first.map(RemoteServer.init)
  }

  /// A server with what it has here.
  package struct Summary: Sendable, Hashable {
    /// The server.
    package let server: RemoteServer
    /// Realms it has told us of and not deleted since.
    package let realms: Int64
    /// E2EE registrations that have not expired.
    package let registrations: Int64
    /// Registrations of the old, unencrypted kind that are left.
    package let legacyRegistrations: Int64
  }

  /// Every server, by hostname. Reads every registration: for people, not for requests.
  package func all() async throws -> [Summary] {
    let statement = Statement(
      """
      SELECT \(RemoteServer.columns),
        (SELECT COUNT(*) FROM remote_realms r WHERE r.server_id = s.id AND r.is_locally_deleted = 0),
        (SELECT COUNT(*) FROM registrations e JOIN remote_realms r ON r.id = e.realm_id
          WHERE r.server_id = s.id AND e.token_id IS NOT NULL AND e.ended_at IS NULL),
        COALESCE(l.number, 0)
      FROM remote_servers s LEFT JOIN (
          SELECT server_id, COUNT(*) AS number FROM registrations WHERE wire = 2 GROUP BY server_id
        ) l ON l.server_id = s.id
      ORDER BY hostname_key
      """)
    return try await database.read { connection in
      try connection.query(statement).map { row in
        Summary(
          server: try RemoteServer(row: row), realms: try row.int64(RemoteServer.columnCount),
          registrations: try row.int64(RemoteServer.columnCount + 1),
          legacyRegistrations: try row.int64(RemoteServer.columnCount + 2))
      }
    }
  }

  /// Switches a server off or on again.
  package func setDeactivated(_ id: Int64, _ isDeactivated: Bool) async throws {
    let now = Value.integer(now().milliseconds)
    defer { cache.clear() }
    try await database.write { connection in
      let changed = try connection.run(
        isDeactivated
          ? Statement(
            """
            UPDATE remote_servers SET deactivated_at = $2, updated_at = $2
            WHERE id = $1 AND deactivated_at IS NULL
            """, .integer(id), now)
          : Statement(
            """
            UPDATE remote_servers SET deactivated_at = NULL, updated_at = $2
            WHERE id = $1 AND deactivated_at IS NOT NULL
            """, .integer(id), now))
      guard changed > 0 else { return }
      try connection.audit(isDeactivated ? .deactivated : .reactivated, server: id, at: now)
    }
  }
}

/// What is written down of a server's life, under Zulip's numbers.
enum ServerEvent: Int64 {
  case deactivated = 10201
  case reactivated = 10202
  case created = 10215
  /// A new key was given to whoever had proved the hostname.
  case keyTransferred = 10216
}

extension Connection {
  func audit(_ event: ServerEvent, server: Int64, at time: Value) throws {
    try run(
      Statement(
        "INSERT INTO remote_server_audit_log (server_id, event_type, event_time) VALUES ($1, $2, $3)",
        .integer(server), .integer(event.rawValue), time))
  }
}
