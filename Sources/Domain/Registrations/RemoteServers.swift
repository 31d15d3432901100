package import Basics
package import Foundation
import HTTPClient
package import SQL
package import Sealing

/// The chat servers that may use this bouncer.
package struct RemoteServers: Sendable {
  /// Seconds for which the previous key may still call after a rotation (`Documentation/Decisions` 0011): stock
  /// `register_server --rotate-key` makes one more call with the old key before it saves the new one.
  static let previousKeyGrace: TimeInterval = 10 * 60

  /// Hostname of the built-in chat server, which nobody else can have.
  package static let builtInHostname = "built-in.localhost"

  /// Characters in a key (`zulip_org_key`).
  package static let keyLength = 64

  package static let keyPurpose = StorageKey.Purpose("remote_servers.key")

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date
  let cache = ReadCache<Credentials, RemoteServer>(maximum: 10_000)

  /// Time after which a change by another process takes effect here.
  package static let propagation = ReadCache<Credentials, RemoteServer>.lifetime

  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// Number of servers, deactivated ones among them.
  package func count() async throws -> Int64 {
    try await database.query("SELECT COUNT(*) AS count FROM remote_servers").returned.int64("count")
  }

  package func find(uuid: UUID) async throws -> RemoteServer? {
    try await find("uuid = $1", .text(uuid.canonical))
  }

  package func find(id: Int64) async throws -> RemoteServer? { try await find("id = $1", .integer(id)) }

  package func find(hostname: Hostname) async throws -> RemoteServer? {
    try await find(hostname: hostname.text)
  }

  /// The server with this hostname in any spelling, or with a name stored in place of one; deactivated ones
  /// too.
  package func find(hostname: String) async throws -> RemoteServer? {
    try await find("hostname_key = $1", .text(Hostname.key(of: hostname)))
  }

  private func find(_ condition: String, _ value: Value) async throws -> RemoteServer? {
    try await database.lookUp("SELECT \(RemoteServer.columns) FROM remote_servers WHERE \(condition)", value)
      .first.map(RemoteServer.init)
  }

  /// A server with its numbers here.
  package struct Summary: Sendable, Hashable {
    package let server: RemoteServer
    /// Number of realms uploaded and not deleted since.
    package let realms: Int64
    /// Number of E2EE registrations that have not expired.
    package let registrations: Int64
    /// Number of legacy registrations left.
    package let legacyRegistrations: Int64
  }

  /// All servers, by hostname. Reads every registration: for people, not for requests.
  package func all() async throws -> [Summary] {
    try await database.query(
      """
      SELECT \(RemoteServer.columns),
        (SELECT COUNT(*) FROM remote_realms r WHERE r.server_id = s.id AND r.is_locally_deleted = 0) AS realms,
        (SELECT COUNT(*) FROM registrations e JOIN remote_realms r ON r.id = e.realm_id
          WHERE r.server_id = s.id AND e.token_id IS NOT NULL AND e.ended_at IS NULL) AS registrations,
        COALESCE(l.number, 0) AS legacy_registrations
      FROM remote_servers s LEFT JOIN (
          SELECT server_id, COUNT(*) AS number FROM registrations WHERE wire = \(Wire.legacy.sql) GROUP BY server_id
        ) l ON l.server_id = s.id
      ORDER BY hostname_key
      """
    ).map { row in
      Summary(
        server: try RemoteServer(row: row), realms: try row.int64("realms"),
        registrations: try row.int64("registrations"),
        legacyRegistrations: try row.int64("legacy_registrations"))
    }
  }

  /// Deactivates or reactivates a server.
  ///
  /// - Parameter byItself: whether the server itself deactivates it, which does not change what the operator has done.
  package func setDeactivated(_ id: Int64, _ isDeactivated: Bool, byItself: Bool = false) async throws {
    let now = Value.integer(now().milliseconds)
    defer { cache.clear() }
    try await database.write { connection in
      if isDeactivated {
        try connection.deactivate(id, byItself: byItself, at: now)
      } else {
        try connection.reactivate(id, at: now)
      }
    }
  }
}

/// Audited events of a server, with Zulip's numbers.
enum ServerEvent: Int64 {
  case deactivated = 10201
  case reactivated = 10202
  case created = 10215
  /// A caller that had proved the hostname got a new key.
  case keyTransferred = 10216
}

extension Connection {
  fileprivate func deactivate(_ id: Int64, byItself: Bool, at time: Value) throws {
    let changed = try run(
      """
      UPDATE remote_servers SET deactivated_at = $2, deactivated_by_itself = $3, updated_at = $2
      WHERE id = $1 AND (deactivated_at IS NULL OR deactivated_by_itself > $3)
      """, .integer(id), time, .flag(byItself))
    if changed > 0 { try audit(.deactivated, server: id, at: time) }
  }

  func reactivate(_ id: Int64, at time: Value) throws {
    let changed = try run(
      """
      UPDATE remote_servers SET deactivated_at = NULL, deactivated_by_itself = 0, updated_at = $2
      WHERE id = $1 AND deactivated_at IS NOT NULL
      """, .integer(id), time)
    if changed > 0 { try audit(.reactivated, server: id, at: time) }
  }

  func audit(_ event: ServerEvent, server: Int64, at time: Value) throws {
    try run(
      "INSERT INTO remote_server_audit_log (server_id, event_type, event_time) VALUES ($1, $2, $3)",
      .integer(server), .integer(event.rawValue), time)
  }
}

/// A chat server that uses this bouncer (`Documentation/Protocols/Zulip.md` 1.3).
package struct RemoteServer: Sendable, Hashable {
  package let id: Int64
  /// Id that the server has chosen for itself (`zulip_org_id`).
  package let uuid: UUID
  /// Hostname as ``Hostname`` writes it, or a name stored in place of one (``Hostname/key(of:)``).
  package let hostname: String
  package let contactEmail: String
  /// When it was deactivated; it is then refused everything.
  package let deactivatedAt: Date?
  /// Whether it has deactivated itself: another server may then take its hostname, and a proof of its hostname
  /// reactivates it. What the operator has deactivated, only the operator reactivates.
  package let isDeactivatedByItself: Bool
  /// Time of its last authenticated call, as far as it was written; nil if it never called. An import brings the time of
  /// the last call at the bouncer before this one.
  package let lastRequestAt: Date?
  package let version: String?
  /// Commit that its version is based on.
  package let mergeBase: String?
  package let apiFeatureLevel: Int64?
  package let lastAuditLogUpdateAt: Date?
  package let createdAt: Date

  package var isDeactivated: Bool { deactivatedAt != nil }
  package var isDeactivatedByOperator: Bool { isDeactivated && !isDeactivatedByItself }
}

extension RemoteServer {
  /// The columns that ``init(row:)`` reads, in order.
  package static let columns = """
    id, uuid, hostname, contact_email, deactivated_at, last_request_at, last_version, last_merge_base, \
    last_api_feature_level, last_audit_log_update_at, created_at, deactivated_by_itself
    """

  package init(row: Row) throws {
    id = try row.int64("id")
    uuid = try row.uuid("uuid")
    hostname = try row.text("hostname")
    contactEmail = try row.text("contact_email")
    deactivatedAt = try row.optionalDate("deactivated_at")
    lastRequestAt = try row.optionalDate("last_request_at")
    version = try row.optionalText("last_version")
    mergeBase = try row.optionalText("last_merge_base")
    apiFeatureLevel = try row.optionalInt64("last_api_feature_level")
    lastAuditLogUpdateAt = try row.optionalDate("last_audit_log_update_at")
    createdAt = try row.date("created_at")
    isDeactivatedByItself = try row.flag("deactivated_by_itself")
  }
}
