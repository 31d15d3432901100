package import Foundation
package import SQL

/// The realms (organizations) that chat servers have uploaded.
package final class RemoteRealms: Sendable {
  /// Relation of a realm in a request to the server that names it.
  package enum Ownership: Sendable, Hashable {
    /// The realm belongs to the server.
    case owned(RemoteRealm)
    /// The realm belongs to another server.
    case anothersRealm
    /// No server has uploaded the realm.
    case unknown
  }

  let database: any Database
  /// Cache of realms. It is used only to confirm that a realm is a server's; anything else is looked up again.
  private let known = ReadCache<UUID, RemoteRealm>(maximum: 100_000)

  package init(database: any Database) {
    self.database = database
  }

  package func find(uuid: UUID) async throws -> RemoteRealm? {
    let readAt = ContinuousClock.now
    let statement = Statement(
      "SELECT id, server_id FROM remote_realms WHERE uuid = $1", .text(uuid.canonical))
    guard let row = try await database.lookUp(statement).first else { return nil }
    let realm = RemoteRealm(id: try row.int64("id"), serverID: try row.int64("server_id"), uuid: uuid)
    known.keep(realm, for: uuid, readAt: readAt)
    return realm
  }

  /// The relation of a realm to a server.
  package func find(uuid: UUID, server: Int64) async throws -> Ownership {
    if let realm = known[uuid], realm.serverID == server { return .owned(realm) }
    guard let realm = try await find(uuid: uuid) else { return .unknown }
    return realm.serverID == server ? .owned(realm) : .anothersRealm
  }

  /// Releases a realm: until `end`, the next server that lists it gets it. Its present server keeps it until
  /// then.
  ///
  /// - Returns: the hostnames of the realm and of its present server; nil if there is no such realm.
  package func release(uuid: UUID, until end: Date) async throws -> (realm: String, server: String)? {
    let update = Statement(
      "UPDATE remote_realms SET released_until = $2 WHERE uuid = $1", .text(uuid.canonical),
      .integer(end.milliseconds))
    let select = Statement(
      """
      SELECT r.host, s.hostname FROM remote_realms r JOIN remote_servers s ON s.id = r.server_id
      WHERE r.uuid = $1
      """, .text(uuid.canonical))
    return try await database.write { connection in
      try connection.run(update)
      return try connection.query(select).first.map { (try $0.text("host"), try $0.text("hostname")) }
    }
  }
}

extension RemoteRealms {
  /// A realm with its numbers here.
  package struct Summary: Sendable, Hashable {
    /// The realm's UUID; nil for legacy registrations whose realm is not known yet.
    package let uuid: UUID?
    /// The realm's host; empty if no realm is known.
    package let host: String
    package let name: String
    /// Whether its server has deactivated or deleted it.
    package let isDeactivated: Bool
    /// Time of the last call for it.
    package let lastRequestAt: Date?
    /// Number of E2EE registrations that have not expired.
    package let registrations: Int64
    /// Number of legacy registrations left.
    package let legacyRegistrations: Int64
    /// Time of the last registration of either kind.
    package let lastRegisteredAt: Date?
  }

  /// The realms of a server, by host. Reads all of their registrations, so call it for people and not for requests.
  package func summaries(ofServer server: Int64) async throws -> [Summary] {
    let realms = Statement(
      """
      SELECT r.id, r.uuid, r.host, r.name, r.is_deactivated + r.is_locally_deleted AS deactivations, r.last_request_at,
        COUNT(e.id) FILTER (WHERE e.ended_at IS NULL) AS registrations, MAX(e.registered_at) AS last_registered_at
      FROM remote_realms r LEFT JOIN registrations e ON e.realm_id = r.id AND e.token_id IS NOT NULL
      WHERE r.server_id = $1 GROUP BY r.id ORDER BY r.host, r.id
      """, .integer(server))
    let legacy = Statement(
      """
      SELECT COALESCE(realm_id, 0) AS realm_id, COUNT(*) AS count, MAX(registered_at) AS last_registered_at
      FROM registrations
      WHERE wire = \(Wire.legacy.sql) AND server_id = $1 GROUP BY 1
      """, .integer(server))
    return try await database.read { connection in
      var clear: [Int64: (count: Int64, last: Date?)] = [:]
      for row in try connection.query(legacy) {
        clear[try row.int64("realm_id")] = (
          try row.int64("count"), try row.optionalDate("last_registered_at")
        )
      }
      var summaries = try connection.query(realms).map { row in
        let old = clear[try row.int64("id")]
        return Summary(
          uuid: try row.uuid("uuid"), host: try row.text("host"), name: try row.text("name"),
          isDeactivated: try row.int64("deactivations") > 0,
          lastRequestAt: try row.optionalDate("last_request_at"),
          registrations: try row.int64("registrations"), legacyRegistrations: old?.count ?? 0,
          lastRegisteredAt: [try row.optionalDate("last_registered_at"), old?.last].compactMap(\.self).max())
      }
      if let (count, last) = clear[0] {
        summaries.append(
          Summary(
            uuid: nil, host: "", name: "", isDeactivated: false, lastRequestAt: nil, registrations: 0,
            legacyRegistrations: count, lastRegisteredAt: last))
      }
      return summaries
    }
  }
}

/// A realm as its server describes it (`Documentation/Protocols/Zulip.md` 4.3).
package struct RealmDescription: Sendable, Hashable {
  /// Number at its server.
  package var realmID: Int64
  /// UUID, the same everywhere.
  package var uuid: UUID
  /// Secret that proves the realm's identity.
  package var ownerSecret: String
  package var host: String
  package var name: String
  /// Zulip's number of the kind of organisation.
  package var orgType: Int64
  package var dateCreated: Date
  /// Whether its server has deactivated it.
  package var isDeactivated: Bool
  /// Whether it is the realm of Zulip's system bots.
  package var isSystemBotRealm: Bool
  /// The ways in which its users sign in: a JSON object of flags, compact, sorted by name.
  package var authenticationMethods: String

  package init(
    realmID: Int64, uuid: UUID, ownerSecret: String, host: String, name: String, orgType: Int64,
    dateCreated: Date,
    isDeactivated: Bool, isSystemBotRealm: Bool, authenticationMethods: String
  ) {
    self.realmID = realmID
    self.uuid = uuid
    self.ownerSecret = ownerSecret
    self.host = host
    self.name = name
    self.orgType = orgType
    self.dateCreated = dateCreated
    self.isDeactivated = isDeactivated
    self.isSystemBotRealm = isSystemBotRealm
    self.authenticationMethods = authenticationMethods
  }
}

/// An uploaded realm, with what a request needs of it.
package struct RemoteRealm: Sendable, Hashable {
  package let id: Int64
  /// Row id of its server.
  package let serverID: Int64
  package let uuid: UUID
}
