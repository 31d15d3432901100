public import Foundation

/// How long to wait before the next try: a random time between nothing and a bound that doubles with
/// each try ("full jitter"), so that what failed together does not come back together.
public struct RetrySchedule: Sendable {
  /// The bound before the second try, in seconds.
  let first: TimeInterval
  /// The largest bound, in seconds.
  let longest: TimeInterval

  /// Within a request, whose caller waits.
  public static let inRequest = RetrySchedule(first: 0.1, longest: 1)
  /// From the outbox.
  public static let outbox = RetrySchedule(first: 2, longest: 300)
  /// Of a chat server's registrations with its bouncer, which go on for a day.
  public static let registration = RetrySchedule(first: 2, longest: 900)

  /// Seconds to wait after so many tries, of which there has been one at least.
  ///
  /// - Parameter random: from 0 to 1.
  func pause(after tries: Int, random: Double) -> TimeInterval {
    random * min(longest, first * pow(2, Double(min(max(tries - 1, 0), 30))))
  }

  /// When to try again: not before the provider allows it.
  public func next(after tries: Int, now: Date, notBefore: Date?, random: Double) -> Date {
    let pause = pause(after: tries, random: random)
    return max(now + pause, (notBefore ?? now) + min(pause, first))
  }
}
