internal import Foundation
internal import Registrations
internal import SQL
internal import Sealing

extension RegistrationImport {
  /// A realm as another bouncer knows it.
  struct Realm: Sendable {
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

  /// What a realm is here.
  enum StoredRealm: Sendable, Hashable {
    /// Here only now.
    case imported(Int64)
    /// Here before; left as it was.
    case alreadyThere(Int64)
    /// Another server's.
    case anothers
  }

  /// Takes a realm in, unless it is here.
  ///
  /// Its id at its server is not known to another bouncer: the server tells it with its next upload.
  func store(_ realm: Realm, on connection: any Connection) throws -> StoredRealm {
    let known = try connection.query(
      Statement("SELECT id, server_id FROM remote_realms WHERE uuid = $1", .text(realm.uuid.canonical)))
    if let known = known.first {
      return try known.int64(1) == realm.server ? .alreadyThere(try known.int64(0)) : .anothers
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
    return .imported(id)
  }
}
