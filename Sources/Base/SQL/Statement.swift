import Synchronization

/// SQL text with its arguments. Prepared statements are cached by the text, so it must not contain values.
package struct Statement: Sendable {
  /// SQL with numbered parameters, `$1` being the first of ``arguments``; a dollar must have no other use,
  /// except `$skip_locked` at the end of a `SELECT` that picks rows to work on, which skips rows locked by
  /// other processes.
  package let sql: String
  package let arguments: [Value]

  package init(_ sql: String, _ arguments: Value...) {
    self.init(sql, arguments: arguments)
  }

  package init(_ sql: String, arguments: [Value]) {
    self.sql = sql
    self.arguments = arguments
  }

  /// Most arguments that every engine accepts; SQLite has the lower limit.
  package static let maximumArguments = 32_766

  /// Pairs SQL text with its arguments and a list for `IN ($list)`:
  ///
  ///     Statement("SELECT id FROM devices WHERE realm = $1 AND token IN ($list)", realm, list: tokens)
  ///
  /// `$list` becomes the parameters after `arguments`. Their number is padded to a power of two, so that few
  /// different texts are prepared. The padding repeats the last value; an empty list becomes a single NULL,
  /// which `IN` never matches. (`NOT IN` with an empty list is therefore never true.)
  ///
  /// - Parameter list: up to ``maximumArguments`` values, less the other arguments.
  package init(_ sql: String, _ arguments: Value..., list: [Value]) {
    self.init(sql, arguments, list: list)
  }

  package init(_ sql: String, _ arguments: [Value], list: [Value]?) {
    guard let list else {
      self.init(sql, arguments: arguments)
      return
    }
    let filler = list.last ?? .null
    let room = Self.maximumArguments - arguments.count
    let count = max(list.count, min(Self.paddedCount(list.count), room))
    self.init(
      Self.text(sql, count: count, from: arguments.count + 1),
      arguments: arguments + list + Array(repeating: filler, count: count - list.count))
  }

  /// `$2, $3, $4` for three parameters from number 2.
  package static func placeholders(_ count: Int, from first: Int = 1) -> String {
    (first..<first + count).map { "$\($0)" }.joined(separator: ", ")
  }

  /// The smallest power of two that is at least `count`.
  static func paddedCount(_ count: Int) -> Int {
    count <= 1 ? 1 : 1 << (Int.bitWidth - (count - 1).leadingZeroBitCount)
  }

  /// Pairs SQL text with rows for `VALUES $rows`, which becomes `($1, $2), ($3, $4)` and so on. Their number is padded to a
  /// power of two, as a list's is, by the last row again: the statement must ignore conflicts.
  ///
  /// - Parameter rows: one at least, all of one length, with ``maximumArguments`` values at most when padded.
  package init(_ sql: String, rows: [[Value]]) {
    let width = rows[0].count
    let count = Self.paddedCount(rows.count)
    let filler = Array(repeating: rows[rows.count - 1], count: count - rows.count)
    self.init(
      Self.text(sql, rows: count, of: width), arguments: Array((rows + filler).joined()))
  }

  private struct ListKey: Hashable {
    let sql: String
    let count: Int
  }

  /// Texts with `$list` expanded. Bounded by the program's statements with lists, times the powers of two.
  private static let listTexts = Mutex<[ListKey: String]>([:])

  private static func text(_ sql: String, count: Int, from first: Int) -> String {
    let key = ListKey(sql: sql, count: count)
    if let known = listTexts.withLock({ $0[key] }) { return known }
    let text = sql.replacing("$list", with: placeholders(count, from: first))
    listTexts.withLock { $0[key] = text }
    return text
  }

  private static func text(_ sql: String, rows count: Int, of width: Int) -> String {
    let key = ListKey(sql: sql, count: count)
    if let known = listTexts.withLock({ $0[key] }) { return known }
    let rows = (0..<count).map { "(\(placeholders(width, from: $0 * width + 1)))" }
    let text = sql.replacing("$rows", with: rows.joined(separator: ", "))
    listTexts.withLock { $0[key] = text }
    return text
  }
}
