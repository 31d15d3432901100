import Foundation
import Registrations
import SQL
import Sealing

/// Whose legacy registration it is: old servers name their users by number, newer ones by UUID.
enum LegacyOwner: Sendable, Hashable {
  case id(Int64)
  case uuid(UUID)

  fileprivate func place(server: Int64) -> SealedPlace {
    switch self {
    case .id(let id): RegistrationStore.place(server: server, user: .integer(id), uuid: .null)
    case .uuid(let uuid):
      RegistrationStore.place(server: server, user: .null, uuid: .text(uuid.canonical))
    }
  }
}

/// A legacy registration ready to be stored, its token sealed.
struct SealedLegacy: Sendable {
  fileprivate struct Key: Hashable {
    let server: Int64
    let user: LegacyOwner
    let kind: Int64
    let tokenHash: Int64
  }

  fileprivate let key: Key
  fileprivate let token: [UInt8]
  fileprivate var realm: Int64?
  fileprivate var iosAppID: String?
  fileprivate var registeredAt: Int64
  /// Whether the source says when it was registered.
  fileprivate var isTimeKnown = true

  /// Takes over what another row of the same device says, if that is known to be later. Returns whether it is.
  fileprivate mutating func takeOver(_ other: SealedLegacy) -> Bool {
    guard other.isTimeKnown, other.registeredAt > registeredAt else { return false }
    (registeredAt, realm, iosAppID) = (other.registeredAt, other.realm ?? realm, other.iosAppID ?? iosAppID)
    return true
  }
}

extension ImportWork {
  /// Seals a registration with a server, by its row. Takes microseconds, so it is not for a transaction.
  ///
  /// - Parameter registeredAt: nil if it is not known. A time that is not over yet is taken for the last
  ///   moment before the import: else no answer of a provider would ever be newer.
  func seal(
    _ token: PushToken, iosAppID: String?, server: Int64, realm: Int64?, user: LegacyOwner,
    registeredAt: Date?
  ) -> SealedLegacy {
    let latest = startedAt.milliseconds - 1
    let time = registeredAt?.milliseconds ?? .max
    return SealedLegacy(
      key: .init(
        server: server, user: user, kind: token.kind.storage, tokenHash: storageKey.tokenHash(of: token)),
      token: storageKey.seal(token.text, at: user.place(server: server)), realm: realm, iosAppID: iosAppID,
      registeredAt: min(time, latest), isTimeKnown: time <= latest)
  }

  /// Takes registrations in, but for those of devices that have a live E2EE registration with the same
  /// realm: they would get everything twice (`Documentation/Decisions` 0009).
  ///
  /// Several spellings of one APNs token are one device: the spelling that comes first stays. Of what its rows say, and
  /// a row that is here already, the latest counts.
  ///
  /// - Parameter rows: as many as a statement can have arguments.
  func store(_ rows: [SealedLegacy], on connection: any Connection) throws -> Stored {
    var stored = Stored()
    let hashes = rows.map { Value.integer($0.key.tokenHash) }
    let encrypted = try connection.encryptedDevices(hashes)
    let present = try connection.legacyRegistrations(hashes)
    var fresh: [SealedLegacy] = []
    var places: [SealedLegacy.Key: Int] = [:]
    var changed: [Int64: SealedLegacy] = [:]
    for row in rows {
      if case .id = row.key.user { stored.byNumber.insert(row.key.tokenHash) }
      if let realm = row.realm, encrypted.contains(EncryptedDevice(realm: realm, row.key)) {
        stored.counts.superseded += 1
      } else if let place = places[row.key] {
        _ = fresh[place].takeOver(row)
        stored.counts.foldedSpellings += 1
      } else if let known = present[row.key] {
        var registration = changed[known.id] ?? known.registration
        if registration.takeOver(row) { changed[known.id] = registration }
        if known.id >= firstID {
          stored.counts.foldedSpellings += 1
        } else {
          stored.counts.alreadyThere += 1
        }
      } else {
        places[row.key] = fresh.count
        fresh.append(row)
      }
    }
    try insertLegacy.run(fresh.map(\.arguments), on: connection, database.engine)
    stored.counts.imported = fresh.count
    for (id, row) in changed {
      try connection.run(
        Statement(
          "UPDATE registrations SET realm_id = $2, target = $3, registered_at = $4 WHERE id = $1",
          .integer(id), .integer(row.realm), .text(row.iosAppID), .integer(row.registeredAt)))
    }
    return stored
  }

  /// Removes registrations by a user's number that have become registrations by UUID, of devices that the source has
  /// by number.
  ///
  /// Nothing says which number has become which UUID. So a device's registrations by number go only where
  /// it has at least as many by UUID with the same server, of realms that may be the same: else one of
  /// the numbers may be a user of its own. What is left over then, the server sorts out with its next
  /// notification, which names both (`Documentation/Protocols/Zulip.md` 7.5).
  ///
  /// - Returns: whether it came to the end.
  mutating func foldUserIDs() async throws -> Bool {
    let hashes = Array(byNumber)
    for start in stride(from: 0, to: hashes.count, by: batch) {
      if Task.isCancelled { return false }
      let portion = hashes[start..<min(start + batch, hashes.count)].map(Value.integer)
      let folded = try await database.write { [self] connection in
        try preferIndexes(on: connection)
        return try connection.query(
          Statement(Self.fold, .integer(startedAt.milliseconds), list: portion)
        ).map { try $0.int64(0) }
      }
      let fresh = folded.count { $0 >= firstID }
      change(.tokens) { counts in
        counts.foldedUserIDs += folded.count
        counts.imported -= fresh
        counts.alreadyThere -= folded.count - fresh
      }
    }
    return true
  }

  private static let fold = """
    DELETE FROM registrations WHERE id IN (
      SELECT n.id FROM registrations n
      WHERE n.token_hash IN ($list) AND n.user_id IS NOT NULL AND n.registered_at < $1
        AND (SELECT COUNT(*) FROM registrations u WHERE u.user_uuid IS NOT NULL AND \(sameDevice("u")))
          >= (SELECT COUNT(*) FROM registrations o WHERE o.user_id IS NOT NULL AND \(sameDevice("o"))))
    RETURNING id
    """

  /// By the index of tokens: the plus keeps SQLite from those that begin with the server, of which each row
  /// would be compared with each.
  private static func sameDevice(_ other: String) -> String {
    """
    \(other).token_hash = n.token_hash AND +\(other).server_id = n.server_id AND +\(other).kind = n.kind
    AND (\(other).realm_id = n.realm_id OR \(other).realm_id IS NULL OR n.realm_id IS NULL)
    """
  }
}

private struct EncryptedDevice: Hashable {
  let realm: Int64
  let kind: Int64
  let tokenHash: Int64
}

extension EncryptedDevice {
  fileprivate init(realm: Int64, _ key: SealedLegacy.Key) {
    self.init(realm: realm, kind: key.kind, tokenHash: key.tokenHash)
  }
}

extension SealedLegacy {
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

  fileprivate func legacyRegistrations(
    _ hashes: [Value]
  ) throws -> [SealedLegacy.Key: (id: Int64, registration: SealedLegacy)] {
    var present: [SealedLegacy.Key: (id: Int64, registration: SealedLegacy)] = [:]
    for row in try query(
      Statement(
        """
        SELECT id, server_id, user_id, user_uuid, kind, token_hash, realm_id, token, target, registered_at
        FROM registrations WHERE token_hash IN ($list) AND wire = 2
        """, list: hashes))
    {
      let user: LegacyOwner =
        if let id = try row.optionalInt64(2) { .id(id) } else { .uuid(try row.uuid(3)) }
      let key = SealedLegacy.Key(
        server: try row.int64(1), user: user, kind: try row.int64(4), tokenHash: try row.int64(5))
      present[key] = (
        try row.int64(0),
        SealedLegacy(
          key: key, token: try row.bytes(7), realm: try row.optionalInt64(6),
          iosAppID: try row.optionalText(8), registeredAt: try row.int64(9))
      )
    }
    return present
  }
}
