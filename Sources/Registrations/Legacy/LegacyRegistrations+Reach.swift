internal import Foundation
internal import SQL
package import Sealing

extension LegacyRegistrations {
  /// The registrations that a notification goes to, and what was put right on the way there.
  package struct Reach: Sendable {
    /// Where it goes, in the order of the rows, each device once.
    package var registrations: [LegacyRegistration] = []
    /// Registrations that have gone because the device has one that is end-to-end encrypted.
    package var superseded: [PushToken.Kind: Int] = [:]
    /// Registrations under the user's number that have gone because there is one under its UUID.
    package var folded = 0
    /// Registrations whose token does not open: they are left as they are.
    package var unreadable = 0
  }

  /// A row with what is needed to judge it.
  fileprivate struct Candidate {
    let id: Int64
    let registeredAt: Date
    let isUnderNumber: Bool
    let hasRealm: Bool
    let key: Key
    /// The end-to-end encrypted registration of the same device in the same realm.
    var successor: RegistrationReference?
    let row: Row

    struct Key: Hashable {
      let kind: Int64
      let tokenHash: Int64
    }

    var reference: RegistrationReference { .init(.legacy, id: id, registeredAt: registeredAt) }
  }

  /// The user's registrations as a notification should find them: those without a realm get this one,
  /// those under both names of the user are folded, and those of devices that have an end-to-end encrypted
  /// registration in the realm are removed (`Documentation/Decisions` 0009, `Documentation/Protocols/Zulip.md` 8.1).
  /// One query, and a transaction only where something is to be put right.
  package func reach(_ user: LegacyUser, server: Int64, realm: RemoteRealm?) async throws -> Reach {
    let statement = Statement(
      Self.reaching, .integer(server), .integer(user.id), .text(user.uuid?.canonical), .integer(realm?.id))
    var candidates: [Candidate] = []
    for row in try await database.query(statement) where row.id != candidates.last?.id {
      candidates.append(try Candidate(row))
    }
    var reach = Reach()
    var replaced: [(old: RegistrationReference, new: RegistrationReference)] = []
    var homeless: [Int64] = []
    let underUUID = Dictionary(
      candidates.lazy.filter { !$0.isUnderNumber }.map { ($0.key, $0.reference) },
      uniquingKeysWith: { first, _ in first })
    for candidate in candidates {
      if let successor = candidate.successor {
        replaced.append((candidate.reference, successor))
        if let kind = PushToken.Kind(storage: candidate.key.kind) { reach.superseded[kind, default: 0] += 1 }
      } else if candidate.isUnderNumber, let other = underUUID[candidate.key] {
        replaced.append((candidate.reference, other))
        reach.folded += 1
      } else {
        if let registration = try registration(candidate.row, server: server) {
          reach.registrations.append(registration)
        } else {
          reach.unreadable += 1
        }
        if !candidate.hasRealm { homeless.append(candidate.id) }
      }
    }
    try await settle(replaced, homeless, in: realm)
    return reach
  }

  /// Rows of a user, each with the encrypted one of its device. The plus keeps SQLite from reading all of a realm.
  static let reaching = """
    SELECT l.id, l.kind, l.token, l.target, l.registered_at, l.user_id, l.user_uuid, l.token_hash,
      l.realm_id, e.id, e.registered_at
    FROM registrations l LEFT JOIN registrations e
      ON e.token_hash = l.token_hash AND e.kind = l.kind AND e.ended_at IS NULL
      AND +e.realm_id = COALESCE(l.realm_id, $4) AND e.token_id IS NOT NULL
    WHERE l.server_id = $1 AND (l.user_id = $2 OR l.user_uuid = $3)
    ORDER BY l.kind DESC, l.id
    """
  /// Legacy registrations out of a stretch of rows that have an encrypted one beside.
  static let doubles = """
    SELECT l.id, l.registered_at, e.id, e.registered_at
    FROM registrations l JOIN registrations e
      ON e.token_hash = l.token_hash AND e.kind = l.kind AND +e.realm_id = l.realm_id AND e.ended_at IS NULL
      AND e.token_id IS NOT NULL
    WHERE l.wire = 2 AND l.id > $1 AND l.id <= $2
    """

  private func settle(
    _ replaced: [(old: RegistrationReference, new: RegistrationReference)], _ homeless: [Int64],
    in realm: RemoteRealm?
  ) async throws {
    let moving = realm == nil ? [] : homeless
    guard !replaced.isEmpty || !moving.isEmpty else { return }
    let realm = Value.integer(realm?.id)
    try await database.write { connection in
      for (old, new) in replaced { try replace(old, by: new, on: connection) }
      guard !moving.isEmpty else { return }
      try connection.run(
        Statement(
          "UPDATE registrations SET realm_id = $1 WHERE realm_id IS NULL AND id IN ($list)", realm,
          list: moving.map { .integer($0) }))
    }
  }

  /// Removes legacy registrations of devices that have an end-to-end encrypted one in the same realm, as
  /// earlier versions and imports may have left them, out of a bounded stretch of rows.
  ///
  /// - Parameter row: the last row that has been looked at.
  /// - Returns: how many were removed, and the last row looked at; nil at the end.
  package func sweep(after row: Int64, limit: Int64 = 2000) async throws -> (removed: Int, last: Int64?) {
    // The end of the stretch is found by its own: a join would have to go on until it had found enough.
    let end = Statement(
      "SELECT MAX(id) FROM (SELECT id FROM registrations WHERE id > $1 ORDER BY id LIMIT $2) AS stretch",
      .integer(row), .integer(limit))
    guard let last = try await database.query(end).first?.optionalInt64(0) else {
      return (0, nil)
    }
    let doubles = Statement(Self.doubles, .integer(row), .integer(last))
    let found = try await database.query(doubles).map { row in
      (
        RegistrationReference(.legacy, id: try row.int64(0), registeredAt: try row.date(1)),
        RegistrationReference(.e2ee, id: try row.int64(2), registeredAt: try row.date(3))
      )
    }
    guard !found.isEmpty else { return (0, last) }
    try await database.write { connection in
      for (old, new) in found { try replace(old, by: new, on: connection) }
    }
    return (Set(found.map(\.0)).count, last)
  }
}

extension Row {
  fileprivate var id: Int64? { try? int64(0) }
}

extension LegacyRegistrations.Candidate {
  fileprivate init(_ row: Row) throws {
    self.row = row
    id = try row.int64(0)
    registeredAt = try row.date(4)
    key = Key(kind: try row.int64(1), tokenHash: try row.int64(7))
    isUnderNumber = try row.optionalInt64(5) != nil
    hasRealm = try row.optionalInt64(8) != nil
    successor = try row.optionalInt64(9).map { id in
      .init(.e2ee, id: id, registeredAt: try row.date(10))
    }
  }
}
