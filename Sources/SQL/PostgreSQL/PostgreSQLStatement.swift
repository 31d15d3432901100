import CPostgreSQL
import Synchronization

/// A statement as libpq takes it: its text as the program wrote it, which is what the prepared
/// statement is kept under, and its arguments in PostgreSQL's binary format.
///
/// The types of the arguments are said, not left to the server to find out: `$1 = 1` would make
/// it a parameter of 32 bits.
struct PostgreSQLStatement: Sendable {
  /// A text with the types of its arguments: what the server prepares.
  struct Key: Hashable, Sendable {
    let sql: String
    let types: [Oid]
  }

  let key: Key
  /// The arguments' bytes, one after the other, and a last one that belongs to none, so that
  /// empty text has an address too.
  private var buffer: [UInt8] = []
  /// Where each begins; nil: NULL.
  private var offsets: [Int?] = []
  private var lengths: [CInt] = []

  /// - Throws: ``DatabaseError/Code/invalidArgument`` if there are too many or too few arguments,
  ///   or U+0000 in a text.
  init(_ statement: Statement) throws(DatabaseError) {
    let expected = PostgreSQLTexts.shared.text(statement.sql).parameterCount
    guard statement.arguments.count == expected else {
      throw DatabaseError(
        .invalidArgument,
        "\(statement.arguments.count) arguments for a statement with \(expected) parameters")
    }
    key = Key(sql: statement.sql, types: statement.arguments.map(\.postgreSQLType))
    for (index, argument) in statement.arguments.enumerated() {
      let start = buffer.count
      switch argument {
      case .null: break
      case .integer(let integer):
        withUnsafeBytes(of: integer.bigEndian) { buffer.append(contentsOf: $0) }
      case .bytes(let bytes): buffer += bytes
      case .text(let text):
        guard !text.utf8.contains(0) else {
          throw DatabaseError(.invalidArgument, "the text in argument \(index + 1) holds U+0000")
        }
        buffer += text.utf8
      }
      offsets.append(argument == .null ? nil : start)
      lengths.append(CInt(buffer.count - start))
    }
    buffer.append(0)
  }

  /// Gives `body` what libpq's functions take: addresses and lengths of the arguments.
  func withArguments<Result>(
    _ body: (_ count: CInt, [UnsafePointer<CChar>?], [CInt]) -> Result
  ) -> Result {
    buffer.withUnsafeBytes { bytes in
      let start = bytes.assumingMemoryBound(to: CChar.self).baseAddress
      return body(
        CInt(offsets.count), offsets.map { offset in offset.flatMap { start?.advanced(by: $0) } }, lengths)
    }
  }
}

extension Value {
  /// The type's number in PostgreSQL's catalog, which never changes; 0 for the server to find out.
  fileprivate var postgreSQLType: Oid {
    switch self {
    case .null: 0
    case .integer: PostgreSQLType.int8
    case .text: PostgreSQLType.text
    case .bytes: PostgreSQLType.bytea
    }
  }
}

/// Types by their numbers in PostgreSQL's catalog (`pg_type.dat`).
enum PostgreSQLType {
  static let bool: Oid = 16
  static let bytea: Oid = 17
  static let name: Oid = 19
  static let int8: Oid = 20
  static let int2: Oid = 21
  static let int4: Oid = 23
  static let text: Oid = 25
  static let varchar: Oid = 1043
}

/// What is known of the texts of the statements that the program has, so that each is read once.
final class PostgreSQLTexts: Sendable {
  struct Text: Sendable {
    /// The text as the server gets it.
    let sql: String
    let parameterCount: Int
  }

  static let shared = PostgreSQLTexts()

  private let texts = Mutex<[String: Text]>([:])

  func text(_ sql: String) -> Text {
    texts.withLock { texts in
      if let known = texts[sql] { return known }
      let text = Text(
        sql: Statement.writingOutSkipLocked(in: sql, as: "FOR UPDATE SKIP LOCKED"),
        parameterCount: SQLText.parameterCount(sql))
      texts[sql] = text
      return text
    }
  }
}

/// The statements that the server has prepared for one connection, by their texts: the least
/// recently used make room for others.
struct PreparedStatements {
  private struct Entry {
    let name: String
    var lastUse: Int
  }

  private let capacity: Int
  private var entries: [PostgreSQLStatement.Key: Entry] = [:]
  private var uses = 0

  /// The names of those that have made room and that the server still keeps.
  private(set) var superfluous: [String] = []

  init(capacity: Int) { self.capacity = capacity }

  /// The name that the statement is prepared under, or nil if it is not.
  mutating func name(of key: PostgreSQLStatement.Key) -> String? {
    uses += 1
    // In place: to look it up and store it again would hash the text twice.
    guard let index = entries.index(forKey: key) else { return nil }
    entries.values[index].lastUse = uses
    return entries.values[index].name
  }

  /// A name for a statement that is going to be prepared. No name is ever given twice.
  mutating func add(_ key: PostgreSQLStatement.Key) -> String {
    if entries.count >= capacity, let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse }) {
      entries[oldest.key] = nil
      superfluous.append(oldest.value.name)
    }
    uses += 1
    let name = "s\(uses)"
    entries[key] = Entry(name: name, lastUse: uses)
    return name
  }

  /// Forgets one that could not be prepared.
  mutating func remove(_ key: PostgreSQLStatement.Key) { entries[key] = nil }

  /// The superfluous ones have been deallocated.
  mutating func removeSuperfluous() { superfluous = [] }
}
