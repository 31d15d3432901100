import CPostgreSQL

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

extension Value {
  /// A value of one of the types that the program's tables and functions have. Those of other
  /// types are the bytes of their binary form, which no column is asked for.
  fileprivate init(_ bytes: UnsafeRawBufferPointer, type: Oid) {
    switch type {
    case PostgreSQLType.int8: self = .integer(bytes.bigEndian(Int64.self))
    case PostgreSQLType.int4: self = .integer(Int64(bytes.bigEndian(Int32.self)))
    case PostgreSQLType.int2: self = .integer(Int64(bytes.bigEndian(Int16.self)))
    case PostgreSQLType.bool: self = .flag(bytes.first == 1)
    case PostgreSQLType.text, PostgreSQLType.varchar, PostgreSQLType.name:
      self = .text(String(decoding: bytes, as: UTF8.self))
    default: self = .bytes(Array(bytes))
    }
  }
}

extension UnsafeRawBufferPointer {
  fileprivate func bigEndian<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer {
    Integer(bigEndian: loadUnaligned(as: type))
  }
}
