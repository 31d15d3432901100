internal import Foundation
internal import Registrations
internal import SQL
internal import Sealing

/// The tokens of users' old apps, and what the bouncer has yet to be told of them.
///
/// What goes here and not yet there is written down in the transaction in which it goes, so that nothing
/// is left behind at the bouncer, whatever happens (`Documentation/Decisions` 0009).
package struct LegacyTokens: Sendable {
  /// How many tokens a user may have.
  static let maximumPerUser = 500

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date

  /// The user has as many tokens as it may have.
  struct TooMany: Error, Hashable {}

  /// Adds a token; one that the user has stays as it is. It is no longer one that the bouncer should forget.
  ///
  /// - Parameter user: the user's row.
  func add(_ added: LegacyToken, user: User) async throws {
    let hash = Value.integer(storageKey.tokenHash(of: added.token))
    let kind = Value.integer(added.token.kind.storage)
    let sealed = Value.bytes(
      storageKey.seal(added.token.text, at: SealedColumn.userToken.place(.integer(user.id))))
    let now = Value.integer(now().milliseconds)
    try await database.write { connection in
      try connection.run(
        Statement(
          "DELETE FROM legacy_unregistrations WHERE user_uuid = $1 AND kind = $2 AND token_hash = $3",
          .text(user.uuid.canonical), kind, hash))
      let count = try connection.query(
        Statement(
          "SELECT COUNT(*) FROM legacy_tokens WHERE user_id = $1 AND NOT (kind = $2 AND token_hash = $3)",
          .integer(user.id), kind, hash)
      ).first?.int64(0)
      guard let count, count < Self.maximumPerUser else { throw TooMany() }
      try connection.run(
        Statement(
          """
          INSERT INTO legacy_tokens (user_id, kind, token, token_hash, ios_app_id, created_at)
          VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (user_id, kind, token_hash) DO NOTHING
          """, .integer(user.id), kind, sealed, hash, .text(added.iosAppID), now))
    }
  }

  /// Removes a token in every spelling, here and, in its time, at the bouncer, if the user has it.
  ///
  /// - Returns: whether the user had it.
  func remove(_ token: PushToken, user: User) async throws -> Bool {
    try await database.write { connection in
      let removed = try delete(token, user: user.id, on: connection)
      if removed { try unregister(token, of: user.id, on: connection) }
      return removed
    }
  }

  /// Forgets tokens that the bouncer does not have.
  func forget(_ tokens: [PushToken], user: Int64) async throws {
    guard !tokens.isEmpty else { return }
    try await database.write { connection in
      for token in tokens { _ = try delete(token, user: user, on: connection) }
    }
  }

  /// A user's tokens, the oldest first; without those that do not open.
  func tokens(of user: Int64) async throws -> [LegacyToken] {
    try await database.read { try tokens(of: user, on: $0) }
  }

  /// The recipients of a notification, read in one transaction: each device once. Tokens of old apps whose device has
  /// an encrypted registration by now are left out and removed.
  func recipients(
    _ user: Int64, devices: Devices
  ) async throws -> (tokens: [LegacyToken], devices: [Device]) {
    let (tokens, active) = try await database.read { connection in
      (try self.tokens(of: user, on: connection), try devices.active(user: user, on: connection))
    }
    let ids = active.compactMap(\.state.tokenID)
    let old = tokens.filter { token in ids.contains(where: token.isMeant) }
    if !old.isEmpty {
      try await database.write { connection in
        for id in ids { try supersede(by: id, user: user, on: connection) }
      }
    }
    return (tokens.filter { !old.contains($0) }, active)
  }

  /// A device of the user gets its notifications end-to-end encrypted from now on: the token of its old
  /// app goes, in whichever case that was spelled.
  func supersede(by id: TokenID, user: Int64, on connection: any Connection) throws {
    for old in try tokens(of: user, on: connection) where old.isMeant(by: id) {
      if try delete(old.token, user: user, on: connection) {
        try unregister(old.token, of: user, on: connection)
      }
    }
  }

  /// All tokens of a user go, here and, in their time, at the bouncer.
  func removeAll(user: Int64, on connection: any Connection) throws {
    let removed = try connection.run(
      Statement("DELETE FROM legacy_tokens WHERE user_id = $1", .integer(user)))
    let waiting = try connection.query(
      Statement(
        "SELECT 1 FROM legacy_unregistrations WHERE user_uuid = (SELECT uuid FROM users WHERE id = $1) LIMIT 1",
        .integer(user)))
    if removed > 0 || !waiting.isEmpty { try unregister(nil, of: user, on: connection) }
  }
}

extension LegacyTokens {
  func tokens(of user: Int64, on connection: any Connection) throws -> [LegacyToken] {
    try connection.query(
      Statement(
        "SELECT id, kind, token, ios_app_id FROM legacy_tokens WHERE user_id = $1 ORDER BY id", .integer(user)
      )
    ).compactMap { row in
      let place = SealedColumn.userToken.place(.integer(user))
      guard let token = try open(try row.int64(1), try row.bytes(2), at: place) else { return nil }
      return LegacyToken(token, iosAppID: try row.optionalText(3))
    }
  }

  func open(_ kind: Int64, _ sealed: [UInt8], at place: SealedPlace) throws -> PushToken? {
    guard let kind = PushToken.Kind(storage: kind),
      let text = storageKey.openText(sealed, at: place)
    else { return nil }
    return try? PushToken(text, kind: kind)
  }

  private func delete(_ token: PushToken, user: Int64, on connection: any Connection) throws -> Bool {
    try connection.run(
      Statement(
        "DELETE FROM legacy_tokens WHERE user_id = $1 AND kind = $2 AND token_hash = $3", .integer(user),
        .integer(token.kind.storage), .integer(storageKey.tokenHash(of: token)))) > 0
  }

  /// - Parameter token: nil stands for all of the user's.
  private func unregister(_ token: PushToken?, of user: Int64, on connection: any Connection) throws {
    let names = try connection.query(
      Statement(
        "SELECT r.uuid, u.uuid, u.user_id FROM users u JOIN realms r ON r.id = u.realm_id WHERE u.id = $1",
        .integer(user))
    ).first
    guard let names else { return }
    let place = SealedColumn.unregisteredToken.place(names.values[1])
    try connection.run(
      Statement(
        """
        INSERT INTO legacy_unregistrations
          (realm_uuid, user_uuid, user_id, kind, token, token_hash, requested_at, due_at, attempts)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 0)
        """, names.values[0], names.values[1], names.values[2], .integer(token?.kind.storage),
        .bytes(token.map { storageKey.seal($0.text, at: place) }),
        .integer(token.map(storageKey.tokenHash)), .integer(now().milliseconds)))
  }
}
