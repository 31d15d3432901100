/// Finds the numbered parameters in a text.
enum SQLText {
  /// `sql` with each `$n` as `?n`, but for those in strings, quoted names and comments.
  ///
  /// To SQLite `$1` is a parameter that happens to be named "$1", numbered by where it first
  /// stands; `?1` is the first parameter wherever it stands and however often.
  static func withQuestionMarks(_ sql: String) -> String {
    var result: [UInt8] = []
    result.reserveCapacity(sql.utf8.count)
    forEachToken(of: sql) { token, isParameter in
      if isParameter {
        result.append(UInt8(ascii: "?"))
        result += token.dropFirst()
      } else {
        result += token
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  /// The highest number of a parameter.
  static func parameterCount(_ sql: String) -> Int {
    var count = 0
    forEachToken(of: sql) { token, isParameter in
      if isParameter { count = max(count, Int(String(decoding: token.dropFirst(), as: UTF8.self)) ?? 0) }
    }
    return count
  }

  private static func forEachToken(
    of sql: String, _ body: (_ token: ArraySlice<UInt8>, _ isParameter: Bool) -> Void
  ) {
    let bytes = Array(sql.utf8)
    var index = 0
    while index < bytes.count {
      let end = endOfToken(bytes, from: index)
      body(bytes[index..<end], bytes[index] == UInt8(ascii: "$") && end > index + 1)
      index = end
    }
  }

  /// Where the string, quoted name, comment, word, parameter or else single byte at `start` ends.
  private static func endOfToken(_ bytes: [UInt8], from start: Int) -> Int {
    let rest = bytes[start...].dropFirst()
    switch bytes[start] {
    case UInt8(ascii: "'"), UInt8(ascii: "\""):
      // A doubled quote inside ends one token and begins the next: to the same effect.
      return rest.firstIndex(of: bytes[start]).map { $0 + 1 } ?? bytes.count
    case UInt8(ascii: "-") where rest.first == UInt8(ascii: "-"):
      return rest.firstIndex(of: UInt8(ascii: "\n")) ?? bytes.count
    case UInt8(ascii: "/") where rest.first == UInt8(ascii: "*"):
      var index = start + 2
      while index < bytes.count {
        if bytes[index] == UInt8(ascii: "/"), bytes[index - 1] == UInt8(ascii: "*"), index > start + 2 {
          return index + 1
        }
        index += 1
      }
      return bytes.count
    case UInt8(ascii: "$"):
      return rest.firstIndex { !isDigit($0) } ?? bytes.count
    case let byte where isWord(byte):
      // A dollar inside a name is part of the name.
      return rest.firstIndex { !isWord($0) && $0 != UInt8(ascii: "$") } ?? bytes.count
    default:
      return start + 1
    }
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }

  private static func isWord(_ byte: UInt8) -> Bool {
    isDigit(byte) || byte == UInt8(ascii: "_") || byte >= 0x80
      || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
  }
}
