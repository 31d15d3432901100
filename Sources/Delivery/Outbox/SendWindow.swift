import Foundation

/// How many entries of one route are sent at a time: one after a round of failures, then twice as
/// many after each round that went well. A provider that has just come back is not met with all that
/// has gathered, and fresh notifications always find room beside it.
struct SendWindow: Sendable {
  static let largest = 64

  /// How many may go now.
  private(set) var window = 1
  /// Nothing goes between.
  private var pause = Date.distantPast..<Date.distantPast

  /// Whether nothing goes now. A clock that was put back to before the pause has ended it.
  func isPaused(at now: Date) -> Bool { pause.contains(now) }

  /// A round ended. Failures that are the exception hold up only their own entries: a provider refuses
  /// for going too fast on account of one device, too.
  ///
  /// - Parameters:
  ///   - failures: how many of `tries` ended without an answer about their notification.
  ///   - notBefore: when the provider wants to hear of the failed ones again.
  mutating func ended(tries: Int, failures: Int, notBefore: Date?, now: Date) {
    if failures == 0 {
      window = min(Self.largest, window * 2)
    } else if failures * 2 > tries {
      window = 1
      pause = now..<max(now + 0.5, notBefore ?? now)
    }
  }
}
