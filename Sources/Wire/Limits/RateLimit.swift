/// So many calls in so much time: `1000/60s`; `0` stands for no limit.
public struct RateLimit: Sendable, Hashable {
  /// How many calls.
  public let calls: Int
  /// In how many seconds.
  public let seconds: Double

  /// So many calls in so many seconds.
  public init(calls: Int, seconds: Double) {
    self.calls = calls
    self.seconds = seconds
  }
}
