package import Foundation
package import Providers
package import SQL
package import Sealing
import Synchronization

/// The registrations: push tokens that apps have registered, over whichever protocol.
///
/// Tokens are sealed under the storage key. Beside each is a keyed hash of its canonical spelling, which
/// finds registrations of the same device whatever the case of their tokens.
package final class RegistrationStore: Sendable {
  package let database: any Database
  package let storageKey: StorageKey
  package let now: @Sendable () -> Date
  package let isClockTrusted: @Sendable () -> Bool
  /// Row ids in `bouncer_keys` by public key. Rows are only ever added.
  private let bouncerKeys = Mutex<[String: Int64]>([:])

  /// - Parameter isClockTrusted: whether an hour may be treated as past; false while the clock is in doubt.
  package init(
    database: any Database, storageKey: StorageKey, now: @escaping @Sendable () -> Date,
    isClockTrusted: @escaping @Sendable () -> Bool = { true }
  ) {
    self.database = database
    self.storageKey = storageKey
    self.now = now
    self.isClockTrusted = isClockTrusted
  }

  /// The columns that ``registration(_:_:at:)`` reads.
  static let columns = "id, registered_at, kind, token, target, \(home) AS home, environment"
  /// SQL for a registration's bouncer, which ``Registration/Home`` reads.
  static let home = "COALESCE(elsewhere, CASE WHEN delivered_at IS NOT NULL THEN 2 END)"

  /// Reads ``columns``. Returns nil if the token does not open.
  func registration(_ row: Row, _ kind: Wire, at place: SealedPlace) throws
    -> Registration?
  {
    guard let tokenKind = PushToken.Kind(storage: try row.int64("kind")),
      let text = storageKey.openText(try row.bytes("token"), at: place),
      let token = try? PushToken(text, kind: tokenKind)
    else { return nil }
    return Registration(
      try .init(kind, row), token: token, iosAppID: try row.optionalText("target"),
      home: Registration.Home(try row.optionalInt64("home")),
      environment: .init(storage: try row.optionalInt64("environment")))
  }

  /// The row ids among these whose registrations exist and have not ended, renewed or not.
  package func living(_ ids: [Int64]) async throws -> Set<Int64> { Set(try await current(of: ids).keys) }

  /// A registration's present values.
  package struct Current: Sendable {
    package let registeredAt: Date
    /// The environment of APNs that has its token, if that is known.
    package let environment: APNsCredential.Environment?
    /// The present token where the row outlives a change of it: FCM's of a device that anybody may register, and any of the
    /// Web Push gateway's.
    package let token: String?
    /// The app's bundle id, or its Firebase project; nil: the default one.
    package let target: String?
  }

  /// The present values of these registrations, by row id. Those that have ended are left out.
  package func current(of ids: [Int64]) async throws -> [Int64: Current] {
    guard !ids.isEmpty else { return [:] }
    let rows = try await database.query(
      """
      SELECT id, registered_at, environment, device_identifier, user_key, target,
        CASE WHEN wire = \(Wire.gateway.rawValue)
          OR wire IN (\(Wire.open)) AND kind = \(TokenKind.fcm.sql) THEN token END AS token
      FROM registrations WHERE id IN ($list) AND ended_at IS NULL
      """, list: ids.map { .integer($0) })
    return Dictionary(
      try rows.map { row in
        let place = SealedPlace.token(
          identifier: try row.value("device_identifier"), userKey: try row.value("user_key"))
        let current = Current(
          registeredAt: try row.date("registered_at"),
          environment: .init(storage: try row.optionalInt64("environment")),
          token: try row.optionalBytes("token").flatMap { storageKey.openText($0, at: place) },
          target: try row.optionalText("target"))
        return (try row.int64("id"), current)
      }
    ) { $1 }
  }

  /// Records the environment of APNs that has accepted each token. Registrations renewed meanwhile are left out.
  package func recordEnvironments(_ environments: [RegistrationReference: APNsCredential.Environment])
    async throws
  {
    guard !environments.isEmpty else { return }
    try await database.write { connection in
      for (registration, environment) in environments.sorted(by: { $0.key.id < $1.key.id }) {
        try connection.run(
          Statement(
            "UPDATE registrations SET environment = $3 WHERE id = $1 AND registered_at = $2",
            arguments: registration.arguments + [.integer(environment.storage)]))
      }
    }
  }

  /// The row ids among these to which something was ever delivered.
  package func delivered(_ ids: [Int64]) async throws -> Set<Int64> {
    guard !ids.isEmpty else { return [] }
    return Set(
      try await database.query(
        "SELECT id FROM registrations WHERE id IN ($list) AND delivered_at IS NOT NULL",
        list: ids.map { .integer($0) }
      ).map { try $0.int64("id") })
  }

  /// Removes a bounded number of registrations that ended before a time (`retention.expired_days`), so that
  /// no other writer waits long.
  ///
  /// - Returns: how many were removed; fewer than `limit` means that none are left.
  package func removeEnded(before time: Date, limit: Int = 1000) async throws -> Int {
    try await database.run(
      """
      DELETE FROM registrations WHERE id IN (
        SELECT id FROM registrations WHERE ended_at IS NOT NULL AND ended_at < $1 LIMIT $2)
      """, .integer(time.milliseconds), .integer(Int64(limit)))
  }

  /// The hostnames of the registrations' chat servers, by row id; those of Nextcloud have none.
  package func hostnames(of registrations: [RegistrationReference]) async throws -> [Int64: String] {
    guard !registrations.isEmpty else { return [:] }
    let rows = try await database.query(
      """
      SELECT g.id, s.hostname FROM registrations g LEFT JOIN remote_realms r ON r.id = g.realm_id
        JOIN remote_servers s ON s.id = COALESCE(g.server_id, r.server_id) WHERE g.id IN ($list)
      """, list: registrations.map { .integer($0.id) })
    return Dictionary(try rows.map { (try $0.int64("id"), try $0.text("hostname")) }) { $1 }
  }

  /// Number of registrations of a kind and provider.
  package struct Count: Sendable, Hashable {
    package let registrations: Wire
    /// `apns`, `fcm` (Web Push included), or `upstream`.
    package let provider: String
    package let live: Int64
    /// Number of those that have ended but are not removed yet.
    package let ended: Int64
  }

  /// Counts the registrations of Zulip's apps by kind. Reads every registration, which takes a quarter of a
  /// second for a million: once a minute at most.
  package func counts() async throws -> [Count] {
    let rows = try await database.query(
      """
      SELECT wire, CASE WHEN elsewhere IS NULL THEN kind ELSE 4 END AS provider,
        COUNT(*) FILTER (WHERE ended_at IS NULL) AS live, COUNT(ended_at) AS ended
      FROM registrations WHERE wire IN (\(Wire.zulip)) GROUP BY 1, 2
      """
    )
    var providers: [(name: String, kind: Int64)] = PushToken.Kind.allCases.map { ($0.rawValue, $0.storage) }
    providers.append((Route.Provider.elsewhere.rawValue, 4))
    return try [Wire.e2ee, .legacy].flatMap { registrations in
      try providers.map { provider, kind in
        let row = try rows.first {
          try $0.int64("wire") == registrations.rawValue && $0.int64("provider") == kind
        }
        return Count(
          registrations: registrations, provider: provider, live: try row?.int64("live") ?? 0,
          ended: try row?.int64("ended") ?? 0)
      }
    }
  }
}

// MARK: - Zulip, end-to-end encrypted

extension RegistrationStore {
  /// Registers a token with a realm, or renews its registration there with all new values. An expired one
  /// becomes valid again (`Documentation/Decisions` 0008).
  ///
  /// - Parameter bouncerKey: the public key of this service that the registration was sealed to, in base64.
  package func register(_ token: PushToken, iosAppID: String?, realm: Int64, bouncerKey: String) async throws
  {
    let key = try await bouncerKeyID(bouncerKey)
    try await database.execute(
      """
      INSERT INTO registrations
        (wire, realm_id, token_id, kind, token, token_hash, target, bouncer_key_id, registered_at)
      VALUES (\(Wire.e2ee.sql), $1, $2, $3, $4, $5, $6, $7, $8)
      ON CONFLICT (realm_id, token_id) WHERE token_id IS NOT NULL DO UPDATE SET
        kind = excluded.kind, token = excluded.token, token_hash = excluded.token_hash,
        target = excluded.target, bouncer_key_id = excluded.bouncer_key_id, elsewhere = NULL,
        registered_at = excluded.registered_at, ended_at = NULL, \(RegistrationReference.clearFailureAndHold)
      """,
      .integer(realm), .integer(token.id.storage), .integer(token.kind.storage),
      .bytes(storageKey.seal(token.text, at: Self.place(realm: realm, token.id))),
      .integer(storageKey.tokenHash(of: token)),
      .text(iosAppID), .integer(key), .integer(now().milliseconds))
  }

  /// The live registrations of a realm among these ids, in no order. Ids whose token does not open are
  /// returned separately: nothing can be said about them, and the others are not affected. One query, unless
  /// there are more ids than a statement can have.
  package func lookup(realm: Int64, tokenIDs: [TokenID]) async throws -> Lookup {
    var result = Lookup()
    let rows = try await database.lookUp(
      """
      SELECT \(Self.columns), token_id FROM registrations
      WHERE realm_id = $1 AND token_id IN ($list) AND ended_at IS NULL
      """, .integer(realm), list: tokenIDs.map { .integer($0.storage) })
    for row in rows {
      let tokenID = TokenID(storage: try row.int64("token_id"))
      guard case .here = Registration.Home(try row.optionalInt64("home")) else {
        result.elsewhere[tokenID] = try RegistrationReference(.e2ee, row)
        continue
      }
      // Only the token with this id was ever sealed for this place.
      if let registration = try registration(row, .e2ee, at: Self.place(realm: realm, tokenID)) {
        result.found[tokenID] = registration
      } else {
        result.unreadable.insert(tokenID)
      }
    }
    return result
  }

  /// The live registrations of some token ids.
  package struct Lookup: Sendable {
    /// Registrations whose notifications are sent from here.
    package var found: [TokenID: Registration] = [:]
    /// Registrations that live elsewhere, where alone their tokens can be read.
    package var elsewhere: [TokenID: RegistrationReference] = [:]
    /// The ids among ``elsewhere`` that may not be registered there yet.
    package var new: Set<TokenID> = []
    /// The ids whose token does not open.
    package var unreadable: Set<TokenID> = []
    /// Whether there are none.
    package var isEmpty: Bool { found.isEmpty && elsewhere.isEmpty && unreadable.isEmpty }

    package init() {}
  }

  /// The sealed place of an end-to-end encrypted registration's token.
  package static func place(realm: Int64, _ token: TokenID) -> SealedPlace {
    .token(realm: .integer(realm), tokenID: .integer(token.storage))
  }

  private func bouncerKeyID(_ publicKey: String) async throws -> Int64 {
    if let id = bouncerKeys.withLock({ $0[publicKey] }) { return id }
    // The update changes nothing; it makes `RETURNING` yield an existing row.
    let id = try await database.execute(
      """
      INSERT INTO bouncer_keys (public_key) VALUES ($1)
      ON CONFLICT (public_key) DO UPDATE SET public_key = excluded.public_key RETURNING id
      """, .text(publicKey)
    ).returned.int64("id")
    bouncerKeys.withLock { $0[publicKey] = id }
    return id
  }

  /// Usage of a bouncer key.
  package struct KeyUsage: Sendable, Hashable {
    /// The public key in base64.
    package let publicKey: String
    /// Number of registrations last renewed with it.
    package let registrations: Int64
    /// Number of those renewed in the last 30 days.
    package let recentRegistrations: Int64
    /// Time of the last registration with it.
    package let lastUsedAt: Date
  }

  /// Usage of each bouncer key that has registrations. Reads every registration, so call it only for
  /// people or rarely.
  package func keyUsage() async throws -> [KeyUsage] {
    try await database.query(
      """
      SELECT k.public_key, COUNT(*) AS registrations,
        COUNT(*) FILTER (WHERE e.registered_at > $1) AS recent_registrations, MAX(e.registered_at) AS last_used_at
      FROM registrations e JOIN bouncer_keys k ON k.id = e.bouncer_key_id
      GROUP BY k.public_key ORDER BY k.public_key
      """, .integer((now() - 30 * 86_400).milliseconds)
    ).map { row in
      KeyUsage(
        publicKey: try row.text("public_key"), registrations: try row.int64("registrations"),
        recentRegistrations: try row.int64("recent_registrations"),
        lastUsedAt: try row.date("last_used_at"))
    }
  }
}
