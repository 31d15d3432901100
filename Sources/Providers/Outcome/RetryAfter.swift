import Foundation

/// The `Retry-After` header, in both of its forms (RFC 9110 section 10.2.3).
enum RetryAfter {
  /// Further off than this is not believed: an hour. A notification is worth nothing after a day.
  static let limit: TimeInterval = 3600

  /// The three forms of a date that a recipient must understand (RFC 9110 section 5.6.7).
  private static let forms = [
    "EEE, dd MMM yyyy HH:mm:ss 'GMT'", "EEEE, dd-MMM-yy HH:mm:ss 'GMT'", "EEE MMM d HH:mm:ss yyyy",
  ]

  /// The time before which not to try again; nil where the header is missing or makes no sense.
  static func date(_ value: String?, now: Date) -> Date? {
    guard let value = value?.trimmingCharacters(in: .whitespaces), !value.isEmpty else { return nil }
    if value.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) {
      return now.addingTimeInterval(min(Double(value) ?? limit, limit))
    }
    guard let date = forms.lazy.compactMap({ parse(value, $0) }).first else { return nil }
    return min(max(date, now), now.addingTimeInterval(limit))
  }

  private static func parse(_ value: String, _ form: String) -> Date? {
    let formatter = DateFormatter()
    formatter.locale = Locale(identifier: "en_US_POSIX")
    formatter.timeZone = .gmt
    formatter.dateFormat = form
    return formatter.date(from: value)
  }
}
