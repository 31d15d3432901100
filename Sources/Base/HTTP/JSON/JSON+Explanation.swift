extension JSON.ParseError {
  /// A sentence, without its full stop, for the author of the document: what is wrong with it, and where. Quotes at most
  /// one character or escape of it.
  ///
  /// - Parameter bytes: the document.
  package func explanation(in bytes: some Collection<UInt8>) -> String {
    switch self {
    case .encoding: "it is not UTF-8"
    case .depth: "it is nested deeper than \(JSON.maximumDepth) levels"
    case .tooManyValues: "it has more values than \(JSON.maximumValues(in: bytes.count))"
    case .syntax(0) where bytes.isEmpty: "it is empty"
    case .syntax(0) where bytes.starts(with: [0xEF, 0xBB, 0xBF]):
      "it begins with a byte order mark (EF BB BF), which JSON must not have"
    case .syntax(let index) where index >= bytes.count: "it ends too early"
    case .syntax(let index): "\(Self.place(index, in: bytes)): \(Self.problem(at: index, in: bytes))"
    case .halfSurrogate(let index):
      """
      \(Self.place(index, in: bytes)): \(String(decoding: bytes.dropFirst(index).prefix(6), as: UTF8.self)) is half of a \
      surrogate pair: write both halves, or the character itself
      """
    }
  }

  /// `line 3, column 14`, both from 1; a column is a character.
  private static func place(_ index: Int, in bytes: some Collection<UInt8>) -> String {
    let lines = bytes.prefix(index).split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    let column = (lines.last?.count { $0 & 0xC0 != 0x80 } ?? 0) + 1
    return "line \(max(lines.count, 1)), column \(column)"
  }

  private static func problem(at index: Int, in bytes: some Collection<UInt8>) -> String {
    let character = String(decoding: bytes.dropFirst(index).prefix(4), as: UTF8.self).first ?? " "
    guard let byte = bytes.dropFirst(index).first, byte >= 0x20, byte != 0x7F else {
      return "a line break or another control character in a text is written as an escape (\\n)"
    }
    return "\(character) is not expected there"
  }
}
