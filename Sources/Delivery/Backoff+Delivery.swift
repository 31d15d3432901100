import Foundation
import Timing

extension Backoff {
  /// Within a request, whose caller waits.
  static let inRequest = Backoff(first: 0.1, longest: 1)
  /// From the outbox.
  static let outbox = Backoff(first: 2, longest: 300)
  /// From the outbox, where APNs is out of order. Apple asks for a quarter of an hour, which a chat message is
  /// not worth any more: it is what the pauses come to.
  static let outage = Backoff(first: 15, longest: 900, shares: 1...1.2)

  /// When to try again after so many tries: not before the provider allows it.
  ///
  /// - Parameter random: from 0 to 1.
  func next(after tries: Int, now: Date, notBefore: Date?, random: Double) -> Date {
    let pause = pause(after: tries, random: random)
    return max(now + pause, (notBefore ?? now) + min(pause, first))
  }
}
