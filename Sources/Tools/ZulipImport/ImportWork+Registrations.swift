import Foundation
import HTTP
import Providers
import Registrations
import SQL
import Sealing
import ZulipBouncer

/// A registration to be stored, with its token sealed.
struct NewRegistration: Sendable {
  /// Identifies a registration.
  enum Key: Hashable, Sendable {
    case encrypted(realm: Int64, tokenID: Int64)
    /// Old servers name their users by number, newer ones by UUID.
    case legacy(server: Int64, userID: Int64?, uuid: String?, kind: Int64, tokenHash: Int64)
  }

  /// The values of the latest row of the same device.
  struct Latest: Sendable {
    var realm: Int64?
    var iosAppID: String?
    var registeredAt: Int64

    /// Takes the values of another row of the same device if that is later; returns whether it is.
    mutating func takeOver(_ other: Latest, isTimeKnown: Bool) -> Bool {
      guard isTimeKnown, other.registeredAt > registeredAt else { return false }
      self = Latest(
        realm: other.realm ?? realm, iosAppID: other.iosAppID ?? iosAppID, registeredAt: other.registeredAt)
      return true
    }
  }

  let key: Key
  let kind: Int64
  let token: [UInt8]
  let tokenHash: Int64
  var latest: Latest
  /// Whether the source has the time of its registration.
  var isTimeKnown = false
  var endedAt: Int64?

  fileprivate var isLegacy: Bool { if case .legacy = key { true } else { false } }
}

extension ImportWork {
  /// Imports E2EE registrations: either those that have ended, or the others.
  mutating func importDevices(ended: Bool) async throws -> Bool {
    try await importTable(.devices) { [self] row in
      let endedAt = try row.time("expired_time")
      guard (endedAt != nil) == ended else { return nil }
      guard let id = try row.optionalInteger("remote_realm_id") else { throw Refusal.cloudRealm }
      guard let realm = known[.realms]?[id]?.row else { throw Refusal.unknownRealm }
      guard let kind = PushToken.Kind(rawValue: row["token_kind"] ?? "") else { throw Refusal.unknownKind }
      let token = try Self.token(row["token"] ?? "", kind)
      guard token.id.storage == (try row.integer("token_id")) else { throw Refusal.wrongTokenID }
      return NewRegistration(
        key: .encrypted(realm: realm, tokenID: token.id.storage), kind: kind.storage,
        token: run.storageKey.seal(token.text, at: RegistrationStore.place(realm: realm, token.id)),
        tokenHash: run.storageKey.tokenHash(of: token),
        latest: .init(
          realm: realm, iosAppID: try Self.appID(row["ios_app_id"], kind),
          registeredAt: startedAt.milliseconds), endedAt: endedAt?.milliseconds)
    } store: { [self] rows, connection in
      try store(rows, on: connection)
    }
  }

  mutating func importTokens() async throws -> Bool {
    try await importTable(.tokens) { [self] row in
      // Read first: an invalid time is an error of the file, and not a reason to refuse the row.
      let time = try row.time("last_updated")?.milliseconds ?? .max
      guard let server = known[.servers]?[try row.integer("server_id")]?.row else {
        throw Refusal.unknownServer
      }
      // An unknown realm is left out; the server names it again with the next notification.
      let realm = try row.optionalInteger("remote_realm_id").flatMap { known[.realms]?[$0] }
      guard realm.map({ $0.server == server }) ?? true else { throw Refusal.realmOfAnotherServer }
      let userID = try row.optionalInteger("user_id")
      let uuid = try row.optionalUUID("user_uuid")?.canonical
      guard userID != nil || uuid != nil else { throw Refusal.noUser }
      guard userID == nil || uuid == nil else { throw Refusal.twoUsers }
      guard userID ?? 0 >= 0 else { throw Refusal.userIDOutOfRange }
      guard let kind = PushToken.Kind(storage: try row.integer("kind")) else { throw Refusal.unknownKind }
      // A token from a former `bytea` column has this prefix, which can mean nothing else.
      let text = row["token"] ?? ""
      let token = try Self.token(
        kind == .apns && text.hasPrefix("\\x") ? String(text.dropFirst(2)) : text, kind)
      let hash = run.storageKey.tokenHash(of: token)
      let place = RegistrationStore.place(server: server, user: .integer(userID), uuid: .text(uuid))
      // A time in the future is replaced by the last moment before the import: otherwise no provider's answer
      // would ever be newer.
      let last = startedAt.milliseconds - 1
      return NewRegistration(
        key: .legacy(server: server, userID: userID, uuid: uuid, kind: kind.storage, tokenHash: hash),
        kind: kind.storage, token: run.storageKey.seal(token.text, at: place), tokenHash: hash,
        latest: .init(
          realm: realm?.row, iosAppID: try Self.appID(row["ios_app_id"], kind),
          registeredAt: min(time, last)), isTimeKnown: time <= last)
    } store: { [self] rows, connection in
      try store(rows, on: connection)
    }
  }

  private static func token(_ text: String, _ kind: PushToken.Kind) throws(Refusal) -> PushToken {
    do {
      return try PushToken(text, kind: kind)
    } catch {
      throw error == .length ? .tokenLength : .tokenNotHexadecimal
    }
  }

  /// The app id of an APNs token, validated because it becomes a header.
  private static func appID(_ text: String?, _ kind: PushToken.Kind) throws(Refusal) -> String? {
    guard kind == .apns else { return nil }
    guard let text, !text.isEmpty else { throw .noAppID }
    guard AppID.isValid(text) else { throw .malformedAppID }
    return text
  }

  /// Inserts registrations that are missing, except legacy ones of devices with a live E2EE registration in
  /// the same realm, which would get everything twice (`Documentation/Decisions` 0009).
  ///
  /// Several spellings of one APNs token are one legacy device, and the first spelling stays. Of these rows
  /// and an existing one, the values of the latest are used.
  ///
  /// - Parameter rows: at most as many as a statement can have arguments.
  private func store(_ rows: [NewRegistration], on connection: any Connection) throws -> Stored {
    var stored = Stored()
    let (present, encrypted) = try connection.registrations(ofTokens: rows.map(\.tokenHash))
    var fresh: [NewRegistration] = []
    var places: [NewRegistration.Key: Int] = [:]
    var changed: [Int64: NewRegistration.Latest] = [:]
    for row in rows {
      let merged = row.isLegacy ? ImportCounts.Result.mergedSpelling : .mergedToken
      if case .legacy(_, .some, _, _, _) = row.key { stored.byNumber.insert(row.tokenHash) }
      if row.isLegacy, let realm = row.latest.realm, encrypted.contains([realm, row.kind, row.tokenHash]) {
        stored.counts[.superseded] += 1
      } else if let place = places[row.key] {
        _ = fresh[place].latest.takeOver(row.latest, isTimeKnown: row.isTimeKnown)
        stored.counts[merged] += 1
      } else if let (id, latest) = present[row.key] {
        var latest = changed[id] ?? latest
        if latest.takeOver(row.latest, isTimeKnown: row.isTimeKnown) { changed[id] = latest }
        stored.counts[id >= firstID ? merged : .alreadyThere] += 1
      } else {
        places[row.key] = fresh.count
        fresh.append(row)
      }
    }
    try insertion.run(fresh.map(\.arguments), on: connection, run.database.engine)
    stored.counts[.imported] = fresh.count
    for (id, row) in changed {
      try connection.run(
        Statement(
          "UPDATE registrations SET realm_id = $2, target = $3, registered_at = $4 WHERE id = $1",
          .integer(id), .integer(row.realm), .text(row.iosAppID), .integer(row.registeredAt)))
    }
    return stored
  }

  /// Removes registrations under a user's number whose user now has a UUID, for the devices that the source
  /// has under a number.
  ///
  /// Nothing says which number became which UUID. So a device's registrations under numbers are removed only
  /// if it has at least as many under UUIDs, at the same server and of realms that may be the same: otherwise
  /// one of the numbers may be a different user. Remaining ones are merged with the server's next
  /// notification, which has both names (`Documentation/Protocols/Zulip.md` 7.5).
  ///
  /// - Returns: false if it was stopped.
  mutating func mergeUserIDs() async throws -> Bool {
    let hashes = Array(byNumber)
    for start in stride(from: 0, to: hashes.count, by: run.batch) {
      if Task.isCancelled { return false }
      let portion = hashes[start..<min(start + run.batch, hashes.count)].map(Value.integer)
      let merged = try await run.database.write { [self] connection in
        try preferIndexes(on: connection)
        return try connection.query(
          Statement(Self.mergeUserIDs, .integer(startedAt.milliseconds), list: portion)
        ).map { try $0.int64("id") }
      }
      let fresh = merged.count { $0 >= firstID }
      counts[.tokens]?[.mergedUserID] += merged.count
      counts[.tokens]?[.imported] -= fresh
      counts[.tokens]?[.alreadyThere] -= merged.count - fresh
    }
    return true
  }

  private static let mergeUserIDs = """
    DELETE FROM registrations WHERE id IN (
      SELECT n.id FROM registrations n
      WHERE n.token_hash IN ($list) AND n.user_id IS NOT NULL AND n.registered_at < $1
        AND (SELECT COUNT(*) FROM registrations u WHERE u.user_uuid IS NOT NULL AND \(sameDevice("u")))
          >= (SELECT COUNT(*) FROM registrations o WHERE o.user_id IS NOT NULL AND \(sameDevice("o"))))
    RETURNING id
    """

  /// Uses the index of tokens: the plus keeps SQLite from indexes that begin with the server, with which it
  /// would compare each row with all others of the server.
  private static func sameDevice(_ other: String) -> String {
    """
    \(other).token_hash = n.token_hash AND +\(other).server_id = n.server_id AND +\(other).kind = n.kind
    AND (\(other).realm_id = n.realm_id OR \(other).realm_id IS NULL OR n.realm_id IS NULL)
    """
  }
}

extension Connection {
  /// The existing Zulip registrations with these tokens, and the devices (realm, kind, token hash) with a
  /// live E2EE registration.
  fileprivate func registrations(
    ofTokens hashes: [Int64]
  ) throws -> (
    present: [NewRegistration.Key: (id: Int64, latest: NewRegistration.Latest)], encrypted: Set<[Int64]>
  ) {
    var present: [NewRegistration.Key: (id: Int64, latest: NewRegistration.Latest)] = [:]
    var encrypted: Set<[Int64]> = []
    let rows = try query(
      Statement(
        """
        SELECT id, kind, token_hash, realm_id, target, registered_at, ended_at, token_id, server_id, user_id,
          user_uuid
        FROM registrations WHERE token_hash IN ($list) AND wire IN (\(Wire.zulip))
        """, list: hashes.map(Value.integer)))
    for row in rows {
      let kind = try row.int64("kind")
      let hash = try row.int64("token_hash")
      let realm = try row.optionalInt64("realm_id")
      let key: NewRegistration.Key
      if let tokenID = try row.optionalInt64("token_id"), let realm {
        key = .encrypted(realm: realm, tokenID: tokenID)
        if try row.optionalInt64("ended_at") == nil { encrypted.insert([realm, kind, hash]) }
      } else {
        key = .legacy(
          server: try row.int64("server_id"), userID: try row.optionalInt64("user_id"),
          uuid: try row.optionalText("user_uuid"),
          kind: kind,
          tokenHash: hash)
      }
      let latest = NewRegistration.Latest(
        realm: realm, iosAppID: try row.optionalText("target"), registeredAt: try row.int64("registered_at"))
      present[key] = (try row.int64("id"), latest)
    }
    return (present, encrypted)
  }
}

extension NewRegistration {
  /// The arguments of ``insertion``.
  fileprivate var arguments: [Value] {
    let owner: [Value] =
      switch key {
      case .encrypted(_, let tokenID): [.integer(1), .integer(tokenID), .integer(0), .integer(-1), .text("")]
      case .legacy(let server, let userID, let uuid, _, _):
        [.integer(2), .integer(.min), .integer(server), .integer(userID ?? -1), .text(uuid ?? "")]
      }
    return owner + [
      .integer(latest.realm ?? 0), .integer(kind), .bytes(token), .integer(tokenHash),
      .text(latest.iosAppID ?? ""), .integer(latest.registeredAt), .integer(endedAt ?? .min),
    ]
  }
}

/// Inserts many rows: into PostgreSQL with few statements, since each costs a round trip. SQLite gets them
/// one by one, because it would copy each page changed by a statement of several rows.
///
/// NULLs are passed as other values: PostgreSQL would prepare a statement again for each pattern of NULLs.
private let insertion = RowInsertion()

private struct RowInsertion {
  private static let columns: KeyValuePairs = [
    "wire": "$", "token_id": "NULLIF($, \(Int64.min))", "server_id": "NULLIF($, 0)",
    "user_id": "NULLIF($, -1)", "user_uuid": "NULLIF($, '')", "realm_id": "NULLIF($, 0)", "kind": "$",
    "token": "$", "token_hash": "$", "target": "NULLIF($, '')", "registered_at": "$",
    "ended_at": "NULLIF($, \(Int64.min))",
  ]

  /// The statements by their number of rows: few different numbers, so that few statements are prepared.
  private let texts = [256, 16, 1].map { count in
    let tuples = (0..<count).map { row in
      let values = columns.enumerated().map { index, column in
        column.value.replacing("$", with: "$\(row * columns.count + index + 1)")
      }
      return "(\(values.joined(separator: ", ")))"
    }
    let names = columns.map(\.key).joined(separator: ", ")
    return (
      count: count,
      sql: "INSERT INTO registrations (\(names)) VALUES \(tuples.joined(separator: ", "))"
    )
  }

  func run(_ rows: [[Value]], on connection: any Connection, _ engine: DatabaseEngine) throws {
    var rest = rows[...]
    for (count, sql) in texts where engine == .postgreSQL || count == 1 {
      while rest.count >= count {
        try connection.run(Statement(sql, arguments: Array(rest.prefix(count).joined())))
        rest = rest.dropFirst(count)
      }
    }
  }
}
