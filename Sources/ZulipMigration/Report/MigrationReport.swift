internal import Foundation
package import HTTP

/// What a migration has done so far: all of it, however often it was stopped.
package struct MigrationReport: Sendable, Hashable {
  /// What became of each table.
  package let tables: [ZulipTable: MigrationCounts]
  /// Tables that the source, being of an old version, does not have.
  package let missing: Set<ZulipTable>
  /// Whether everything has been read; otherwise it was stopped, and another run goes on.
  package let isComplete: Bool

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

  private subscript(table: ZulipTable) -> MigrationCounts { tables[table] ?? MigrationCounts() }
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

extension MigrationCounts {
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
