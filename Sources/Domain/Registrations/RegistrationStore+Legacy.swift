import Foundation
package import Providers
package import SQL
package import Sealing

// Registrations of old apps, which get unencrypted notifications: one for each token and user, whatever the
// spelling of the token.
extension RegistrationStore {
  /// Maximum number of registrations of a user for each kind of token. It is far above any number of phones, and limits how
  /// many pushes a request of a few hundred bytes can cause (`Documentation/Decisions` 0031).
  package static let mostPerUser = 500

  /// Registers a token for a user, or renews an existing registration: then only its time changes, and its
  /// realm and app are added if missing. If both the user's number and UUID are given, it is stored under the UUID
  /// alone, and an existing registration under the number is merged into it. If the user then has more than
  /// ``mostPerUser``, the oldest are removed.
  ///
  /// - Parameter isElsewhere: whether a new one lives elsewhere, where it is registered already.
  package func register(
    _ token: PushToken, iosAppID: String?, for user: LegacyUser, server: Int64, realm: RemoteRealm?,
    isElsewhere: Bool = false
  ) async throws {
    // The user as the row names it, which the sealed token is bound to.
    let number = Value.integer(user.uuid == nil ? user.id : nil)
    let uuid = Value.text(user.uuid?.canonical)
    let sealed = storageKey.seal(token.text, at: Self.place(server: server, user: number, uuid: uuid))
    let hash = Value.integer(storageKey.tokenHash(of: token))
    let kind = Value.integer(token.kind.storage)
    let now = now()
    let name = user.uuid == nil ? "user_id" : "user_uuid"
    let insertion = Statement(
      """
      INSERT INTO registrations
        (wire, server_id, user_id, user_uuid, kind, token_hash, realm_id, token, target, registered_at, elsewhere)
      VALUES (\(Wire.legacy.sql), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
      ON CONFLICT (server_id, \(name), kind, token_hash) WHERE \(name) IS NOT NULL DO UPDATE SET
        realm_id = COALESCE(registrations.realm_id, excluded.realm_id),
        target = COALESCE(registrations.target, excluded.target),
        registered_at = excluded.registered_at, \(RegistrationReference.clearFailureAndHold)
      RETURNING id, registered_at
      """, .integer(server), number, uuid, kind, hash, .integer(realm?.id), .bytes(sealed), .text(iosAppID),
      .integer(now.milliseconds), .integer(isElsewhere ? 1 : nil))
    guard let formerly = user.id, user.uuid != nil else {
      _ = try await database.execute(insertion)
      return try await removeSurplus(of: user, kind, server: server)
    }
    let duplicates = Statement(
      """
      SELECT id, registered_at FROM registrations
      WHERE server_id = $1 AND user_id = $2 AND kind = $3 AND token_hash = $4
      """, .integer(server), .integer(formerly), kind, hash)
    try await database.write { [self] connection in
      let removed = try connection.query(duplicates).map { try RegistrationReference(.legacy, $0) }
      let kept = try RegistrationReference(.legacy, connection.query(insertion).returned)
      for duplicate in removed { try replace(duplicate, by: kept, on: connection) }
    }
    try await removeSurplus(of: user, kind, server: server)
  }

  private func removeSurplus(of user: LegacyUser, _ kind: Value, server: Int64) async throws {
    let surplus = try await database.lookUp(
      Statement(
        """
        SELECT id FROM registrations WHERE \(Self.ofUser) AND kind = $4
        ORDER BY registered_at DESC, id DESC LIMIT 1000 OFFSET \(Self.mostPerUser)
        """, arguments: user.arguments(at: server) + [kind]))
    guard !surplus.isEmpty else { return }
    _ = try await database.execute(
      Statement("DELETE FROM registrations WHERE id IN ($list)", list: try surplus.map { try $0.value("id") })
    )
  }

  /// SQL condition for a user's rows. The arguments begin with the server, the user's number and its UUID.
  package static let ofUser = "server_id = $1 AND (user_id = $2 OR user_uuid = $3)"

  /// Removes a user's token in any spelling.
  ///
  /// - Parameter token: nil for all of the user's tokens.
  package func unregister(_ token: PushToken?, of user: LegacyUser, server: Int64) async throws {
    let these: [Value] =
      token.map { [.integer($0.kind.storage), .integer(storageKey.tokenHash(of: $0))] } ?? []
    _ = try await database.execute(
      Statement(
        "DELETE FROM registrations WHERE \(Self.ofUser)\(token == nil ? "" : " AND kind = $4 AND token_hash = $5")",
        arguments: user.arguments(at: server) + these))
  }

  /// A user's registration of a token, in any spelling.
  package func find(_ token: PushToken, of user: LegacyUser, server: Int64) async throws -> Registration? {
    let statement = Statement(
      """
      SELECT \(Self.columns), user_id, user_uuid FROM registrations
      WHERE \(Self.ofUser) AND kind = $4 AND token_hash = $5 ORDER BY id LIMIT 1
      """,
      arguments: user.arguments(at: server)
        + [.integer(token.kind.storage), .integer(storageKey.tokenHash(of: token))])
    return try await database.lookUp(statement).first.flatMap { try legacy($0, server: server) }
  }

  /// The tokens among these that the user does not have, as spelled and in order. Malformed tokens are among them, and so
  /// is each further spelling of a token that the user has.
  package func missing(
    _ texts: [String], kind: PushToken.Kind, of user: LegacyUser, server: Int64
  ) async throws -> [String] {
    guard !texts.isEmpty else { return [] }
    let statement = Statement(
      "SELECT token_hash FROM registrations WHERE \(Self.ofUser) AND kind = $4",
      arguments: user.arguments(at: server) + [.integer(kind.storage)])
    var held = Set(try await database.lookUp(statement).map { try $0.int64("token_hash") })
    return texts.filter { text in
      guard let token = try? PushToken(text, kind: kind) else { return true }
      return held.remove(storageKey.tokenHash(of: token)) == nil
    }
  }

  /// The registrations that a notification goes to, and what was corrected while they were looked up.
  package struct Recipients: Sendable {
    /// The recipients in the order of the rows, each device once; of each kind the newest ``mostPerUser``.
    package var registrations: [Registration] = []
    /// Number of registrations removed because the device has an end-to-end encrypted one.
    package var superseded: [PushToken.Kind: Int] = [:]
    /// Number of registrations under the user's number merged into one under its UUID.
    package var mergedUserIDs = 0
    /// Number of registrations whose token does not open; they are left unchanged.
    package var unreadable = 0
  }

  /// Finds the user's registrations for a notification and corrects them: those without a realm get this one,
  /// those under the user's number and UUID are merged, and those of devices with an end-to-end encrypted
  /// registration in the realm are removed (`Documentation/Decisions` 0009,
  /// `Documentation/Protocols/Zulip.md` 8.1). One query, and a transaction only if there is something to
  /// correct.
  package func recipients(of user: LegacyUser, server: Int64, realm: RemoteRealm?) async throws -> Recipients
  {
    let statement = Statement(
      Self.selectRecipients, arguments: user.arguments(at: server) + [.integer(realm?.id)])
    var recipients = Recipients()
    var replaced: [(old: RegistrationReference, new: RegistrationReference)] = []
    var withoutRealm: [Value] = []
    var last: Value?
    for row in try await database.query(statement) where try row.value("id") != last {
      last = try row.value("id")
      let reference = try RegistrationReference(.legacy, row)
      if try row.value("e2ee_id") != .null {
        replaced.append((reference, try .init(.e2ee, row, id: "e2ee_id", registeredAt: "e2ee_registered_at")))
        if let kind = PushToken.Kind(storage: try row.int64("kind")) {
          recipients.superseded[kind, default: 0] += 1
        }
        continue
      }
      if try row.value("by_uuid_id") != .null {
        replaced.append(
          (reference, try .init(.legacy, row, id: "by_uuid_id", registeredAt: "by_uuid_registered_at")))
        recipients.mergedUserIDs += 1
        continue
      }
      if let registration = try legacy(row, server: server) {
        recipients.registrations.append(registration)
      } else {
        recipients.unreadable += 1
      }
      if realm != nil, try row.value("realm_id") == .null { withoutRealm.append(.integer(reference.id)) }
    }
    recipients.registrations = Self.newest(recipients.registrations)
    guard !replaced.isEmpty || !withoutRealm.isEmpty else { return recipients }
    try await database.write { [self, replaced, withoutRealm] connection in
      for (old, new) in replaced { try replace(old, by: new, on: connection) }
      guard !withoutRealm.isEmpty else { return }
      try connection.run(
        "UPDATE registrations SET realm_id = $1 WHERE realm_id IS NULL AND id IN ($list)",
        .integer(realm?.id), list: withoutRealm)
    }
    return recipients
  }

  /// The newest registrations, ``mostPerUser`` of each kind. There are more only after an import, or if a user has some
  /// under its number and some under its UUID.
  private static func newest(_ registrations: [Registration]) -> [Registration] {
    guard registrations.count > mostPerUser else { return registrations }
    return Dictionary(grouping: registrations, by: \.token.kind).values.flatMap { same in
      same.sorted { $0.reference.registeredAt > $1.reference.registeredAt }.prefix(mostPerUser)
    }
  }

  /// SQL for a user's rows, each joined with its device's encrypted registration and, for one under the number, with
  /// the one under the user's UUID. The `+` keeps SQLite from reading all rows of a realm.
  static let selectRecipients = """
    SELECT l.id, l.registered_at, l.kind, l.token, l.target,
      COALESCE(l.elsewhere, CASE WHEN l.delivered_at IS NOT NULL THEN 2 END) AS home, l.environment, l.user_id,
      l.user_uuid, l.realm_id, e.id AS e2ee_id, e.registered_at AS e2ee_registered_at, u.id AS by_uuid_id,
      u.registered_at AS by_uuid_registered_at
    FROM registrations l
    LEFT JOIN registrations e ON e.token_hash = l.token_hash AND e.kind = l.kind AND e.ended_at IS NULL
      AND +e.realm_id = COALESCE(l.realm_id, $4) AND e.token_id IS NOT NULL
    LEFT JOIN registrations u ON u.server_id = l.server_id AND u.user_uuid = $3 AND u.kind = l.kind
      AND u.token_hash = l.token_hash AND l.user_id IS NOT NULL
    WHERE l.server_id = $1 AND (l.user_id = $2 OR l.user_uuid = $3)
    ORDER BY l.kind DESC, l.id
    """

  /// SQL for legacy registrations in a range of rows whose device has an encrypted one in the same realm.
  static let selectDuplicates = """
    SELECT l.id, l.registered_at, e.id AS e2ee_id, e.registered_at AS e2ee_registered_at
    FROM registrations l JOIN registrations e
      ON e.token_hash = l.token_hash AND e.kind = l.kind AND +e.realm_id = l.realm_id AND e.ended_at IS NULL
      AND e.token_id IS NOT NULL
    WHERE l.wire = \(Wire.legacy.sql) AND l.id > $1 AND l.id <= $2
    """

  /// Removes legacy registrations of devices with an end-to-end encrypted one in the same realm, which
  /// earlier versions and imports may have left. Checks a limited range of rows.
  ///
  /// - Parameter row: the last row that was checked.
  /// - Returns: how many were removed, and the last row checked; nil at the end.
  package func removeDuplicates(after row: Int64, limit: Int64 = 2000) async throws -> (
    removed: Int, last: Int64?
  ) {
    // The end of the range is found by a query of its own: a join would read on until it had found enough
    // matches.
    let end = Statement(
      "SELECT MAX(id) AS last FROM (SELECT id FROM registrations WHERE id > $1 ORDER BY id LIMIT $2) AS stretch",
      .integer(row), .integer(limit))
    guard let last = try await database.query(end).first?.optionalInt64("last") else {
      return (0, nil)
    }
    let found = try await database.query(Self.selectDuplicates, .integer(row), .integer(last)).map { row in
      (
        old: try RegistrationReference(.legacy, row),
        new: try RegistrationReference(.e2ee, row, id: "e2ee_id", registeredAt: "e2ee_registered_at")
      )
    }
    guard !found.isEmpty else { return (0, last) }
    try await database.write { [self] connection in
      for (old, new) in found { try replace(old, by: new, on: connection) }
    }
    return (Set(found.map(\.old)).count, last)
  }

  /// Reads ``columns``, the user's number and its UUID. Returns nil if the token does not open.
  private func legacy(_ row: Row, server: Int64) throws -> Registration? {
    let place = Self.place(
      server: server, user: try row.value("user_id"), uuid: try row.value("user_uuid"))
    return try registration(row, .legacy, at: place)
  }

  /// The sealed place of a legacy registration's token.
  package static func place(server: Int64, user: Value, uuid: Value) -> SealedPlace {
    .token(server: .integer(server), user: user, uuid: uuid)
  }

  /// Removes a registration that another one replaces. Its entries in the outbox are moved to the new one:
  /// they were promised, and must not be sent twice.
  package func replace(
    _ old: RegistrationReference, by new: RegistrationReference, on connection: any Connection
  ) throws {
    let removed = try connection.run(
      Statement("DELETE FROM registrations WHERE id = $1 AND registered_at = $2", arguments: old.arguments))
    // If it was registered again meanwhile, it is left for the next time.
    guard removed > 0 else { return }
    let waiting = Statement("SELECT id, push FROM outbox WHERE registration_id = $1", .integer(old.id))
    for row in try connection.query(waiting) {
      let sealed = try row.bytes("push")
      let push = storageKey.open(sealed, at: SealedColumn.outboxPush.place(.integer(old.id)))
      let place = SealedColumn.outboxPush.place(.integer(new.id))
      try connection.run(
        Statement(
          """
          UPDATE outbox SET registration_id = $1, registered_at = $2, wire = $3, push = $4 WHERE id = $5
          """,
          arguments: new.arguments + [
            .integer(new.wire.rawValue), .bytes(push.map { storageKey.seal($0, at: place) } ?? sealed),
            .integer(try row.int64("id")),
          ]))
    }
  }
}
