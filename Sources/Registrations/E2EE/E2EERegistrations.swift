package import Foundation
package import SQL
package import Sealing
internal import Synchronization

/// The devices that get end-to-end encrypted notifications.
///
/// Tokens are sealed under the storage key. Beside each stands a keyed hash of its canonical spelling,
/// by which registrations of the same device can be found whatever the case of their tokens.
package final class E2EERegistrations: Sendable {
  /// A power of two, as lists are padded, below what a statement can have.
  private static let maximumList = 16_384

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date
  /// Rows of `bouncer_keys` by public key. They are only ever added.
  private let bouncerKeys = Mutex<[String: Int64]>([:])

  /// The registrations in `database`, sealed under `storageKey`.
  package init(database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
  }

  /// Registers a token with a realm, or renews the registration it has there with everything that is new. One that
  /// had expired is valid again (`Documentation/Decisions` 0008).
  ///
  /// - Parameter bouncerKey: the public key that the registration was sealed to, in base64; one of ours.
  package func register(_ token: PushToken, iosAppID: String?, realm: Int64, bouncerKey: String) async throws
  {
    let key = try await bouncerKeyID(bouncerKey)
    _ = try await database.execute(
      Statement(
        upsert, .integer(realm), .integer(token.id.storage), .integer(token.kind.storage),
        .bytes(storageKey.seal(token.text, at: Self.place(realm: realm, token.id))),
        .integer(storageKey.tokenHash(of: token)),
        .text(iosAppID), .integer(key), .integer(now().milliseconds)))
  }

  /// The live registrations of a realm among these ids, in no order; ids of rows whose token does not open are
  /// apart: of them nothing can be said, and the others have nothing to do with it. One query, unless there are
  /// more ids than a statement can have.
  package func lookup(
    realm: Int64, tokenIDs: [TokenID]
  ) async throws -> (found: [E2EERegistration], unreadable: Set<TokenID>) {
    var found: [E2EERegistration] = []
    var unreadable: Set<TokenID> = []
    for start in stride(from: 0, to: tokenIDs.count, by: Self.maximumList) {
      let statement = Statement(
        """
        SELECT id, token_id, kind, token, target, registered_at FROM registrations
        WHERE realm_id = $1 AND token_id IN ($list) AND ended_at IS NULL
        """,
        .integer(realm),
        list: tokenIDs[start..<min(start + Self.maximumList, tokenIDs.count)].map { .integer($0.storage) })
      for row in try await database.lookUp(statement) {
        if let registration = try registration(row, realm: realm) {
          found.append(registration)
        } else {
          unreadable.insert(TokenID(storage: try row.int64(1)))
        }
      }
    }
    return (found, unreadable)
  }

  /// nil if the token does not open.
  private func registration(_ row: Row, realm: Int64) throws -> E2EERegistration? {
    let tokenID = TokenID(storage: try row.int64(1))
    guard let kind = PushToken.Kind(storage: try row.int64(2)),
      let text = storageKey.openText(try row.bytes(3), at: Self.place(realm: realm, tokenID)),
      let token = try? PushToken(text, kind: kind), token.id == tokenID
    else { return nil }
    return E2EERegistration(
      id: try row.int64(0), tokenID: tokenID, token: token,
      iosAppID: try row.optionalText(4), registeredAt: try row.date(5))
  }

  package static func place(realm: Int64, _ token: TokenID) -> SealedPlace {
    .token(realm: .integer(realm), tokenID: .integer(token.storage))
  }

  private func bouncerKeyID(_ publicKey: String) async throws -> Int64 {
    if let id = bouncerKeys.withLock({ $0[publicKey] }) { return id }
    // The update changes nothing: it is there so that a row which exists comes back.
    let rows = try await database.execute(
      Statement(
        """
        INSERT INTO bouncer_keys (public_key) VALUES ($1)
        ON CONFLICT (public_key) DO UPDATE SET public_key = excluded.public_key RETURNING id
        """, .text(publicKey)))
    guard let id = try rows.first?.int64(0) else {
      throw DatabaseError(.other, "an insertion returned no row")
    }
    bouncerKeys.withLock { $0[publicKey] = id }
    return id
  }
}

private let upsert = """
  INSERT INTO registrations
    (wire, realm_id, token_id, kind, token, token_hash, target, bouncer_key_id, registered_at)
  VALUES (1, $1, $2, $3, $4, $5, $6, $7, $8)
  ON CONFLICT (realm_id, token_id) WHERE token_id IS NOT NULL DO UPDATE SET
    kind = excluded.kind, token = excluded.token, token_hash = excluded.token_hash, target = excluded.target,
    bouncer_key_id = excluded.bouncer_key_id, registered_at = excluded.registered_at, ended_at = NULL,
    \(RegistrationReference.cleanSheet)
  """

extension E2EERegistrations {
  /// How a bouncer key is used.
  package struct KeyUsage: Sendable, Hashable {
    /// The public key in base64.
    package let publicKey: String
    /// Registrations whose latest registering was sealed to it.
    package let registrations: Int64
    /// Those of them that registered in the last 30 days.
    package let recentRegistrations: Int64
    /// The latest registering.
    package let lastUsedAt: Date
  }

  /// The use of each bouncer key that has a registration. Reads every registration: for people and
  /// for what runs now and then.
  package func keyUsage() async throws -> [KeyUsage] {
    let statement = Statement(
      """
      SELECT k.public_key, COUNT(*), COUNT(*) FILTER (WHERE e.registered_at > $1), MAX(e.registered_at)
      FROM registrations e JOIN bouncer_keys k ON k.id = e.bouncer_key_id
      GROUP BY k.public_key ORDER BY k.public_key
      """, .integer((now() - 30 * 86_400).milliseconds))
    return try await database.read { connection in
      try connection.query(statement).map { row in
        KeyUsage(
          publicKey: try row.text(0), registrations: try row.int64(1), recentRegistrations: try row.int64(2),
          lastUsedAt: try row.date(3))
      }
    }
  }
}

/// A device that gets end-to-end encrypted notifications (`Documentation/Protocols/Zulip.md` 1.3). There
/// is one per token and realm, shared by all accounts of the realm on that device.
package struct E2EERegistration: Sendable {
  /// Its row.
  package let id: Int64
  /// How chat servers call its token.
  package let tokenID: TokenID
  /// The token.
  package let token: PushToken
  /// The app's bundle id; there is always one for APNs.
  package let iosAppID: String?
  /// When it was last registered, in whole milliseconds.
  package let registeredAt: Date

  /// A registration by its parts.
  package init(id: Int64, tokenID: TokenID, token: PushToken, iosAppID: String?, registeredAt: Date) {
    self.id = id
    self.tokenID = tokenID
    self.token = token
    self.iosAppID = iosAppID
    self.registeredAt = registeredAt
  }

  /// What a delivery for it refers to.
  package var reference: RegistrationReference { .init(.e2ee, id: id, registeredAt: registeredAt) }
}
