import Foundation
package import HTTP

/// Result of an import run.
package struct ImportReport: Sendable, Hashable {
  package let tables: [ZulipTable: ImportCounts]
  /// Tables that the source, from an old version, does not have.
  package let missing: Set<ZulipTable>
  /// Whether the whole source was read; otherwise the run was stopped, and another run imports the rest.
  package let isComplete: Bool

  package var refusals: Int { tables.values.reduce(0) { $0 + $1.refusals } }

  package subscript(table: ZulipTable) -> ImportCounts { tables[table] ?? ImportCounts() }

  package static var members: [JSONMember<ImportReport>] {
    [
      .member("complete", "false if the run was stopped: the same command imports the rest") {
        $0.isComplete
      },
      .list("tables", of: ImportCounts.members) { report in ZulipTable.allCases.map { ($0, report[$0]) } },
    ]
  }

  /// The report for people: a paragraph per table, with only the results that occurred.
  package var text: String {
    ZulipTable.allCases.map { table in
      guard !missing.contains(table) else { return "\(table.title) (\(table.rawValue)): no such table there" }
      let head = "\(table.title) (\(table.rawValue)): \(self[table].read) read"
      return ([head] + self[table].lines).joined(separator: "\n")
    }.joined(separator: "\n")
  }
}

/// Results of a table's rows.
package struct ImportCounts: Sendable, Hashable {
  /// Result of a row that is not refused; the raw value is its name in JSON.
  package enum Result: String, Sendable, CaseIterable {
    case imported
    case alreadyThere = "already_there"
    /// Imported under another hostname, because another server has this one's. Also counted as imported.
    case renamed
    case mergedUserID = "merged_user_ids"
    case mergedSpelling = "merged_spellings"
    case mergedToken = "merged_tokens"
    case superseded = "dropped_for_e2ee"

    fileprivate var text: String {
      switch self {
      case .imported: "imported"
      case .alreadyThere: "already there"
      case .renamed: "of those imported got another hostname, since another server has theirs"
      case .mergedUserID: "merged: named by user_id, of a device that is there by user_uuid"
      case .mergedSpelling: "merged: another spelling of an APNs token"
      case .mergedToken: "merged: a token twice in a realm"
      case .superseded: "dropped: the device has an E2EE registration"
      }
    }
  }

  /// Number of rows read. It is the sum of all results and refusals, without `renamed`.
  package var read = 0
  private(set) package var results: [Result: Int] = [:]
  package var refused: [Refusal: Int] = [:]

  /// Number of rows with this result.
  package subscript(result: Result) -> Int {
    get { results[result] ?? 0 }
    set { results[result] = newValue == 0 ? nil : newValue }
  }

  package var refusals: Int { refused.values.reduce(0, +) }

  static func += (left: inout ImportCounts, right: ImportCounts) {
    left.read += right.read
    left.results.merge(right.results, uniquingKeysWith: +)
    left.refused.merge(right.refused, uniquingKeysWith: +)
  }

  fileprivate static var members: [JSONMember<(table: ZulipTable, counts: ImportCounts)>] {
    [
      .member("table", "Zulip's name of it") { $0.table.rawValue },
      .member("read", "rows read") { $0.counts.read },
    ]
      + Result.allCases.map { result in .member(result.rawValue, result.text) { $0.counts[result] } } + [
        .member("refused") { $0.counts.refusals },
        .list("refused_by_reason", of: reasonMembers) { table in
          Refusal.allCases.compactMap { reason in table.counts.refused[reason].map { (reason, $0) } }
        },
      ]
  }

  private static var reasonMembers: [JSONMember<(reason: Refusal, count: Int)>] {
    [
      .member("reason", "as in the file of `--rejects`") { $0.reason.rawValue },
      .member("count", "rows") { $0.count },
    ]
  }

  fileprivate var lines: [String] {
    Result.allCases.compactMap { result in results[result].map { "  \($0) \(result.text)" } }
      + Refusal.allCases.compactMap { reason in refused[reason].map { "  \($0) refused: \(reason.text)" } }
  }
}

/// Why a row is refused; the raw value is its name in JSON.
package enum Refusal: String, Error, Sendable, CaseIterable {
  case noKey = "no_key"
  case unknownServer = "unknown_server"
  case unknownRealm = "unknown_realm"
  case realmOfAnotherServer = "realm_of_another_server"
  case cloudRealm = "cloud_realm"
  case unknownKind = "unknown_kind"
  case tokenLength = "token_length"
  case tokenNotHexadecimal = "token_not_hexadecimal"
  case wrongTokenID = "wrong_token_id"
  case noAppID = "no_app_id"
  case malformedAppID = "malformed_app_id"
  case noUser = "no_user"
  case twoUsers = "two_users"
  case userIDOutOfRange = "user_id_out_of_range"

  fileprivate var text: String {
    switch self {
    case .noKey: "the server has no key"
    case .unknownServer: "its server is not there or was refused"
    case .unknownRealm: "its realm is not there or was refused"
    case .realmOfAnotherServer: "its realm belongs to another server"
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
