import Foundation
package import HTTP

/// What a run of an import has done.
package struct ImportReport: Sendable, Hashable {
  /// What became of each table.
  package let tables: [ZulipTable: ImportCounts]
  /// Tables that the source, being of an old version, does not have.
  package let missing: Set<ZulipTable>
  /// Whether everything has been read; otherwise it was stopped, and another run brings the rest.
  package let isComplete: Bool

  /// How many rows were refused.
  package var refusals: Int { tables.values.reduce(0) { $0 + $1.refusals } }

  /// For machines.
  package var json: JSON {
    let tables = ZulipTable.allCases.map { table in
      JSON.Object.Member(table.rawValue, self[table].json)
    }
    return ["complete": .bool(isComplete), "tables": .object(JSON.Object(tables))]
  }

  /// For people: a paragraph per table, lines only for what there is.
  package var text: String {
    ZulipTable.allCases.map { table in
      guard !missing.contains(table) else { return "\(table.title) (\(table.rawValue)): no such table there" }
      let counts = self[table]
      let lines =
        ["\(table.title) (\(table.rawValue)): \(counts.read) read"]
        + counts.shown.map { "  \($0.value) \($0.name)" }
      return lines.joined(separator: "\n")
    }.joined(separator: "\n")
  }

  private subscript(table: ZulipTable) -> ImportCounts { tables[table] ?? ImportCounts() }
}

extension ZulipTable {
  fileprivate var title: String {
    switch self {
    case .servers: "Servers"
    case .realms: "Realms"
    case .devices: "E2EE registrations"
    case .tokens: "Legacy registrations"
    }
  }
}

extension ImportCounts {
  fileprivate var json: JSON {
    let refused = Refusal.allCases.compactMap { reason in
      self.refused[reason].map { JSON.Object.Member(reason.rawValue, .integer(Int64($0))) }
    }
    return [
      "read": .integer(Int64(read)), "imported": .integer(Int64(imported)),
      "already_there": .integer(Int64(alreadyThere)), "renamed": .integer(Int64(renamed)),
      "folded_user_ids": .integer(Int64(foldedUserIDs)),
      "folded_spellings": .integer(Int64(foldedSpellings)), "folded_tokens": .integer(Int64(foldedTokens)),
      "dropped_for_e2ee": .integer(Int64(superseded)), "refused": .integer(Int64(refusals)),
      "refused_by_reason": .object(JSON.Object(refused)),
    ]
  }

  /// Each count that is not zero, with what it counts.
  fileprivate var shown: [(name: String, value: Int)] {
    let counts = [
      ("imported", imported), ("already there", alreadyThere),
      ("of those imported got another hostname, since another server has theirs", renamed),
      ("folded: by user_id, of a device that is there by user_uuid", foldedUserIDs),
      ("folded: another spelling of an APNs token", foldedSpellings),
      ("folded: a token twice in a realm", foldedTokens),
      ("dropped: the device has an E2EE registration", superseded),
    ]
    let refusals = Refusal.allCases.map { ("refused: \($0.text)", refused[$0] ?? 0) }
    return (counts + refusals).filter { $0.1 > 0 }
  }
}

/// What became of a table's rows.
package struct ImportCounts: Sendable, Hashable {
  /// Rows that the source has. It is the sum of the others, but for ``renamed``, whose rows are imported.
  package var read = 0
  /// Rows that are here now.
  package var imported = 0
  /// Rows that were here before the run.
  package var alreadyThere = 0
  /// Servers that came in under another hostname, because another server has theirs.
  package var renamed = 0
  /// Legacy rows by a user's number whose device has one by the user's UUID.
  package var foldedUserIDs = 0
  /// Legacy rows with another spelling of a token that the same user has already.
  package var foldedSpellings = 0
  /// E2EE rows of a token that the realm has already, which upstream does not prevent.
  package var foldedTokens = 0
  /// Legacy rows of devices that have an E2EE registration with the realm.
  package var superseded = 0
  /// Rows that were not taken.
  package var refused: [Refusal: Int] = [:]

  /// Nothing yet.
  package init() {}

  /// Rows that were not taken, for whatever reason.
  package var refusals: Int { refused.values.reduce(0, +) }

  static func += (left: inout ImportCounts, right: ImportCounts) {
    left.read += right.read
    left.imported += right.imported
    left.alreadyThere += right.alreadyThere
    left.renamed += right.renamed
    left.foldedUserIDs += right.foldedUserIDs
    left.foldedSpellings += right.foldedSpellings
    left.foldedTokens += right.foldedTokens
    left.superseded += right.superseded
    left.refused.merge(right.refused, uniquingKeysWith: +)
  }
}

/// Why a row is not brought in.
package enum Refusal: String, Error, Sendable, CaseIterable {
  /// A server without a key: anybody could speak for it.
  case noKey = "no_key"
  /// Of a server that is not there, or was refused.
  case unknownServer = "unknown_server"
  /// Of a realm that is not there, or was refused.
  case unknownRealm = "unknown_realm"
  /// Of a realm that belongs to another server, there or here.
  case anothersRealm = "anothers_realm"
  /// Of a realm of the Zulip server itself that the bouncer is part of, and not of a remote one.
  case cloudRealm = "cloud_realm"
  /// Neither APNs nor FCM.
  case unknownKind = "unknown_kind"
  /// A token of no characters, or of more than 4096.
  case tokenLength = "token_length"
  /// An APNs token that is not hexadecimal.
  case tokenNotHexadecimal = "token_not_hexadecimal"
  /// A `token_id` that is not its token's.
  case wrongTokenID = "wrong_token_id"
  /// An APNs token without its app: it could never be sent to.
  case noAppID = "no_app_id"
  /// A malformed app id.
  case malformedAppID = "malformed_app_id"
  /// Nobody's.
  case noUser = "no_user"
  /// A user by number and by UUID in one row, which upstream does not have.
  case twoUsers = "two_users"
  /// A user's number below zero.
  case userIDOutOfRange = "user_id_out_of_range"

  /// For people.
  package var text: String {
    switch self {
    case .noKey: "the server has no key"
    case .unknownServer: "its server is not there or was refused"
    case .unknownRealm: "its realm is not there or was refused"
    case .anothersRealm: "its realm belongs to another server"
    case .cloudRealm: "it is a device of the Zulip server itself, not of a remote one"
    case .unknownKind: "its kind is neither APNs nor FCM"
    case .tokenLength: "its token is empty or longer than 4096 characters"
    case .tokenNotHexadecimal: "its APNs token is not hexadecimal"
    case .wrongTokenID: "its token_id is not its token's"
    case .noAppID: "its APNs token has no app id, so it could never be sent to"
    case .malformedAppID: "its app id is malformed"
    case .noUser: "it has neither user_id nor user_uuid"
    case .twoUsers: "it has both user_id and user_uuid"
    case .userIDOutOfRange: "its user_id is out of range"
    }
  }
}
