package import Foundation
package import SQL
package import Sealing

/// The devices that get notifications in clear.
///
/// Tokens are kept as those of ``E2EERegistrations`` are, and under the same hash: so that a device which
/// has moved on to end-to-end encryption is found whatever the case of its token.
package struct LegacyRegistrations: Sendable {
  /// Gives what is on its way to a registration to another one, in the transaction in which that takes its place.
  package typealias HandOver =
    @Sendable (
      _ old: RegistrationReference, _ new: RegistrationReference, _ connection: any Connection
    ) throws -> Void

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date
  private let handOver: HandOver

  /// The registrations in `database`, sealed under `storageKey`.
  package init(
    database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date,
    handOver: @escaping HandOver
  ) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
    self.handOver = handOver
  }

  /// Registers a token for a user, or renews the registration it has: when it was last registered is all
  /// that changes then, and what it did not have yet. Where both names of the user are given it is kept
  /// under the UUID alone, and what was under the number goes on under that.
  package func register(
    _ token: PushToken, iosAppID: String?, for user: LegacyUser, server: Int64, realm: RemoteRealm?
  ) async throws {
    // As the row names its user: that is what its token is bound to.
    let number = Value.integer(user.uuid == nil ? user.id : nil)
    let uuid = Value.text(user.uuid?.canonical)
    let sealed = storageKey.seal(token.text, at: Self.place(server: server, user: number, uuid: uuid))
    let hash = Value.integer(storageKey.tokenHash(of: token))
    let kind = Value.integer(token.kind.storage)
    let now = now()
    let insertion = Statement(
      user.uuid == nil ? upsertByID : upsertByUUID, .integer(server), .integer(realm?.id),
      number, uuid, kind, .bytes(sealed), hash,
      .text(iosAppID), .integer(now.milliseconds))
    guard let formerly = user.id, user.uuid != nil else {
      _ = try await database.execute(insertion)
      return
    }
    let doubles = Statement(
      """
      SELECT id, registered_at FROM registrations
      WHERE server_id = $1 AND user_id = $2 AND kind = $3 AND token_hash = $4
      """, .integer(server), .integer(formerly), kind, hash)
    try await database.write { connection in
      let removed = try connection.query(doubles).map { row in
        RegistrationReference(.legacy, id: try row.int64(0), registeredAt: try row.date(1))
      }
      guard let row = try connection.query(insertion).first else {
        throw DatabaseError(.other, "an insertion returned no row")
      }
      let kept = RegistrationReference(.legacy, id: try row.int64(0), registeredAt: now)
      for double in removed { try replace(double, by: kept, on: connection) }
    }
  }

  /// Removes a token of a user, in every spelling.
  package func unregister(_ token: PushToken, of user: LegacyUser, server: Int64) async throws {
    let statement = Statement(
      """
      DELETE FROM registrations
      WHERE server_id = $1 AND (user_id = $2 OR user_uuid = $3) AND kind = $4 AND token_hash = $5
      """, .integer(server), .integer(user.id), .text(user.uuid?.canonical), .integer(token.kind.storage),
      .integer(storageKey.tokenHash(of: token)))
    _ = try await database.execute(statement)
  }

  /// Removes all tokens of a user.
  package func unregisterAll(of user: LegacyUser, server: Int64) async throws {
    let statement = Statement(
      "DELETE FROM registrations WHERE server_id = $1 AND (user_id = $2 OR user_uuid = $3)",
      .integer(server), .integer(user.id), .text(user.uuid?.canonical))
    _ = try await database.execute(statement)
  }

  /// A user's registration of a token, in any spelling.
  package func find(
    _ token: PushToken, of user: LegacyUser, server: Int64
  ) async throws -> LegacyRegistration? {
    let statement = Statement(
      """
      SELECT id, kind, token, target, registered_at, user_id, user_uuid FROM registrations
      WHERE server_id = $1 AND (user_id = $2 OR user_uuid = $3) AND kind = $4 AND token_hash = $5
      ORDER BY id LIMIT 1
      """, .integer(server), .integer(user.id), .text(user.uuid?.canonical),
      .integer(token.kind.storage), .integer(storageKey.tokenHash(of: token)))
    return try await database.lookUp(statement).first.flatMap { row in
      try registration(row, server: server)
    }
  }

  /// Which of these tokens the user does not have, each as it was spelled, in order. Of spellings of one
  /// token all but the first are among them; so is what is no token.
  package func missing(
    _ texts: [String], kind: PushToken.Kind, of user: LegacyUser, server: Int64
  ) async throws -> [String] {
    guard !texts.isEmpty else { return [] }
    let statement = Statement(
      """
      SELECT token_hash FROM registrations
      WHERE server_id = $1 AND (user_id = $2 OR user_uuid = $3) AND kind = $4
      """, .integer(server), .integer(user.id), .text(user.uuid?.canonical), .integer(kind.storage))
    var held = Set(try await database.lookUp(statement).map { try $0.int64(0) })
    return texts.filter { text in
      guard let token = try? PushToken(text, kind: kind) else { return true }
      return held.remove(storageKey.tokenHash(of: token)) == nil
    }
  }

  /// nil if the token does not open.
  func registration(_ row: Row, server: Int64) throws -> LegacyRegistration? {
    let place = Self.place(
      server: server, user: .integer(try row.optionalInt64(5)), uuid: .text(try row.optionalText(6)))
    guard let kind = PushToken.Kind(storage: try row.int64(1)),
      let text = storageKey.openText(try row.bytes(2), at: place),
      let token = try? PushToken(text, kind: kind)
    else { return nil }
    return LegacyRegistration(
      id: try row.int64(0), token: token, iosAppID: try row.optionalText(3), registeredAt: try row.date(4))
  }
}

extension LegacyRegistrations {
  package static func place(server: Int64, user: Value, uuid: Value) -> SealedPlace {
    .token(server: .integer(server), user: user, uuid: uuid)
  }

  /// Removes a registration whose place another one takes. What is on its way to it reaches the device as
  /// that one's: it was promised, and is not sent twice.
  func replace(
    _ registration: RegistrationReference, by other: RegistrationReference, on connection: any Connection
  ) throws {
    let removed = try connection.run(
      Statement(
        "DELETE FROM registrations WHERE id = $1 AND registered_at = $2", .integer(registration.id),
        .integer(registration.registeredAt.milliseconds)))
    // One that was registered again meanwhile stays for the next time.
    guard removed > 0 else { return }
    try handOver(registration, other, connection)
  }
}

private let columns = """
  INSERT INTO registrations
    (wire, server_id, realm_id, user_id, user_uuid, kind, token, token_hash, target, registered_at)
  VALUES (2, $1, $2, $3, $4, $5, $6, $7, $8, $9)
  """

private let renewal = """
  DO UPDATE SET
    realm_id = COALESCE(registrations.realm_id, excluded.realm_id),
    target = COALESCE(registrations.target, excluded.target),
    registered_at = excluded.registered_at, \(RegistrationReference.cleanSheet)
  RETURNING id
  """

private let upsertByID = """
  \(columns) ON CONFLICT (server_id, user_id, kind, token_hash) WHERE user_id IS NOT NULL \(renewal)
  """

private let upsertByUUID = """
  \(columns) ON CONFLICT (server_id, user_uuid, kind, token_hash) WHERE user_uuid IS NOT NULL \(renewal)
  """

/// A user as its chat server names it in legacy calls: old servers by a number, newer ones by a UUID,
/// those in between by both (`Documentation/Protocols/Zulip.md` 7.1).
package struct LegacyUser: Sendable, Hashable {
  /// Its number at its server.
  package let id: Int64?
  /// Its UUID.
  package let uuid: UUID?

  /// A user with both.
  package init(id: Int64, uuid: UUID) {
    self.id = id
    self.uuid = uuid
  }

  /// nil if there is neither.
  package init?(id: Int64?, uuid: UUID?) {
    if id == nil && uuid == nil { return nil }
    self.id = id
    self.uuid = uuid
  }
}

/// A device of an old app, which gets notifications in clear (`Documentation/Protocols/Zulip.md` 1.3).
/// There is one per token and user.
package struct LegacyRegistration: Sendable, Hashable {
  /// Its row.
  package let id: Int64
  /// The token, as it was first spelled.
  package let token: PushToken
  /// The app's bundle id; some rows of old lack it.
  package let iosAppID: String?
  /// When it was last registered, in whole milliseconds.
  package let registeredAt: Date

  /// A registration by its parts.
  package init(id: Int64, token: PushToken, iosAppID: String?, registeredAt: Date) {
    self.id = id
    self.token = token
    self.iosAppID = iosAppID
    self.registeredAt = registeredAt
  }

  /// What a delivery for it refers to.
  package var reference: RegistrationReference { .init(.legacy, id: id, registeredAt: registeredAt) }
}
