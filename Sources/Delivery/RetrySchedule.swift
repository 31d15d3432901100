package import Foundation

/// How long to wait before the next try: a random share of a bound that doubles with each try, so that what
/// failed together does not come back together.
package struct RetrySchedule: Sendable {
  /// The bound before the second try, in seconds.
  let first: TimeInterval
  /// The largest bound, in seconds.
  let longest: TimeInterval
  /// What shares of the bound it may be. From nothing to all of it ("full jitter") spreads best.
  var shares = 0.0...1.0

  /// Within a request, whose caller waits.
  static let inRequest = RetrySchedule(first: 0.1, longest: 1)
  /// From the outbox.
  package static let outbox = RetrySchedule(first: 2, longest: 300)
  /// From the outbox, where APNs is out of order. Apple asks for a quarter of an hour, which a chat message is
  /// not worth any more: it is what the pauses come to.
  static let outage = RetrySchedule(first: 15, longest: 900, shares: 1...1.2)
  /// Of a chat server's registrations with its bouncer, which go on for a day.
  package static let registration = RetrySchedule(first: 2, longest: 900)

  /// Seconds to wait after so many tries, of which there has been one at least.
  ///
  /// - Parameter random: from 0 to 1.
  func pause(after tries: Int, random: Double) -> TimeInterval {
    (shares.lowerBound + random * (shares.upperBound - shares.lowerBound))
      * min(longest, first * pow(2, Double(min(max(tries - 1, 0), 30))))
  }

  /// When to try again: not before the provider allows it.
  package func next(after tries: Int, now: Date, notBefore: Date?, random: Double) -> Date {
    let pause = pause(after: tries, random: random)
    return max(now + pause, (notBefore ?? now) + min(pause, first))
  }
}
