package import Foundation
internal import SQL
internal import Sealing

extension AccountStore {
  /// Adds a realm, or makes the one that is there as told.
  ///
  /// - Parameter requiresE2EE: nil leaves it as it is, which is false for a new one.
  /// - Returns: the realm, and what it was before; nil if it is new.
  package func put(realm uuid: UUID, name: String, url: String, requiresE2EE: Bool?) async throws -> (
    realm: ChatRealm, before: ChatRealm?
  ) {
    let secret = storageKey.seal(
      RandomText.alphanumeric(64), at: SealedColumn.ownerSecret.place(.text(uuid.canonical)))
    let requirement = requiresE2EE.map { Value.flag($0) } ?? .null
    let now = now()
    return try await database.write { connection in
      let before = try connection.query(Self.selectRealm(uuid)).first.map { try ChatRealm(row: $0) }
      let rows = try connection.query(
        Statement(
          """
          INSERT INTO realms (uuid, name, url, require_e2ee, owner_secret, created_at)
          VALUES ($1, $2, $3, COALESCE($4, 0), $5, $6)
          ON CONFLICT (uuid) DO UPDATE SET
            name = excluded.name, url = excluded.url, require_e2ee = COALESCE($4, realms.require_e2ee)
          RETURNING \(ChatRealm.columns)
          """, .text(uuid.canonical), .text(name), .text(url), requirement, .bytes(secret),
          .integer(now.milliseconds)))
      guard let realm = try rows.first.map({ try ChatRealm(row: $0) }) else {
        throw DatabaseError(.other, "an insertion returned no row")
      }
      return (realm, before)
    }
  }

  /// The realm with this UUID.
  package func find(realm uuid: UUID) async throws -> ChatRealm? {
    try await database.lookUp(Self.selectRealm(uuid)).first.map { try ChatRealm(row: $0) }
  }

  private static func selectRealm(_ uuid: UUID) -> Statement {
    Statement("SELECT \(ChatRealm.columns) FROM realms WHERE uuid = $1", .text(uuid.canonical))
  }

  /// Every realm, the oldest first.
  package func realms() async throws -> [ChatRealm] {
    let statement = Statement("SELECT \(ChatRealm.columns) FROM realms ORDER BY id")
    return try await database.query(statement).map { try ChatRealm(row: $0) }
  }

  /// What proves to a bouncer that the realm is ours.
  package func ownerSecret(of realm: ChatRealm) async throws -> String {
    let statement = Statement("SELECT owner_secret FROM realms WHERE id = $1", .integer(realm.id))
    guard let sealed = try await database.lookUp(statement).first?.bytes(0),
      let secret = storageKey.openText(
        sealed, at: SealedColumn.ownerSecret.place(.text(realm.uuid.canonical)))
    else { throw DatabaseError(.corrupt, "the owner secret of realm \(realm.id) does not open") }
    return secret
  }
}
