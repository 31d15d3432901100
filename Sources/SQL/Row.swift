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
