import Synchronization

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

/// SQL text with its arguments. The text is the key under which the prepared statement is kept,
/// so it is never assembled from values.
package struct Statement: Sendable {
  /// SQL with numbered parameters, `$1` being the first of ``arguments``. `$skip_locked` after a
  /// `SELECT` makes it leave rows that other transactions hold to them, where the engine has such.
  package let sql: String

  /// One value per parameter, in the order of their numbers.
  package let arguments: [Value]

  /// Pairs SQL text with its arguments.
  package init(_ sql: String, _ arguments: Value...) {
    self.init(sql, arguments: arguments)
  }

  /// Pairs SQL text with a list of arguments.
  package init(_ sql: String, arguments: [Value]) {
    self.sql = sql
    self.arguments = arguments
  }
}

// MARK: - Lists

extension Statement {
  /// How many arguments a statement can have on every engine (SQLite's limit is the lower one).
  package static let maximumArguments = 32_766

  /// Pairs SQL text with its arguments and a list for `IN ($list)`:
  ///
  ///     Statement("SELECT id FROM devices WHERE realm = $1 AND token IN ($list)", realm, list: tokens)
  ///
  /// `$list` becomes the parameters after `arguments`, their number padded to a power of two so
  /// that few different texts are ever prepared. The padding repeats the last value, which `IN`
  /// does not notice; an empty list is a single NULL, which is `IN` nothing. (`NOT IN` an empty
  /// list is therefore never true.)
  ///
  /// - Parameter list: up to ``maximumArguments`` values, less the other arguments.
  package init(_ sql: String, _ arguments: Value..., list: [Value]) {
    let filler = list.last ?? .null
    let room = Self.maximumArguments - arguments.count
    let count = max(list.count, min(Self.paddedCount(list.count), room))
    self.sql = ListTexts.shared.text(sql, count: count, from: arguments.count + 1)
    self.arguments = arguments + list + Array(repeating: filler, count: count - list.count)
  }

  /// `$2, $3, $4` for three parameters from number 2.
  package static func placeholders(_ count: Int, from first: Int = 1) -> String {
    (first..<first + count).map { "$\($0)" }.joined(separator: ", ")
  }

  /// The smallest power of two that is not below `count`.
  static func paddedCount(_ count: Int) -> Int {
    count <= 1 ? 1 : 1 << (Int.bitWidth - (count - 1).leadingZeroBitCount)
  }
}

// MARK: - Locks

extension Statement {
  /// Replaces `$skip_locked`, which a text has at the end of a `SELECT` that picks rows to work on:
  ///
  ///     UPDATE jobs SET due_at = $2 WHERE id IN (
  ///       SELECT id FROM jobs WHERE due_at <= $1 ORDER BY due_at LIMIT $3 $skip_locked)
  ///
  /// SQLite has one writer, so nobody else is picking. On PostgreSQL it becomes
  /// `FOR UPDATE SKIP LOCKED`: of several programs each picks rows that no other is picking,
  /// instead of waiting for the others' and finding them gone.
  static func writingOutSkipLocked(in sql: String, as text: String) -> String {
    sql.split(separator: "$skip_locked", omittingEmptySubsequences: false).joined(separator: text)
  }
}

/// Texts whose `$list` has been written out, so that each is assembled once.
private final class ListTexts: Sendable {
  static let shared = ListTexts()

  private struct Key: Hashable {
    let sql: String
    let count: Int
  }

  /// As many as the program has texts with lists, times the powers of two.
  private let texts = Mutex<[Key: String]>([:])

  func text(_ sql: String, count: Int, from first: Int) -> String {
    let key = Key(sql: sql, count: count)
    if let known = texts.withLock({ $0[key] }) { return known }
    let parts = sql.split(separator: "$list", omittingEmptySubsequences: false)
    let text = parts.joined(separator: Statement.placeholders(count, from: first))
    texts.withLock { $0[key] = text }
    return text
  }
}
