package import Foundation
internal import SQL
internal import Sealing

extension RealmSync {
  /// How long the proof of a hostname tells that the server has moved to it.
  private static let proofLifetime: TimeInterval = 3600

  /// A realm that has gone from one server to another.
  package struct Takeover: Sendable, Hashable {
    /// The realm.
    package let realm: UUID
    /// The row of the server that had it.
    package let previousServer: Int64
    /// Whether the new one knew its owner secret, and its devices stay registered.
    package let keepsRegistrations: Bool
  }

  /// Gives a server a realm that another has let go, by deactivating it or by being deactivated, or the operator has; or
  /// that was its own under another hostname (``hasMoved(_:to:with:on:)``).
  ///
  /// Whoever knows the owner secret has the realm's own data: its registrations stay, save those under a user's
  /// number, which may be another user's there. With another secret it is not the realm that it was, and they end.
  ///
  /// - Parameters:
  ///   - realms: all that the server names.
  ///   - moved: the servers that turned out to be this one. Their legacy registrations are left to the caller.
  /// - Returns: nil if it stays where it is because the server does not want it either.
  /// - Throws: ``DuplicateRealm`` if the realm is not free.
  func takeOver(
    _ realm: RealmDescription, of realms: [RealmDescription], server: Int64, moved: inout Set<Int64>,
    on connection: any Connection
  ) throws -> Takeover? {
    guard let row = try connection.query(Statement(selectOwned, .text(realm.uuid.canonical))).first else {
      throw DuplicateRealm(realm: realm.uuid)
    }
    let (id, owner) = (try row.int64(0), try row.int64(1))
    guard owner != server else { throw DuplicateRealm(realm: realm.uuid) }
    // A server goes on naming a realm that it has let go, as deactivated.
    guard !realm.isDeactivated else { return nil }
    let isReleased = try row.optionalDate(4).map { now() < $0 } ?? false
    let isFree = try row.flag(3) || isReleased || row.optionalInt64(5) != nil
    let isSame = storageKey.matches(realm.ownerSecret, hash: try row.bytes(2), for: Self.ownerSecretPurpose)
    if !isFree, !moved.contains(owner) {
      guard isSame, try hasMoved(owner, to: server, with: realms, on: connection) else {
        throw DuplicateRealm(realm: realm.uuid)
      }
      moved.insert(owner)
    }
    let taken = try connection.run(
      Statement(
        """
        UPDATE remote_realms SET server_id = $3, owner_secret_hash = $4, realm_id = $5, host = $6, name = $7,
          is_system_bot_realm = $8, authentication_methods = $9, org_type = $10, is_deactivated = 0,
          is_locally_deleted = 0, date_created = $11, last_request_at = NULL, released_until = NULL
        WHERE id = $1 AND server_id = $2
        """,
        .integer(id), .integer(owner), .integer(server),
        .bytes(storageKey.hash(realm.ownerSecret, for: Self.ownerSecretPurpose)), .integer(realm.realmID),
        .text(realm.host), .text(realm.name), .flag(realm.isSystemBotRealm),
        .text(realm.authenticationMethods), .integer(realm.orgType),
        .integer(realm.dateCreated.milliseconds)))
    guard taken == 1 else { throw DuplicateRealm(realm: realm.uuid) }
    if !isSame {
      try connection.run(
        Statement("DELETE FROM registrations WHERE realm_id = $1 AND token_id IS NOT NULL", .integer(id)))
      try connection.run(Statement(deleteLegacy, .integer(owner), .integer(id)))
    } else if !moved.contains(owner) {
      try connection.run(
        Statement("\(deleteLegacy) AND user_id IS NOT NULL", .integer(owner), .integer(id)))
      try moveLegacyRegistrations(ofRealm: id, from: owner, to: server, on: connection)
    }
    return Takeover(realm: realm.uuid, previousServer: owner, keepsRegistrations: isSame)
  }

  /// Whether a server is another one under a new hostname (`Documentation/Decisions` 0026): it has proved its hostname
  /// within the hour, and the other has not since, and it names every realm of the other with its owner secret.
  private func hasMoved(
    _ owner: Int64, to server: Int64, with realms: [RealmDescription], on connection: any Connection
  ) throws -> Bool {
    let now = now()
    let lastProof = Statement(
      """
      SELECT server_id FROM remote_server_audit_log
      WHERE event_type = $1 AND server_id IN ($2, $3) AND event_time BETWEEN $4 AND $5 ORDER BY id DESC LIMIT 1
      """, .integer(ServerEvent.keyTransferred.rawValue), .integer(owner), .integer(server),
      .integer((now - Self.proofLifetime).milliseconds), .integer(now.milliseconds))
    guard try connection.query(lastProof).first?.int64(0) == server else { return false }
    let secrets = Dictionary(realms.map { ($0.uuid, $0.ownerSecret) }) { first, _ in first }
    let owned = Statement(
      "SELECT uuid, owner_secret_hash FROM remote_realms WHERE server_id = $1 AND is_locally_deleted = 0",
      .integer(owner))
    return try connection.query(owned).allSatisfy { row in
      guard let secret = secrets[try row.uuid(0)] else { return false }
      return storageKey.matches(secret, hash: try row.bytes(1), for: Self.ownerSecretPurpose)
    }
  }

  /// Gives a realm's legacy registrations to its new server.
  ///
  /// - Parameter realm: nil for all that the former server has.
  func moveLegacyRegistrations(
    ofRealm realm: Int64?, from owner: Int64, to server: Int64, on connection: any Connection
  ) throws {
    // What a phone has registered with the new server already is there once.
    try connection.run(
      Statement(
        """
        \(deleteLegacy) AND EXISTS (
          SELECT 1 FROM registrations n WHERE +n.server_id = $3
            AND (n.user_uuid = registrations.user_uuid OR n.user_id = registrations.user_id)
            AND n.kind = registrations.kind AND n.token_hash = registrations.token_hash)
        """, .integer(owner), .integer(realm), .integer(server)))
    let rows = try connection.query(
      Statement(
        "SELECT id, user_id, user_uuid, token FROM \(ofLegacy)", .integer(owner), .integer(realm)))
    for row in rows {
      // A token is bound to its server. One that does not open here stays for whoever can open it.
      let (user, uuid) = (Value.integer(try row.optionalInt64(1)), Value.text(try row.optionalText(2)))
      func place(_ server: Int64) -> SealedPlace {
        LegacyRegistrations.place(server: server, user: user, uuid: uuid)
      }
      guard let token = storageKey.open(try row.bytes(3), at: place(owner)) else { continue }
      try connection.run(
        Statement(
          "UPDATE registrations SET server_id = $2, token = $3 WHERE id = $1",
          .integer(try row.int64(0)), .integer(server), .bytes(storageKey.seal(token, at: place(server)))))
    }
  }
}

private let selectOwned = """
  SELECT r.id, r.server_id, r.owner_secret_hash, r.is_deactivated, r.released_until, s.deactivated_at
  FROM remote_realms r JOIN remote_servers s ON s.id = r.server_id WHERE r.uuid = $1
  """
private let ofLegacy = "registrations WHERE wire = 2 AND server_id = $1 AND (realm_id = $2 OR $2 IS NULL)"
private let deleteLegacy = "DELETE FROM \(ofLegacy)"
