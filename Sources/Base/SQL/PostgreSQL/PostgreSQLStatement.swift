import CPostgreSQL

/// A statement in libpq's form: the SQL, by which prepared statements are cached, and the arguments in
/// PostgreSQL's binary format.
///
/// States the types of the arguments, because the server would infer a 32-bit parameter from `$1 = 1`.
struct PostgreSQLStatement: Sendable {
  /// SQL with the types of its arguments, which is what the server prepares.
  struct Key: Hashable, Sendable {
    let sql: String
    let types: [Oid]
  }

  let key: Key
  /// The bytes of all arguments, and one extra byte, so that empty text has an address too.
  private var buffer: [UInt8] = []
  /// The start of each argument; nil for NULL.
  private var offsets: [Int?] = []
  private var lengths: [CInt] = []

  /// - Throws: ``DatabaseError/Code/invalidArgument`` if a text contains U+0000.
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

  /// Whether it comes before another one in a group: by the first argument that differs, else by the SQL.
  func comes(before other: Self) -> Bool {
    for index in 0..<min(lengths.count, other.lengths.count) {
      let own = argument(index)
      let others = other.argument(index)
      if !own.elementsEqual(others) { return own.lexicographicallyPrecedes(others) }
    }
    return (lengths.count, key.sql) < (other.lengths.count, other.key.sql)
  }

  /// The bytes of an argument; none for NULL.
  private func argument(_ index: Int) -> ArraySlice<UInt8> {
    offsets[index].map { buffer[$0..<$0 + Int(lengths[index])] } ?? []
  }

  /// Calls `body` with the addresses and lengths of the arguments, as libpq's functions expect them.
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

/// Type ids from PostgreSQL's catalog (`pg_type.dat`), which never change.
private enum PostgreSQLType {
  static let bool: Oid = 16
  static let bytea: Oid = 17
  static let name: Oid = 19
  static let int8: Oid = 20
  static let int4: Oid = 23
  static let text: Oid = 25
}

extension Value {
  /// The type's id; 0 lets the server infer it.
  fileprivate var postgreSQLType: Oid {
    switch self {
    case .null: 0
    case .integer: PostgreSQLType.int8
    case .text: PostgreSQLType.text
    case .bytes: PostgreSQLType.bytea
    }
  }

  /// A value of one of the types that this program uses. Values of other types are returned as the bytes of
  /// their binary form.
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

extension Columns {
  /// The columns of a result.
  convenience init(result: OpaquePointer) {
    self.init((0..<PQnfields(result)).map { String(cString: PQfname(result, $0)) })
  }
}

extension Row {
  /// All rows of a result in binary format.
  static func all(of result: OpaquePointer, _ columns: Columns) -> [Row] {
    let count = PQnfields(result)
    let types = (0..<count).map { PQftype(result, $0) }
    return (0..<PQntuples(result)).map { row in
      Row(
        columns,
        values: (0..<count).map { column in
          guard PQgetisnull(result, row, column) == 0 else { return .null }
          let bytes = UnsafeRawBufferPointer(
            start: PQgetvalue(result, row, column), count: Int(PQgetlength(result, row, column)))
          return Value(bytes, type: types[Int(column)])
        })
    }
  }
}
