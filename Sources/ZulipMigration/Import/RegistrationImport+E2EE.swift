internal import Foundation
internal import Registrations
internal import SQL
internal import Sealing

extension RegistrationImport {
  /// An E2EE registration ready to be stored, its token sealed.
  struct SealedE2EE: Sendable {
    let realm: Int64
    let tokenID: Int64
    let kind: Int64
    let token: [UInt8]
    let tokenHash: Int64
    let iosAppID: String?
    var expiredAt: Int64?

    fileprivate var key: E2EEKey { E2EEKey(realm: realm, tokenID: tokenID) }
  }

  /// Seals a registration with a realm, by its row. Takes microseconds, so it is not for a transaction.
  func seal(_ token: PushToken, iosAppID: String?, realm: Int64, expiredAt: Date?) -> SealedE2EE {
    SealedE2EE(
      realm: realm, tokenID: token.id.storage, kind: token.kind.storage,
      token: storageKey.seal(token.text, at: E2EERegistrations.place(realm: realm, token.id)),
      tokenHash: storageKey.tokenHash(of: token), iosAppID: iosAppID, expiredAt: expiredAt?.milliseconds)
  }

  /// Takes registrations in. Where several are of one token and realm, the live one counts.
  ///
  /// - Parameter rows: as many as a statement can have arguments.
  func store(_ rows: [SealedE2EE], on connection: any Connection) throws -> Outcome {
    var outcome = Outcome()
    let present = try connection.registrations(withHashesOf: rows)
    var fresh: [SealedE2EE] = []
    var places: [E2EEKey: Int] = [:]
    var revived: [Int64: Int64?] = [:]
    for row in rows {
      if let place = places[row.key] {
        fresh[place].expiredAt = later(fresh[place].expiredAt, row.expiredAt)
        outcome.folded += 1
      } else if let known = present[row.key] {
        guard known.isImported, known.registeredAt == startedAt.milliseconds else {
          outcome.alreadyThere += 1
          continue
        }
        revived[known.id] = later(revived[known.id] ?? known.expiredAt, row.expiredAt)
        outcome.folded += 1
      } else {
        places[row.key] = fresh.count
        fresh.append(row)
        outcome.imported += 1
      }
    }
    try insertE2EE.run(fresh.map(arguments), on: connection, engine)
    for (id, expiredAt) in revived {
      try connection.run(
        Statement(
          "UPDATE registrations SET ended_at = $2 WHERE id = $1", .integer(id), .integer(expiredAt)))
    }
    return outcome
  }

  private func arguments(_ row: SealedE2EE) -> [Value] {
    [
      .integer(row.realm), .integer(row.tokenID), .integer(row.kind), .bytes(row.token),
      .integer(row.tokenHash), .text(row.iosAppID ?? ""), .integer(startedAt.milliseconds),
      .integer(row.expiredAt ?? .min),
    ]
  }

  /// When a registration of two rows has expired: not at all, if one of them lives.
  private func later(_ one: Int64?, _ other: Int64?) -> Int64? {
    if let one, let other { max(one, other) } else { nil }
  }
}

private struct E2EEKey: Hashable {
  let realm: Int64
  let tokenID: Int64
}

private struct PresentE2EE {
  let id: Int64
  let isImported: Bool
  let registeredAt: Int64
  let expiredAt: Int64?
}

private let insertE2EE = RowInsertion(
  "registrations",
  [
    "wire": "1", "realm_id": "$", "token_id": "$", "kind": "$", "token": "$", "token_hash": "$",
    "target": "NULLIF($, '')", "registered_at": "$", "ended_at": "NULLIF($, \(Int64.min))",
  ])

extension Connection {
  fileprivate func registrations(
    withHashesOf rows: [RegistrationImport.SealedE2EE]
  ) throws -> [E2EEKey: PresentE2EE] {
    var present: [E2EEKey: PresentE2EE] = [:]
    for row in try query(
      Statement(
        """
        SELECT realm_id, token_id, id, bouncer_key_id, registered_at, ended_at FROM registrations
        WHERE token_hash IN ($list) AND token_id IS NOT NULL
        """, list: rows.map { .integer($0.tokenHash) }))
    {
      present[E2EEKey(realm: try row.int64(0), tokenID: try row.int64(1))] = PresentE2EE(
        id: try row.int64(2), isImported: try row.optionalInt64(3) == nil, registeredAt: try row.int64(4),
        expiredAt: try row.optionalInt64(5))
    }
    return present
  }
}
