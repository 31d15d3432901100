internal import Foundation

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
