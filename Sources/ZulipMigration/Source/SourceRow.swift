internal import Foundation

/// A row as PostgreSQL spells it as text, from a database or a file: the values of
/// ``ZulipTable/columns`` by their places, nil for NULL and for columns that are not there.
struct SourceRow: Sendable {
  let values: [String?]

  /// A value that is not what its column has.
  struct Malformed: Error, Hashable {
    /// The column's place.
    let column: Int
    /// What it should be.
    let wanted: String
  }

  /// How much text it has.
  var bytes: Int { values.reduce(0) { $0 + ($1?.utf8.count ?? 0) } }

  subscript(column: Int) -> String? { values[column] }

  func text(_ column: Int) throws(Malformed) -> String {
    try required(column, values[column], "a value")
  }

  func integer(_ column: Int) throws(Malformed) -> Int64 {
    try required(column, try optionalInteger(column), "an integer")
  }

  func optionalInteger(_ column: Int) throws(Malformed) -> Int64? {
    try parse(column, "an integer of 64 bits", Int64.init)
  }

  func uuid(_ column: Int) throws(Malformed) -> UUID {
    try required(column, try optionalUUID(column), "a UUID")
  }

  func optionalUUID(_ column: Int) throws(Malformed) -> UUID? {
    try parse(column, "a UUID") { UUID(uuidString: $0) }
  }

  /// False if the column is not there.
  func flag(_ column: Int) throws(Malformed) -> Bool {
    try parse(column, "t or f") { text -> Bool? in
      switch text {
      case "t", "true": true
      case "f", "false": false
      default: nil
      }
    } ?? false
  }

  func optionalTime(_ column: Int) throws(Malformed) -> Date? {
    try parse(column, "a time with its zone", Date.init(postgreSQL:))
  }

  private func parse<Result>(
    _ column: Int, _ wanted: String, _ body: (String) -> Result?
  ) throws(Malformed) -> Result? {
    guard let text = values[column] else { return nil }
    return try required(column, body(text), wanted)
  }

  private func required<Result>(_ column: Int, _ value: Result?, _ wanted: String) throws(Malformed) -> Result
  {
    guard let value else { throw Malformed(column: column, wanted: wanted) }
    return value
  }
}
