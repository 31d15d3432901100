/// What became of a table's rows.
public struct MigrationCounts: Sendable, Hashable, Codable {
  /// Rows that the source has. It is the sum of the others, but for ``renamed``, whose rows are imported.
  public var read = 0
  /// Rows that are here now.
  public var imported = 0
  /// Rows that were here before the run; left as they were.
  public var alreadyThere = 0
  /// Servers that came in under another hostname, because another server has theirs.
  public var renamed = 0
  /// Legacy rows by a user's number whose device has one by the user's UUID.
  public var foldedUserIDs = 0
  /// Legacy rows with another spelling of a token that the same user has already.
  public var foldedSpellings = 0
  /// E2EE rows of a token that the realm has already, which upstream does not prevent.
  public var foldedTokens = 0
  /// Legacy rows of devices that have an E2EE registration with the realm.
  public var superseded = 0
  /// Rows that were not taken.
  public var refused: [Refusal: Int] = [:]

  /// Nothing yet.
  public init() {}

  /// Rows that were not taken, for whatever reason.
  public var refusals: Int { refused.values.reduce(0, +) }

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
