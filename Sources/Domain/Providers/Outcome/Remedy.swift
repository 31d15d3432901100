package import Foundation

/// What to do at once after an answer: which connections to stop using, and whether to try again. If that
/// fails too, the answer's outcome stands.
package struct Remedy: Sendable, Hashable {
  /// The connections that are used no more.
  enum Connections: Sendable, Hashable {
    case none
    /// The answer's own connection.
    case this
    /// The answer's own connection and all older ones.
    case untilNow
    /// Every connection.
    case all
  }

  enum Again: Sendable, Hashable {
    case no
    /// Once, at once, over another connection.
    case atOnce
    /// Like ``atOnce``, if another token can be had.
    case withAnotherToken
  }

  var retired = Connections.none
  var again = Again.no
}

/// The `Retry-After` header, in both of its forms (RFC 9110 section 10.2.3).
package enum RetryAfter {
  /// Longest wait that is accepted: one hour, since notifications lose their value within a day.
  package static let limit: TimeInterval = 3600

  /// The time before which not to try again; nil if the header is missing or malformed. Accepts fractions of
  /// seconds, which Zulip's bouncer sends.
  package static func date(_ value: String?, now: Date) -> Date? {
    guard let value = value?.trimmingCharacters(in: .whitespaces), !value.isEmpty else { return nil }
    if value.utf8.allSatisfy({ $0.isDigit || $0 == UInt8(ascii: ".") }) {
      return Double(value).map { now.addingTimeInterval(min($0, limit)) }
    }
    guard let date = parse(value) else { return nil }
    return min(max(date, now), now.addingTimeInterval(limit))
  }

  /// Parses the three date formats that recipients must accept (RFC 9110 section 5.6.7).
  ///
  /// Hand-written, because Foundation needs a formatter per format: milliseconds that a malicious host could
  /// make us spend.
  package static func parse(_ value: String) -> Date? {
    let parts = value.utf8.prefix(64).split { !$0.isAlphanumeric }.map { String(Substring($0)) }
    let (day, month, year, time): (String, String, String, ArraySlice<String>)
    switch parts.count {
    // Wed, 21 Oct 2026 07:28:00 GMT, and Wednesday, 21-Oct-26 07:28:00 GMT
    case 8 where parts[7] == "GMT": (day, month, year, time) = (parts[1], parts[2], parts[3], parts[4...6])
    // Wed Oct 21 07:28:00 2026
    case 7: (day, month, year, time) = (parts[2], parts[1], parts[6], parts[3...5])
    default: return nil
    }
    let numbers = ([year, day] + time).compactMap { $0.utf8.count <= 4 ? Int($0) : nil }
    guard numbers.count == 5, let month = months.firstIndex(of: month), (1...31).contains(numbers[1]),
      numbers[2] < 24, numbers[3] < 60, numbers[4] <= 60
    else { return nil }
    // Two-digit years from 70 are 19xx.
    let fullYear = numbers[0] < 70 ? 2000 + numbers[0] : numbers[0] < 100 ? 1900 + numbers[0] : numbers[0]
    return DateComponents(
      calendar: calendar, year: fullYear, month: month + 1,
      day: numbers[1], hour: numbers[2], minute: numbers[3], second: numbers[4]
    ).date
  }

  private static let months = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  private static let calendar: Calendar = {
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = .gmt
    return calendar
  }()
}
