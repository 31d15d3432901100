import Foundation
import Registrations
import SQL
import Sealing

/// An E2EE registration ready to be stored, its token sealed.
struct SealedE2EE: Sendable {
  fileprivate let key: Key
  fileprivate let kind: Int64
  fileprivate let token: [UInt8]
  fileprivate let tokenHash: Int64
  fileprivate let iosAppID: String?
  fileprivate let endedAt: Int64?

  fileprivate struct Key: Hashable {
    let realm: Int64
    let tokenID: Int64
  }
}

extension ImportWork {
  /// Seals a registration with a realm, by its row. Takes microseconds, so it is not for a transaction.
  func seal(_ token: PushToken, iosAppID: String?, realm: Int64, endedAt: Date?) -> SealedE2EE {
    SealedE2EE(
      key: .init(realm: realm, tokenID: token.id.storage), kind: token.kind.storage,
      token: storageKey.seal(token.text, at: E2EERegistrations.place(realm: realm, token.id)),
      tokenHash: storageKey.tokenHash(of: token), iosAppID: iosAppID, endedAt: endedAt?.milliseconds)
  }

  /// Takes in the registrations of tokens that their realms have not registered here.
  ///
  /// - Parameter rows: as many as a statement can have arguments.
  func store(_ rows: [SealedE2EE], on connection: any Connection) throws -> ImportCounts {
    var counts = ImportCounts()
    var fresh: [SealedE2EE] = []
    var present: [SealedE2EE.Key: Int64] = [:]
    let known = try connection.query(
      Statement(
        """
        SELECT realm_id, token_id, id FROM registrations
        WHERE token_hash IN ($list) AND token_id IS NOT NULL
        """, list: rows.map { .integer($0.tokenHash) }))
    for row in known {
      present[.init(realm: try row.int64(0), tokenID: try row.int64(1))] = try row.int64(2)
    }
    for row in rows {
      if let id = present[row.key] {
        if id >= firstID { counts.foldedTokens += 1 } else { counts.alreadyThere += 1 }
      } else {
        present[row.key] = .max
        fresh.append(row)
      }
    }
    try insertE2EE.run(fresh.map(arguments), on: connection, database.engine)
    counts.imported = fresh.count
    return counts
  }

  private func arguments(_ row: SealedE2EE) -> [Value] {
    [
      .integer(row.key.realm), .integer(row.key.tokenID), .integer(row.kind), .bytes(row.token),
      .integer(row.tokenHash), .text(row.iosAppID ?? ""), .integer(startedAt.milliseconds),
      .integer(row.endedAt ?? .min),
    ]
  }
}

private let insertE2EE = RowInsertion(
  "registrations",
  [
    "wire": "1", "realm_id": "$", "token_id": "$", "kind": "$", "token": "$", "token_hash": "$",
    "target": "NULLIF($, '')", "registered_at": "$", "ended_at": "NULLIF($, \(Int64.min))",
  ])
