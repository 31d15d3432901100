package import Foundation

/// Formats numbers, times and sizes for people.
package enum Phrase {
  /// `12,345`
  package static func number(_ number: some BinaryInteger) -> String {
    let all = String(number.magnitude)
    let digits = all.enumerated().reduce(into: "") { text, digit in
      if digit.offset > 0, (all.count - digit.offset).isMultiple(of: 3) { text += "," }
      text.append(digit.element)
    }
    return number < 0 ? "-\(digits)" : digits
  }

  /// `1 realm`, `12,345 realms`
  package static func count(_ count: some BinaryInteger, _ one: String, _ many: String? = nil) -> String {
    "\(number(count)) \(count == 1 ? one : many ?? "\(one)s")"
  }

  /// `42 s`, `3 min`, `5 h`, `12 days`
  package static func duration(_ seconds: TimeInterval) -> String {
    let seconds = Int(max(0, min(seconds, 1e15)))
    return switch seconds {
    case ..<100: "\(seconds) s"
    case ..<(100 * 60): "\(seconds / 60) min"
    case ..<(48 * 3600): "\(seconds / 3600) h"
    default: count(seconds / 86_400, "day")
    }
  }

  /// A duration that is exact to the second while it is short: `54 s`, `2 min 9 s`, `5 h 3 min`, `12 days`
  package static func span(_ seconds: TimeInterval) -> String {
    let seconds = Int(max(0, min(seconds, 1e15)).rounded())
    let (major, minor) = seconds < 3600 ? ((60, "min"), (1, "s")) : ((3600, "h"), (60, "min"))
    guard seconds >= 60, seconds < 48 * 3600 else { return duration(TimeInterval(seconds)) }
    let rest = seconds % major.0 / minor.0
    return "\(seconds / major.0) \(major.1)" + (rest == 0 ? "" : " \(rest) \(minor.1)")
  }

  /// `3 h ago`, or `never`
  package static func age(_ date: Date?, at now: Date = Date()) -> String {
    guard let date else { return "never" }
    let seconds = now.timeIntervalSince(date)
    return seconds < -1 ? "in \(duration(-seconds))" : "\(duration(seconds)) ago"
  }

  /// `in 5 min`, or `now`
  package static func until(_ date: Date, at now: Date = Date()) -> String {
    let seconds = date.timeIntervalSince(now)
    return seconds > 0 ? "in \(duration(seconds))" : "now"
  }

  /// `1.5 MiB`
  package static func size(_ bytes: some BinaryInteger) -> String {
    var value = Double(bytes)
    var unit = 0
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024, unit < units.count - 1 {
      value /= 1024
      unit += 1
    }
    if unit == 0 { return count(bytes, "byte") }
    return "\(String(format: value < 10 ? "%.1f" : "%.0f", value)) \(units[unit])"
  }

  /// `12 %`
  package static func share(_ part: some BinaryInteger, of whole: some BinaryInteger) -> String {
    whole == 0 ? "-" : "\(Int((Double(part) / Double(whole) * 100).rounded(.down))) %"
  }

  /// `35 ms`, `1.2 s`, `3 min`
  package static func latency(_ seconds: TimeInterval) -> String {
    switch seconds {
    case ..<1: "\(Int((max(0, seconds) * 1000).rounded())) ms"
    case ..<10: String(format: "%.1f s", seconds)
    default: duration(seconds)
    }
  }
}

extension Date {
  /// `2026-11-22`
  package var day: String { formatted(.iso8601.year().month().day()) }
}
