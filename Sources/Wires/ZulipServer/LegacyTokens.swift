import Foundation
import HTTP
import Logging
import Providers
import Registrations
package import SQL
import Sealing

/// The tokens of users' old apps, and the unregistrations to be sent to the bouncer.
///
/// Removing a token here stores its unregistration in the same transaction, so that none is left behind at
/// the bouncer, whatever happens (`Documentation/Decisions` 0009).
package struct LegacyTokens: Sendable {
  /// Maximum number of a user's tokens.
  static let maximumPerUser = 500

  let database: any Database
  let storageKey: StorageKey
  let now: @Sendable () -> Date

  /// Adds a token; an existing one is not changed. A pending unregistration of it is cancelled.
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
          "SELECT COUNT(*) AS count FROM legacy_tokens WHERE user_id = $1 AND NOT (kind = $2 AND token_hash = $3)",
          .integer(user.id), kind, hash)
      ).returned.int64("count")
      guard count < Self.maximumPerUser else {
        throw APIError("Too many devices (limit: \(Self.maximumPerUser))")
      }
      try connection.run(
        Statement(
          """
          INSERT INTO legacy_tokens (user_id, kind, token, token_hash, ios_app_id, created_at)
          VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (user_id, kind, token_hash) DO NOTHING
          """, .integer(user.id), kind, sealed, hash, .text(added.iosAppID), now))
    }
  }

  /// Removes a token in every spelling, here and later at the bouncer, if the user has it.
  ///
  /// - Returns: whether the user had it.
  func remove(_ token: PushToken, user: User) async throws -> Bool {
    try await database.write { connection in
      let removed = try delete(token, user: user.id, on: connection)
      if removed { try unregister(token, of: user.id, on: connection) }
      return removed
    }
  }

  /// Removes tokens that the bouncer does not have.
  func forget(_ tokens: [PushToken], user: Int64) async throws {
    guard !tokens.isEmpty else { return }
    try await database.write { connection in
      for token in tokens { _ = try delete(token, user: user, on: connection) }
    }
  }

  /// A user's tokens that open, the oldest first.
  func tokens(of user: Int64) async throws -> [LegacyToken] {
    try await database.read { try tokens(of: user, on: $0) }
  }

  /// The recipients of a notification, each device once, read in one transaction. Tokens of old apps whose
  /// device has an encrypted registration by now are left out and removed.
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

  /// Removes the token of an old app, in either case, because its device gets end-to-end encrypted
  /// notifications from now on.
  func supersede(by id: TokenID, user: Int64, on connection: any Connection) throws {
    for old in try tokens(of: user, on: connection) where old.isMeant(by: id) {
      if try delete(old.token, user: user, on: connection) {
        try unregister(old.token, of: user, on: connection)
      }
    }
  }

  /// Removes all tokens of a user, here and later at the bouncer.
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
  private func tokens(of user: Int64, on connection: any Connection) throws -> [LegacyToken] {
    try connection.query(
      Statement(
        "SELECT id, kind, token, ios_app_id FROM legacy_tokens WHERE user_id = $1 ORDER BY id", .integer(user)
      )
    ).compactMap { row in
      let place = SealedColumn.userToken.place(.integer(user))
      guard let token = try open(try row.int64("kind"), try row.bytes("token"), at: place) else { return nil }
      return LegacyToken(token: token, iosAppID: try row.optionalText("ios_app_id"))
    }
  }

  private func open(_ kind: Int64, _ sealed: [UInt8], at place: SealedPlace) throws -> PushToken? {
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

  /// Queues the unregistration of a token.
  ///
  /// - Parameter token: nil for all of the user's tokens.
  private func unregister(_ token: PushToken?, of user: Int64, on connection: any Connection) throws {
    let names = try connection.query(
      Statement(
        "SELECT r.uuid AS realm_uuid, u.uuid AS user_uuid, u.user_id FROM users u JOIN realms r ON r.id = u.realm_id WHERE u.id = $1",
        .integer(user))
    ).first
    guard let names else { return }
    let userUUID = try names.value("user_uuid")
    let place = SealedColumn.unregisteredToken.place(userUUID)
    try connection.run(
      Statement(
        """
        INSERT INTO legacy_unregistrations
          (realm_uuid, user_uuid, user_id, kind, token, token_hash, requested_at, due_at, attempts)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 0)
        """, try names.value("realm_uuid"), userUUID, try names.value("user_id"),
        .integer(token?.kind.storage),
        .bytes(token.map { storageKey.seal($0.text, at: place) }),
        .integer(token.map(storageKey.tokenHash)), .integer(now().milliseconds)))
  }
}

extension LegacyTokens {
  /// Unregistrations to be sent to the bouncer.
  package var jobs: LeasedQueue {
    LeasedQueue(
      "legacy_unregistrations", columns: "realm_uuid, user_uuid, user_id, kind, token", database: database,
      now: now)
  }

  /// Leases unregistrations. One whose token does not open is left: without a token it would mean all tokens.
  func leaseJobs(limit: Int, for seconds: TimeInterval) async throws -> [Unregistration] {
    try await jobs.take(limit: limit, for: seconds).compactMap { lease, row in
      var token: PushToken?
      if let kind = try row.optionalInt64("kind") {
        let place = SealedColumn.unregisteredToken.place(try row.value("user_uuid"))
        token = try open(kind, try row.bytes("token"), at: place)
        guard token != nil else { return nil }
      }
      return Unregistration(
        lease: lease, realm: try row.uuid("realm_uuid"),
        user: LegacyUser(id: try row.int64("user_id"), uuid: try row.uuid("user_uuid")),
        token: token)
    }
  }

  /// The tokens of an unregistration that the user has again: an app has signed in again meanwhile, and the
  /// bouncer may have received both calls in either order.
  func returned(after job: Unregistration) async throws -> [LegacyToken] {
    guard let uuid = job.user.uuid?.canonical else { return [] }
    let tokens = try await database.read { connection in
      let user = try connection.query(
        Statement(
          "SELECT u.id FROM users u JOIN realms r ON r.id = u.realm_id WHERE u.uuid = $1 AND r.uuid = $2",
          .text(uuid), .text(job.realm.canonical))
      ).first?.int64("id")
      return try user.map { try self.tokens(of: $0, on: connection) } ?? []
    }
    guard let gone = job.token.map(storageKey.tokenHash) else { return tokens }
    return tokens.filter { $0.token.kind == job.token?.kind && storageKey.tokenHash(of: $0.token) == gone }
  }

  /// Postpones an unregistration.
  ///
  /// - Parameter failure: the reason of the latest failure.
  func postpone(_ job: Unregistration, until date: Date, failure: String) async throws {
    try await jobs.postpone(job.lease, until: date, changing: "failure = $5", .text(failure))
  }
}

/// A token of a user's old app on the built-in chat-server side.
package struct LegacyToken: Sendable, Hashable {
  /// The token, as first spelled.
  let token: PushToken
  /// The app's bundle id, for APNs.
  let iosAppID: String?

  /// Whether a client that names this id means the same device: clients spell an APNs token in either case,
  /// and the id depends on the spelling (`Documentation/Protocols/Zulip.md` 8.2).
  func isMeant(by id: TokenID) -> Bool { token.possibleIDs.contains(id) }
}

/// A job: a token, or all tokens of a user, to be unregistered at the bouncer.
struct Unregistration: Sendable {
  let lease: LeasedQueue.Lease
  let realm: UUID
  let user: LegacyUser
  /// The token; nil for all of the user's tokens.
  let token: PushToken?

  /// The token's fingerprint, realm and user, for the log.
  var metadata: Logger.Metadata {
    [
      "token": token.map { "\($0.fingerprint)" } ?? "all", "realm": "\(realm.canonical)",
      "user": "\(user.uuid?.canonical ?? user.id.map(String.init) ?? "")",
    ]
  }
}
