package import Foundation

/// What an answer asks for beyond what it means for its notification: which connections still serve, and whether
/// another try at once may do better. Its outcome is what remains when that did not help.
struct Remedy: Sendable, Hashable {
  /// Which connections are used no more.
  enum Connections: Sendable, Hashable {
    case none
    /// The one that it came over.
    case this
    /// That one, and any that was begun before.
    case untilNow
    /// All that there are.
    case all
  }

  enum Again: Sendable, Hashable {
    case no
    /// Once, at once, over another connection.
    case atOnce
    /// The same if there is another token.
    case withAnotherToken
  }

  var retired = Connections.none
  var again = Again.no

  /// After APNs' answer (Apple, "Establishing a token-based connection to APNs" and "Handling notification responses
  /// from APNs").
  static func afterAPNs(_ outcome: Outcome) -> Remedy {
    switch outcome.reason {
    case .expiredProviderToken: Remedy(retired: .untilNow, again: .withAnotherToken)
    // The first token on a connection fixes its key.
    case .unrelatedKeyIDInToken: Remedy(retired: .untilNow, again: .atOnce)
    // The connection is unusable for a while; the token is as good as ever.
    case .tooManyProviderTokenUpdates, .idleTimeout: Remedy(retired: .this, again: .atOnce)
    // The key is revoked, or was never good.
    case .invalidProviderToken: Remedy(retired: .all)
    case .internalServerError, .serviceUnavailable, .shutdown, .serverError: Remedy(retired: .this)
    // The key may have got the topic since the connection was opened.
    case .topicDisallowed: Remedy(retired: .this)
    default: Remedy()
    }
  }

  /// After FCM's answer: the access token may have run out, or been revoked.
  static func afterFCM(_ outcome: Outcome) -> Remedy {
    outcome.reason == .fcmUnauthenticated ? Remedy(again: .withAnotherToken) : Remedy()
  }

  /// After a push service's answer: the VAPID token may have been made by a wrong clock.
  static func afterWebPush(_ outcome: Outcome) -> Remedy {
    outcome.reason == .vapidRefused ? Remedy(again: .withAnotherToken) : Remedy()
  }
}

/// The `Retry-After` header, in both of its forms (RFC 9110 section 10.2.3).
package enum RetryAfter {
  /// Further off than this is not believed: an hour. A notification is worth nothing after a day.
  package static let limit: TimeInterval = 3600

  /// The time before which not to try again; nil where the header is missing or makes no sense. Seconds may have a
  /// fraction, as Zulip's bouncer sends them.
  package static func date(_ value: String?, now: Date) -> Date? {
    guard let value = value?.trimmingCharacters(in: .whitespaces), !value.isEmpty else { return nil }
    if value.utf8.allSatisfy({ $0.isDigit || $0 == UInt8(ascii: ".") }) {
      return Double(value).map { now.addingTimeInterval(min($0, limit)) }
    }
    guard let date = parse(value) else { return nil }
    return min(max(date, now), now.addingTimeInterval(limit))
  }

  /// Reads the three forms of a date that a recipient must understand (RFC 9110 section 5.6.7), by their parts.
  ///
  /// By hand: Foundation makes a formatter for each form, which takes milliseconds that whoever answers with nonsense
  /// would have us spend.
  private static func parse(_ value: String) -> Date? {
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
    // Two digits: what would be far ahead is long ago.
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
