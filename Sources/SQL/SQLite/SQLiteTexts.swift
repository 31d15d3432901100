import Synchronization

/// The texts of the statements that the program has as SQLite wants them, so that each is
/// rewritten once.
final class SQLiteTexts: Sendable {
  private let texts = Mutex<[String: String]>([:])

  func text(_ sql: String) -> String {
    texts.withLock { texts in
      if let known = texts[sql] { return known }
      let text = SQLText.withQuestionMarks(Statement.writingOutSkipLocked(in: sql, as: ""))
      texts[sql] = text
      return text
    }
  }
}
