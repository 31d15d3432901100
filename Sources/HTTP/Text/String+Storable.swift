extension String {
  /// As many non-starters follow each other in no language (Unicode Standard Annex 15, stream-safe text).
  private static let maximumNonStarters = 30

  /// Whether a database keeps it, and whatever compares or orders it later is done in linear time: it has
  /// no U+0000, and is stream-safe.
  package var isStorable: Bool {
    guard !isEmpty else { return true }
    let range = utf8.withContiguousStorageIfAvailable(Self.range) ?? Self.range(Array(utf8))
    // Most texts have no character beyond U+02FF, that is, no byte beyond this.
    return range.least > 0 && (range.most < 0xCC || isStreamSafe)
  }

  private static func range(_ bytes: some Sequence<UInt8>) -> (least: UInt8, most: UInt8) {
    bytes.reduce((.max, 0)) { (Swift.min($0.0, $1), Swift.max($0.1, $1)) }
  }

  /// Whether no run of combining marks is longer than any that is written. What counts is the canonical
  /// decomposition, which is what comparing goes by.
  private var isStreamSafe: Bool {
    var run = 0
    for scalar in unicodeScalars {
      let count = scalar.nonStarters
      run = count == 0 ? 0 : run + count
      if run > Self.maximumNonStarters { return false }
    }
    return true
  }
}

extension Unicode.Scalar {
  /// How many non-starters it decomposes to, if to nothing else. Four do that themselves.
  fileprivate var nonStarters: Int {
    switch value {
    case 0..<0x300: 0
    case 0x344, 0xF73, 0xF75, 0xF81: 2
    default: properties.canonicalCombiningClass == .notReordered ? 0 : 1
    }
  }
}
