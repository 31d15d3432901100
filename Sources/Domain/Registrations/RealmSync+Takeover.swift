package import Foundation
import SQL
import Sealing

extension RealmSync {
  /// Seconds for which a proof of a hostname counts as proof that the server has moved to it.
  private static let proofLifetime: TimeInterval = 3600

  /// A realm that has moved from one server to another.
  package struct Takeover: Sendable, Hashable {
    package let realm: UUID
    /// Row id of the server that had it.
    package let previousServer: Int64
    /// Whether the new server knew the owner secret, so that the registrations stay.
    package let keepsRegistrations: Bool
  }

  /// Moves a realm to a server if its present one has released it, by deactivating it or by being
  /// deactivated; or if the operator has released it; or if the present server is the same server under another
  /// hostname (``hasMoved(_:to:with:on:)``).
  ///
  /// A server that knows the owner secret has the realm's own data: its registrations stay, except those
  /// under a user's number, which may be another user's there. With another secret it is a different realm,
  /// and the registrations end.
  ///
  /// - Parameters:
  ///   - realms: all realms that the server lists.
  ///   - moved: the servers that turned out to be this one. The caller moves their legacy registrations.
  /// - Returns: nil if the realm stays because the server lists it as deactivated.
  /// - Throws: ``DuplicateRealm`` if the realm is not free.
  func takeOver(
    _ realm: RealmDescription, of realms: [RealmDescription], server: Int64, moved: inout Set<Int64>,
    on connection: any Connection
  ) throws -> Takeover? {
    guard let row = try connection.query(selectOwned, .text(realm.uuid.canonical)).first else {
      throw DuplicateRealm(realm: realm.uuid)
    }
    let id = try row.int64("id")
    let owner = try row.int64("server_id")
    guard owner != server else { throw DuplicateRealm(realm: realm.uuid) }
    // A server still lists a realm that it has released, as deactivated.
    guard !realm.isDeactivated else { return nil }
    let isReleased = try row.optionalDate("released_until").map { now() < $0 } ?? false
    let isFree = try row.flag("is_deactivated") || isReleased || row.optionalInt64("deactivated_at") != nil
    let isSame = storageKey.matches(
      realm.ownerSecret, hash: try row.bytes("owner_secret_hash"), for: Self.ownerSecretPurpose)
    if !isFree, !moved.contains(owner) {
      guard isSame, try hasMoved(owner, to: server, with: realms, on: connection) else {
        throw DuplicateRealm(realm: realm.uuid)
      }
      moved.insert(owner)
    }
    let taken = try connection.run(
      Statement(
        """
        UPDATE remote_realms SET \(RealmDescription.setAttributes), server_id = $9, owner_secret_hash = $10, date_created = $11,
          last_request_at = NULL, released_until = NULL
        WHERE id = $1 AND server_id = $12
        """,
        arguments: [.integer(id)] + attributes(of: realm, server: server) + [.integer(owner)]))
    guard taken == 1 else { throw DuplicateRealm(realm: realm.uuid) }
    if !isSame {
      try connection.run(
        "DELETE FROM registrations WHERE realm_id = $1 AND token_id IS NOT NULL", .integer(id))
      try connection.run(deleteLegacy, .integer(owner), .integer(id))
    } else if !moved.contains(owner) {
      try connection.run("\(deleteLegacy) AND user_id IS NOT NULL", .integer(owner), .integer(id))
      try moveLegacyRegistrations(ofRealm: id, from: owner, to: server, on: connection)
    }
    return Takeover(realm: realm.uuid, previousServer: owner, keepsRegistrations: isSame)
  }

  /// Whether `server` is `owner` under a new hostname (`Documentation/Decisions` 0026): it has proved its
  /// hostname within the hour, later than the other one if that did too, and it lists every realm of the
  /// other with the right owner secret.
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
    guard try connection.query(lastProof).first?.int64("server_id") == server else { return false }
    let secrets = Dictionary(realms.map { ($0.uuid, $0.ownerSecret) }) { first, _ in first }
    return try connection.query(
      "SELECT uuid, owner_secret_hash FROM remote_realms WHERE server_id = $1 AND is_locally_deleted = 0",
      .integer(owner)
    ).allSatisfy { row in
      guard let secret = secrets[try row.uuid("uuid")] else { return false }
      return storageKey.matches(
        secret, hash: try row.bytes("owner_secret_hash"), for: Self.ownerSecretPurpose)
    }
  }

  /// Moves legacy registrations to a realm's new server.
  ///
  /// - Parameter realm: row id; nil for all of the former server's registrations.
  func moveLegacyRegistrations(
    ofRealm realm: Int64?, from owner: Int64, to server: Int64, on connection: any Connection
  ) throws {
    // Registrations that a phone has made with the new server already are not duplicated.
    try connection.run(
      """
      \(deleteLegacy) AND EXISTS (
        SELECT 1 FROM registrations n WHERE +n.server_id = $3
          AND (n.user_uuid = registrations.user_uuid OR n.user_id = registrations.user_id)
          AND n.kind = registrations.kind AND n.token_hash = registrations.token_hash)
      """, .integer(owner), .integer(realm), .integer(server))
    let rows = try connection.query(
      "SELECT id, user_id, user_uuid, token FROM \(ofLegacy)", .integer(owner), .integer(realm))
    for row in rows {
      // A sealed token is bound to its server, so it is sealed anew. A row whose token does not open is left,
      // for a node that can open it.
      let user = try row.value("user_id")
      let uuid = try row.value("user_uuid")
      func place(_ server: Int64) -> SealedPlace {
        RegistrationStore.place(server: server, user: user, uuid: uuid)
      }
      guard let token = storageKey.open(try row.bytes("token"), at: place(owner)) else { continue }
      try connection.run(
        "UPDATE registrations SET server_id = $2, token = $3 WHERE id = $1", .integer(try row.int64("id")),
        .integer(server), .bytes(storageKey.seal(token, at: place(server))))
    }
  }
}

private let selectOwned = """
  SELECT r.id, r.server_id, r.owner_secret_hash, r.is_deactivated, r.released_until, s.deactivated_at
  FROM remote_realms r JOIN remote_servers s ON s.id = r.server_id WHERE r.uuid = $1
  """
private let ofLegacy =
  "registrations WHERE wire = \(Wire.legacy.sql) AND server_id = $1 AND (realm_id = $2 OR $2 IS NULL)"
private let deleteLegacy = "DELETE FROM \(ofLegacy)"
