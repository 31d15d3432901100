import Foundation

/// How many entries of one route are sent at a time: one after a failure, then twice as many after
/// each round that went well. A provider that has just come back is not met with all that has
/// gathered, and fresh notifications always find room beside it.
struct Pace: Sendable {
  static let largest = 64

  /// How many may go now.
  private(set) var window = 1
  /// Nothing goes before.
  private(set) var pausedUntil = Date.distantPast

  /// A round ended; `worked` if every answer was one about a notification.
  mutating func ended(worked: Bool, notBefore: Date?, now: Date) {
    if worked {
      window = min(Self.largest, window * 2)
    } else {
      window = 1
      pausedUntil = max(now + 0.5, notBefore ?? now)
    }
  }
}
