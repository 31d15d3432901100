/// One row of a result, with columns by position, from 0.
///
/// Columns are read by position and type. If a column has another type, ``DatabaseError/Code/typeMismatch``
/// names it, and the program continues.
package struct Row: Sendable, Hashable {
  package let values: [Value]

  package init(values: [Value]) {
    self.values = values
  }

  package func int64(_ index: Int) throws(DatabaseError) -> Int64 {
    guard case .integer(let value) = try value(index) else { throw mismatch(index, "an integer") }
    return value
  }

  package func text(_ index: Int) throws(DatabaseError) -> String {
    guard case .text(let value) = try value(index) else { throw mismatch(index, "text") }
    return value
  }

  package func bytes(_ index: Int) throws(DatabaseError) -> [UInt8] {
    guard case .bytes(let value) = try value(index) else { throw mismatch(index, "bytes") }
    return value
  }

  /// A flag, stored as 0 or 1.
  package func flag(_ index: Int) throws(DatabaseError) -> Bool {
    switch try value(index) {
    case .integer(0): return false
    case .integer(1): return true
    default: throw mismatch(index, "a flag")
    }
  }

  package func optionalInt64(_ index: Int) throws(DatabaseError) -> Int64? {
    try value(index) == .null ? nil : try int64(index)
  }

  package func optionalText(_ index: Int) throws(DatabaseError) -> String? {
    try value(index) == .null ? nil : try text(index)
  }

  package func optionalBytes(_ index: Int) throws(DatabaseError) -> [UInt8]? {
    try value(index) == .null ? nil : try bytes(index)
  }

  private func value(_ index: Int) throws(DatabaseError) -> Value {
    guard values.indices.contains(index) else {
      throw DatabaseError(.typeMismatch, "column \(index) was asked of a row that has \(values.count)")
    }
    return values[index]
  }

  private func mismatch(_ index: Int, _ wanted: String) -> DatabaseError {
    DatabaseError(.typeMismatch, "column \(index) holds \(values[index].kind) where \(wanted) was asked")
  }
}

extension [Row] {
  /// The row of a statement that always returns one.
  package var returned: Row {
    get throws(DatabaseError) {
      guard let row = first else { throw DatabaseError(.other, "a statement returned no row") }
      return row
    }
  }
}

/// One value of a row or one argument of a statement.
package enum Value: Sendable, Hashable {
  case null
  case integer(Int64)
  /// UTF-8 without U+0000, which PostgreSQL cannot store.
  case text(String)
  case bytes([UInt8])

  package static func integer(_ value: Int64?) -> Value { value.map(Value.integer) ?? .null }
  package static func text(_ value: String?) -> Value { value.map(Value.text) ?? .null }
  package static func bytes(_ value: [UInt8]?) -> Value { value.map(Value.bytes) ?? .null }
  package static func flag(_ value: Bool) -> Value { .integer(value ? 1 : 0) }

  /// The kind of value, for error texts, which never contain the value.
  fileprivate var kind: String {
    switch self {
    case .null: "NULL"
    case .integer: "an integer"
    case .text: "text"
    case .bytes: "bytes"
    }
  }
}
