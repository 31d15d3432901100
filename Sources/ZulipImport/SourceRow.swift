import Foundation

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

extension Date {
  /// Reads a `timestamptz` in PostgreSQL's ISO style: `2024-05-06 07:08:09.123456+05:30`, also with `T`
  /// in the middle and `Z` at the end.
  ///
  /// By hand because there are millions: Foundation's parsers take 10 µs and more for each.
  init?(postgreSQL text: String) {
    var digits = Digits(text.utf8)
    guard let year = digits.number(4...6), digits.skip("-"), let month = digits.number(2...2),
      digits.skip("-"), let day = digits.number(2...2), digits.skip(" ") || digits.skip("T"),
      let hour = digits.number(2...2), digits.skip(":"), let minute = digits.number(2...2), digits.skip(":"),
      let second = digits.number(2...2)
    else { return nil }
    guard (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second < 60 else {
      return nil
    }
    let fraction = digits.skip(".") ? digits.fraction() : 0
    guard let fraction, let offset = digits.offset(), digits.isAtEnd else { return nil }
    let seconds = Self.days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
    self.init(timeIntervalSince1970: Double(seconds) + fraction)
  }

  /// Days since 1970, in the Gregorian calendar: years are counted from March, so that the leap day is
  /// the last of them.
  private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
    let year = month > 2 ? year : year - 1
    let dayOfYear = (153 * ((month + 9) % 12) + 2) / 5 + day - 1
    return 365 * year + year / 4 - year / 100 + year / 400 + dayOfYear - 719_468
  }
}

private struct Digits {
  private var rest: Substring.UTF8View

  init(_ text: String.UTF8View) { rest = text[...] }

  var isAtEnd: Bool { rest.isEmpty }

  mutating func skip(_ character: Unicode.Scalar) -> Bool {
    guard rest.first == UInt8(ascii: character) else { return false }
    rest.removeFirst()
    return true
  }

  mutating func number(_ length: ClosedRange<Int>) -> Int? {
    var (value, count) = (0, 0)
    while count < length.upperBound, let byte = rest.first, (48...57).contains(byte) {
      value = value * 10 + Int(byte - 48)
      count += 1
      rest.removeFirst()
    }
    return length.contains(count) ? value : nil
  }

  mutating func fraction() -> Double? {
    let count = rest.count
    guard let digits = number(1...9) else { return nil }
    return (0..<count - rest.count).reduce(Double(digits)) { value, _ in value / 10 }
  }

  /// Seconds east of UTC.
  mutating func offset() -> Int? {
    if skip("Z") { return 0 }
    guard let byte = rest.popFirst(), byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-"),
      let hours = number(2...2), let minutes = skip(":") ? number(2...2) : 0, hours < 24, minutes < 60
    else { return nil }
    return (byte == UInt8(ascii: "-") ? -1 : 1) * (hours * 3600 + minutes * 60)
  }
}
