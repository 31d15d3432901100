/// One row of a result, its columns by position.
package struct Row: Sendable, Hashable {
  /// The columns in the order of the statement.
  package let values: [Value]

  /// A row of the given columns.
  package init(values: [Value]) {
    self.values = values
  }
}

// Columns are asked for by position and type: where the statement and the code that reads it
// disagree, the error says which column, and the program goes on.
extension Row {
  /// The integer in column `index`, from 0; throws ``DatabaseError/Code/typeMismatch``.
  package func int64(_ index: Int) throws(DatabaseError) -> Int64 {
    guard case .integer(let value) = try value(index) else { throw mismatch(index, "an integer") }
    return value
  }

  /// The text in column `index`, from 0; throws ``DatabaseError/Code/typeMismatch``.
  package func text(_ index: Int) throws(DatabaseError) -> String {
    guard case .text(let value) = try value(index) else { throw mismatch(index, "text") }
    return value
  }

  /// The bytes in column `index`, from 0; throws ``DatabaseError/Code/typeMismatch``.
  package func bytes(_ index: Int) throws(DatabaseError) -> [UInt8] {
    guard case .bytes(let value) = try value(index) else { throw mismatch(index, "bytes") }
    return value
  }

  /// The flag in column `index`, from 0: 0 or 1; throws ``DatabaseError/Code/typeMismatch``.
  package func flag(_ index: Int) throws(DatabaseError) -> Bool {
    switch try value(index) {
    case .integer(0): return false
    case .integer(1): return true
    default: throw mismatch(index, "a flag")
    }
  }

  /// ``int64(_:)``, or nil for NULL.
  package func optionalInt64(_ index: Int) throws(DatabaseError) -> Int64? {
    try value(index) == .null ? nil : try int64(index)
  }

  /// ``text(_:)``, or nil for NULL.
  package func optionalText(_ index: Int) throws(DatabaseError) -> String? {
    try value(index) == .null ? nil : try text(index)
  }

  /// ``bytes(_:)``, or nil for NULL.
  package func optionalBytes(_ index: Int) throws(DatabaseError) -> [UInt8]? {
    try value(index) == .null ? nil : try bytes(index)
  }

  /// ``flag(_:)``, or nil for NULL.
  package func optionalFlag(_ index: Int) throws(DatabaseError) -> Bool? {
    try value(index) == .null ? nil : try flag(index)
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

/// One value of a row or one argument of a statement.
package enum Value: Sendable, Hashable {
  /// SQL's NULL.
  case null
  /// A 64-bit signed integer.
  case integer(Int64)
  /// Text in UTF-8, without U+0000 (which PostgreSQL cannot store).
  case text(String)
  /// Bytes.
  case bytes([UInt8])

  /// An integer, or NULL.
  package static func integer(_ value: Int64?) -> Value { value.map(Value.integer) ?? .null }

  /// Text, or NULL.
  package static func text(_ value: String?) -> Value { value.map(Value.text) ?? .null }

  /// Bytes, or NULL.
  package static func bytes(_ value: [UInt8]?) -> Value { value.map(Value.bytes) ?? .null }

  /// A flag, stored as 0 or 1.
  package static func flag(_ value: Bool) -> Value { .integer(value ? 1 : 0) }
}

extension Value {
  /// What kind of value this is, for error texts: never the value itself.
  var kind: String {
    switch self {
    case .null: "NULL"
    case .integer: "an integer"
    case .text: "text"
    case .bytes: "bytes"
    }
  }
}
