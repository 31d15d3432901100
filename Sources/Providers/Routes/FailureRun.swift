import Foundation

/// Failures of a route with no success between them. They mean that it does not work once they have gone on for a
/// few seconds: a connection that ends takes hundreds of requests with it, and the next one may be fine.
struct FailureRun: Sendable {
  /// From the first to the latest: more than one connection's end takes.
  static let proof: TimeInterval = 3
  /// Failures further apart say nothing about the time between them.
  static let longestGap: TimeInterval = 120

  private var first: Date?
  private var latest = Date.distantPast
  /// Why the latest failed.
  private(set) var reason = Reason.unknown
  /// The route does not work.
  private(set) var isProof = false

  /// Since when; nil if nothing has failed since the last success.
  var since: Date? { first }

  /// A request failed.
  ///
  /// - Parameter isLasting: whether the next one would fail for sure, as with a wrong key.
  mutating func failed(_ reason: Reason, isLasting: Bool, now: Date) {
    // Before the latest: the clock was put back.
    if !isProof, now < latest || now.timeIntervalSince(latest) > Self.longestGap { first = nil }
    let first = first ?? now
    self.first = first
    (latest, self.reason) = (now, reason)
    if isLasting || now.timeIntervalSince(first) >= Self.proof { isProof = true }
  }

  /// So many have failed at once that it is proof enough.
  mutating func settle() { isProof = true }

  /// One was answered.
  mutating func ended() { self = FailureRun() }
}
