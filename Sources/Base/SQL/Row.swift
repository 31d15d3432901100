/// One row of a result, with columns by name.
///
/// A column has the name that the `SELECT` or `RETURNING` gives it: the column's own, or its alias (`AS name`), without
/// which an expression's differs between engines. If a row has no such column, or several, or one of another type,
/// ``DatabaseError/Code/typeMismatch`` names it, and the program continues.
package struct Row: Sendable {
  package let columns: Columns
  /// In the order of the columns.
  package let values: [Value]

  package init(_ columns: Columns, values: [Value]) {
    self.columns = columns
    self.values = values
  }

  /// The value as it is, to be an argument of another statement.
  package func value(_ name: String) throws(DatabaseError) -> Value { values[try columns.index(of: name)] }

  package func int64(_ name: String) throws(DatabaseError) -> Int64 {
    let value = try value(name)
    guard case .integer(let integer) = value else { throw mismatch(name, value, "an integer") }
    return integer
  }

  package func text(_ name: String) throws(DatabaseError) -> String {
    let value = try value(name)
    guard case .text(let text) = value else { throw mismatch(name, value, "text") }
    return text
  }

  package func bytes(_ name: String) throws(DatabaseError) -> [UInt8] {
    let value = try value(name)
    guard case .bytes(let bytes) = value else { throw mismatch(name, value, "bytes") }
    return bytes
  }

  /// A flag, stored as 0 or 1.
  package func flag(_ name: String) throws(DatabaseError) -> Bool {
    let value = try value(name)
    switch value {
    case .integer(0): return false
    case .integer(1): return true
    default: throw mismatch(name, value, "a flag")
    }
  }

  package func optionalInt64(_ name: String) throws(DatabaseError) -> Int64? {
    let value = try value(name)
    switch value {
    case .null: return nil
    case .integer(let integer): return integer
    default: throw mismatch(name, value, "an integer")
    }
  }

  package func optionalText(_ name: String) throws(DatabaseError) -> String? {
    let value = try value(name)
    switch value {
    case .null: return nil
    case .text(let text): return text
    default: throw mismatch(name, value, "text")
    }
  }

  package func optionalBytes(_ name: String) throws(DatabaseError) -> [UInt8]? {
    let value = try value(name)
    switch value {
    case .null: return nil
    case .bytes(let bytes): return bytes
    default: throw mismatch(name, value, "bytes")
    }
  }

  private func mismatch(_ name: String, _ value: Value, _ wanted: String) -> DatabaseError {
    DatabaseError(.typeMismatch, "column \(name) holds \(value.kind) where \(wanted) was asked")
  }
}

/// The names of a result's columns, made once for a prepared statement and shared by its rows.
///
/// A name is found by comparing it with one after the other: of 12 columns that costs 5 ns each, with a dictionary 25 ns,
/// while SQLite makes the row in 700 ns.
package final class Columns: Sendable {
  package let names: [String]
  /// The length of each name in bytes, which is faster to compare; -1 for a name that several columns have.
  private let lengths: [Int]

  package init(_ names: [String]) {
    self.names = names
    lengths = names.map { name in names.count { $0 == name } == 1 ? name.utf8.count : -1 }
  }

  fileprivate func index(of name: String) throws(DatabaseError) -> Int {
    let length = name.utf8.count
    for index in lengths.indices where lengths[index] == length && names[index] == name { return index }
    throw DatabaseError(
      .typeMismatch,
      "column \(name) was asked of a row that has "
        + (names.contains(name) ? "several" : names.joined(separator: ", ")))
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
