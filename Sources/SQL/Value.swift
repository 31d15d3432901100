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
