import CPostgreSQL

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

  /// - Throws: ``DatabaseError/Code/invalidArgument`` if U+0000 is in a text.
  init(_ statement: Statement) throws(DatabaseError) {
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

/// Types by their numbers in PostgreSQL's catalog (`pg_type.dat`), which never change.
private enum PostgreSQLType {
  static let bool: Oid = 16
  static let bytea: Oid = 17
  static let name: Oid = 19
  static let int8: Oid = 20
  static let int4: Oid = 23
  static let text: Oid = 25
}

extension Value {
  /// The type's number; 0 for the server to find out.
  fileprivate var postgreSQLType: Oid {
    switch self {
    case .null: 0
    case .integer: PostgreSQLType.int8
    case .text: PostgreSQLType.text
    case .bytes: PostgreSQLType.bytea
    }
  }

  /// A value of one of the types that the program's tables and functions have. Those of other
  /// types are the bytes of their binary form, which no column is asked for.
  fileprivate init(_ bytes: UnsafeRawBufferPointer, type: Oid) {
    switch type {
    case PostgreSQLType.int8: self = .integer(Int64(bigEndian: bytes.loadUnaligned(as: Int64.self)))
    case PostgreSQLType.int4: self = .integer(Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self))))
    case PostgreSQLType.bool: self = .flag(bytes.first == 1)
    case PostgreSQLType.text, PostgreSQLType.name: self = .text(String(decoding: bytes, as: UTF8.self))
    default: self = .bytes(Array(bytes))
    }
  }
}

extension Row {
  /// All rows of a result in the binary format.
  static func all(of result: OpaquePointer) -> [Row] {
    let columns = PQnfields(result)
    let types = (0..<columns).map { PQftype(result, $0) }
    return (0..<PQntuples(result)).map { row in
      Row(
        values: (0..<columns).map { column in
          guard PQgetisnull(result, row, column) == 0 else { return .null }
          let bytes = UnsafeRawBufferPointer(
            start: PQgetvalue(result, row, column), count: Int(PQgetlength(result, row, column)))
          return Value(bytes, type: types[Int(column)])
        })
    }
  }
}
