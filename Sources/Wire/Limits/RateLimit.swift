/// So many calls in so much time: `1000/60s`; `0` stands for no limit.
package struct RateLimit: Sendable, Hashable {
  /// How many calls.
  package let calls: Int
  /// In how many seconds.
  package let seconds: Double

  /// So many calls in so many seconds.
  package init(calls: Int, seconds: Double) {
    self.calls = calls
    self.seconds = seconds
  }
}
