internal import Foundation
internal import Registrations
internal import SQL
internal import Sealing

extension RegistrationImport {
  /// A chat server as another bouncer knows it.
  struct Server: Sendable {
    /// Its id at the bouncers, which it keeps.
    var uuid: UUID
    /// Its key, which it keeps too.
    var key: String
    /// Its hostname.
    var hostname: String
    /// Whether another server has the hostname, which must not be asked for.
    var isHostnameTaken: Bool
    /// Whom to write to.
    var contactEmail: String
    /// When it was switched off, if it was.
    var deactivatedAt: Date?
    /// Its latest call.
    var lastRequestAt: Date?
    /// Its version.
    var version: String?
    /// The commit its version is based on.
    var mergeBase: String?
    /// Its API feature level.
    var apiFeatureLevel: Int64?
    /// When it last uploaded its audit log.
    var lastAuditLogUpdateAt: Date?
  }

  /// What a server is here.
  struct StoredServer: Sendable, Hashable {
    /// Its row.
    let id: Int64
    /// Whether it is here only now.
    let isNew: Bool
    /// Whether it got another hostname than its own, which another server has.
    let isRenamed: Bool
  }

  /// Takes a server in, unless it is here: then it keeps the key and whatever else it has here.
  ///
  /// A server whose hostname is another's comes in under one that can be nobody's, for its devices would
  /// not be reached without it. It keeps id and key, and gets its name by registering with a free one.
  func store(_ server: Server, on connection: any Connection) throws -> StoredServer {
    let known = try connection.query(
      Statement("SELECT id FROM remote_servers WHERE uuid = $1", .text(server.uuid.canonical)))
    if let id = try known.first?.int64(0) { return StoredServer(id: id, isNew: false, isRenamed: false) }
    let own = Hostname.key(of: server.hostname)
    let isTaken = try server.isHostnameTaken || connection.isTaken(own)
    let hostname = isTaken ? Hostname.substitute(for: own, server: server.uuid) : own
    let rows = try connection.query(
      Statement(
        """
        INSERT INTO remote_servers
          (uuid, hostname, hostname_key, contact_email, key_hash, deactivated_at, last_request_at, last_version,
           last_merge_base, last_api_feature_level, last_audit_log_update_at, created_at, updated_at)
        VALUES ($1, $2, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11) RETURNING id
        """,
        .text(server.uuid.canonical), .text(hostname), .text(server.contactEmail),
        .bytes(storageKey.hash(server.key, for: RemoteServers.keyPurpose)),
        .integer(server.deactivatedAt?.milliseconds), .integer(server.lastRequestAt?.milliseconds),
        .text(server.version), .text(server.mergeBase), .integer(server.apiFeatureLevel),
        .integer(server.lastAuditLogUpdateAt?.milliseconds), .integer(startedAt.milliseconds)))
    guard let id = try rows.first?.int64(0) else {
      throw DatabaseError(.other, "an insertion returned no row")
    }
    return StoredServer(id: id, isNew: true, isRenamed: isTaken)
  }
}

extension Connection {
  fileprivate func isTaken(_ key: String) throws -> Bool {
    let rows = try query(Statement("SELECT id FROM remote_servers WHERE hostname_key = $1", .text(key)))
    return !rows.isEmpty
  }
}
