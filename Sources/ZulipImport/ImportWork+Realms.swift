import Foundation
import HTTP
import Registrations
import SQL
import Sealing

extension ImportWork {
  mutating func bringRealms() async throws -> Bool {
    try await bring(.realms) { [self] batch in
      var ready = Ready<(id: Int64, realm: IncomingRealm)>(read: batch.rows.count)
      for realm in try batch.records(of: .realms, SourceRealm.init(_:)) {
        if let server = servers[realm.server] {
          ready.rows.append((realm.id, prepared(realm, server: server)))
        } else {
          ready.rejects.append(.init(id: realm.id, reason: .unknownServer))
        }
      }
      return ready
    } store: { [self] rows, connection in
      var stored = Stored()
      for (id, realm) in rows {
        guard let known = try store(realm, on: connection) else {
          stored.rejects.append(.init(id: id, reason: .anothersRealm))
          continue
        }
        stored.realms[id] = KnownRealm(realm: known.id, server: realm.server)
        if known.isNew { stored.counts.imported += 1 } else { stored.counts.alreadyThere += 1 }
      }
      return stored
    }
  }

  private func prepared(_ realm: SourceRealm, server: Int64) -> IncomingRealm {
    IncomingRealm(
      server: server, uuid: realm.uuid, ownerSecret: realm.ownerSecret, host: realm.host, name: realm.name,
      orgType: realm.orgType, dateCreated: realm.dateCreated ?? startedAt,
      isDeactivated: realm.isDeactivated, isLocallyDeleted: realm.isLocallyDeleted,
      isSystemBotRealm: realm.isSystemBotRealm,
      authenticationMethods: Self.authenticationMethods(realm.authenticationMethods),
      lastRequestAt: realm.lastRequestAt)
  }

  /// As an upload would have it, so that the next one does not find them changed.
  private static func authenticationMethods(_ text: String?) -> String {
    guard let text, case .object(let object)? = try? JSON.parse(text) else { return "{}" }
    let flags = object.members.filter { if case .bool = $0.value { true } else { false } }
    return JSON.object(JSON.Object(flags.sorted { $0.name < $1.name })).text
  }
}

/// A realm as another bouncer knows it.
struct IncomingRealm: Sendable {
  /// The row of its server here.
  var server: Int64
  /// Its id everywhere.
  var uuid: UUID
  /// The secret that proves that it is its own.
  var ownerSecret: String
  /// Its host.
  var host: String
  /// Its name.
  var name: String
  /// Zulip's number for the kind of organisation.
  var orgType: Int64
  /// When it was made.
  var dateCreated: Date
  /// Whether its server has deactivated it.
  var isDeactivated: Bool
  /// Whether it is missing from its server's latest list.
  var isLocallyDeleted: Bool
  /// Whether it is the realm of Zulip's own bots.
  var isSystemBotRealm: Bool
  /// How its users sign in: a JSON object of flags, compact, sorted by name.
  var authenticationMethods: String
  /// The latest call about it.
  var lastRequestAt: Date?
}

extension ImportWork {
  /// Takes a realm in, unless it is here.
  ///
  /// - Returns: its row; nil if it is another server's.
  ///
  /// Its id at its server is not known to another bouncer: the server tells it with its next upload.
  func store(_ realm: IncomingRealm, on connection: any Connection) throws -> (id: Int64, isNew: Bool)? {
    let known = try connection.query(
      Statement("SELECT id, server_id FROM remote_realms WHERE uuid = $1", .text(realm.uuid.canonical)))
    if let known = known.first {
      return try known.int64(1) == realm.server ? (try known.int64(0), false) : nil
    }
    let rows = try connection.query(
      Statement(
        """
        INSERT INTO remote_realms
          (server_id, uuid, owner_secret_hash, host, name, is_system_bot_realm, authentication_methods, org_type,
           is_deactivated, is_locally_deleted, date_created, last_request_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING id
        """,
        .integer(realm.server), .text(realm.uuid.canonical),
        .bytes(storageKey.hash(realm.ownerSecret, for: RealmSync.ownerSecretPurpose)), .text(realm.host),
        .text(realm.name), .flag(realm.isSystemBotRealm), .text(realm.authenticationMethods),
        .integer(realm.orgType), .flag(realm.isDeactivated), .flag(realm.isLocallyDeleted),
        .integer(realm.dateCreated.milliseconds), .integer(realm.lastRequestAt?.milliseconds)))
    guard let id = try rows.first?.int64(0) else {
      throw DatabaseError(.other, "an insertion returned no row")
    }
    return (id, true)
  }
}
