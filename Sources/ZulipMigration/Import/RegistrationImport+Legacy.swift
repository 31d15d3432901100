internal import Foundation
internal import Registrations
internal import SQL
internal import Sealing

extension RegistrationImport {
  /// Whose legacy registration it is: old servers name their users by number, newer ones by UUID.
  enum User: Sendable, Hashable {
    /// By its number at the server.
    case id(Int64)
    /// By its UUID.
    case uuid(UUID)

    fileprivate func place(server: Int64) -> SealedPlace {
      switch self {
      case .id(let id): LegacyRegistrations.place(server: server, user: .integer(id), uuid: .null)
      case .uuid(let uuid):
        LegacyRegistrations.place(server: server, user: .null, uuid: .text(uuid.canonical))
      }
    }
  }

  /// A legacy registration ready to be stored, its token sealed.
  struct SealedLegacy: Sendable {
    fileprivate let key: LegacyKey
    fileprivate var realm: Int64?
    fileprivate let token: [UInt8]
    fileprivate var iosAppID: String?
    fileprivate var registeredAt: Int64
  }

  /// Seals a registration with a server, by its row. Takes microseconds, so it is not for a transaction.
  ///
  /// - Parameter registeredAt: nil if it is not known. A time that is not over yet is taken for the last
  ///   moment before the import: else no answer of a provider would ever be newer.
  func seal(
    _ token: PushToken, iosAppID: String?, server: Int64, realm: Int64?, user: User, registeredAt: Date?
  ) -> SealedLegacy {
    let latest = startedAt.milliseconds - 1
    return SealedLegacy(
      key: LegacyKey(
        server: server, user: user, kind: token.kind.storage, tokenHash: storageKey.tokenHash(of: token)),
      realm: realm, token: storageKey.seal(token.text, at: user.place(server: server)), iosAppID: iosAppID,
      registeredAt: min(registeredAt?.milliseconds ?? latest, latest))
  }

  /// Takes registrations in, but for those of devices that have a live E2EE registration with the same
  /// realm: they would get everything twice (`Documentation/Decisions` 0009).
  ///
  /// Several spellings of one APNs token are one device: the spelling that comes
  /// first stays, with the latest time.
  ///
  /// - Parameter rows: as many as a statement can have arguments.
  func store(_ rows: [SealedLegacy], on connection: any Connection) throws -> Outcome {
    var outcome = Outcome()
    let hashes = rows.map { Value.integer($0.key.tokenHash) }
    let encrypted = try connection.encryptedDevices(hashes)
    let present = try connection.legacyRegistrations(hashes)
    var fresh: [SealedLegacy] = []
    var places: [LegacyKey: Int] = [:]
    var merged: [Int64: SealedLegacy] = [:]
    for row in rows {
      if let realm = row.realm, encrypted.contains(EncryptedDevice(realm: realm, row.key)) {
        outcome.superseded += 1
      } else if let place = places[row.key] {
        fresh[place].merge(row)
        outcome.folded += 1
      } else if let known = present[row.key] {
        guard isOwn(known) else {
          outcome.alreadyThere += 1
          continue
        }
        merged[known.id, default: known.registration].merge(row)
        outcome.folded += 1
      } else {
        places[row.key] = fresh.count
        fresh.append(row)
        outcome.imported += 1
      }
    }
    try insertLegacy.run(fresh.map(\.arguments), on: connection, engine)
    for (id, row) in merged {
      try connection.run(
        Statement(
          """
          UPDATE registrations SET realm_id = $2, target = $3, registered_at = $4 WHERE id = $1
          """, .integer(id), .integer(row.realm), .text(row.iosAppID), .integer(row.registeredAt)))
    }
    return outcome
  }

  /// Whether this import brought it in, and nobody registered it again since.
  private func isOwn(_ row: PresentLegacy) -> Bool {
    row.id >= firstLegacyID && row.registration.registeredAt < startedAt.milliseconds
  }

  /// Removes, of what this import brought in with ids of a range, the registrations by a user's number
  /// that have become registrations by UUID.
  ///
  /// Nothing says which number has become which UUID. So a device's registrations by number go only where
  /// it has at least as many by UUID with the same server, of realms that may be the same: else one of
  /// the numbers may be a user of its own. What is left over then, the server sorts out with its next
  /// notification, which names both (`Documentation/Protocols/Zulip.md` 7.5).
  ///
  /// - Returns: how many were removed.
  func foldUserIDs(in ids: ClosedRange<Int64>, on connection: any Connection) throws -> Int {
    try connection.run(
      Statement(
        """
        DELETE FROM registrations WHERE id IN (
          SELECT n.id FROM registrations n
          WHERE n.id BETWEEN $1 AND $2 AND n.registered_at < $3 AND n.user_id IS NOT NULL
            AND (SELECT COUNT(*) FROM registrations u WHERE u.user_uuid IS NOT NULL AND \(sameDevice("u")))
              >= (SELECT COUNT(*) FROM registrations o WHERE o.user_id IS NOT NULL AND \(sameDevice("o"))))
        """, .integer(max(ids.lowerBound, firstLegacyID)), .integer(ids.upperBound),
        .integer(startedAt.milliseconds)))
  }

  /// By the index of tokens: the plus keeps SQLite from those that begin with the server, of which each row
  /// would be compared with each.
  private func sameDevice(_ other: String) -> String {
    """
    \(other).token_hash = n.token_hash AND +\(other).server_id = n.server_id AND +\(other).kind = n.kind
    AND (\(other).realm_id = n.realm_id OR \(other).realm_id IS NULL OR n.realm_id IS NULL)
    """
  }
}

private struct LegacyKey: Hashable {
  let server: Int64
  let user: RegistrationImport.User
  let kind: Int64
  let tokenHash: Int64
}

private struct EncryptedDevice: Hashable {
  let realm: Int64
  let kind: Int64
  let tokenHash: Int64

  init(realm: Int64, kind: Int64, tokenHash: Int64) {
    self.realm = realm
    self.kind = kind
    self.tokenHash = tokenHash
  }

  init(realm: Int64, _ key: LegacyKey) {
    self.init(realm: realm, kind: key.kind, tokenHash: key.tokenHash)
  }
}

private struct PresentLegacy {
  let id: Int64
  let registration: RegistrationImport.SealedLegacy
}

extension RegistrationImport.SealedLegacy {
  /// Takes another row of the same device in: what the one with the later time tells.
  fileprivate mutating func merge(_ other: Self) {
    if other.registeredAt > registeredAt {
      (registeredAt, realm, iosAppID) = (
        other.registeredAt, other.realm ?? realm, other.iosAppID ?? iosAppID
      )
    } else {
      (realm, iosAppID) = (realm ?? other.realm, iosAppID ?? other.iosAppID)
    }
  }

  fileprivate var arguments: [Value] {
    let user: [Value] =
      switch key.user {
      case .id(let id): [.integer(id), .text("")]
      case .uuid(let uuid): [.integer(.min), .text(uuid.canonical)]
      }
    return [.integer(key.server), .integer(realm ?? 0)] + user + [
      .integer(key.kind), .bytes(token), .integer(key.tokenHash), .text(iosAppID ?? ""),
      .integer(registeredAt),
    ]
  }
}

private let insertLegacy = RowInsertion(
  "registrations",
  [
    "wire": "2", "server_id": "$", "realm_id": "NULLIF($, 0)", "user_id": "NULLIF($, \(Int64.min))",
    "user_uuid": "NULLIF($, '')", "kind": "$", "token": "$", "token_hash": "$",
    "target": "NULLIF($, '')", "registered_at": "$",
  ])

extension Connection {
  fileprivate func encryptedDevices(_ hashes: [Value]) throws -> Set<EncryptedDevice> {
    let rows = try query(
      Statement(
        """
        SELECT realm_id, kind, token_hash FROM registrations
        WHERE token_hash IN ($list) AND token_id IS NOT NULL AND ended_at IS NULL
        """, list: hashes))
    return Set(
      try rows.map { row in
        EncryptedDevice(realm: try row.int64(0), kind: try row.int64(1), tokenHash: try row.int64(2))
      })
  }

  fileprivate func legacyRegistrations(_ hashes: [Value]) throws -> [LegacyKey: PresentLegacy] {
    var present: [LegacyKey: PresentLegacy] = [:]
    for row in try query(
      Statement(
        """
        SELECT id, server_id, user_id, user_uuid, kind, token_hash, realm_id, token, target, registered_at
        FROM registrations WHERE token_hash IN ($list) AND server_id IS NOT NULL
        """, list: hashes))
    {
      let user: RegistrationImport.User =
        if let id = try row.optionalInt64(2) { .id(id) } else { .uuid(try row.uuid(3)) }
      let key = LegacyKey(
        server: try row.int64(1), user: user, kind: try row.int64(4), tokenHash: try row.int64(5))
      present[key] = PresentLegacy(
        id: try row.int64(0),
        registration: .init(
          key: key, realm: try row.optionalInt64(6), token: try row.bytes(7),
          iosAppID: try row.optionalText(8),
          registeredAt: try row.int64(9)))
    }
    return present
  }
}
