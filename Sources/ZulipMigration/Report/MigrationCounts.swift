/// What became of a table's rows.
package struct MigrationCounts: Sendable, Hashable, Codable {
  /// Rows that the source has. It is the sum of the others, but for ``renamed``, whose rows are imported.
  package var read = 0
  /// Rows that are here now.
  package var imported = 0
  /// Rows that were here before the run; left as they were.
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

  static func += (left: inout MigrationCounts, right: MigrationCounts) {
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
