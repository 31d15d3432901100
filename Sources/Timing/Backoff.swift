/// How long to wait before the next try: a random share of a bound that doubles with each try up to the longest, so
/// that what failed together does not come back together.
package struct Backoff: Sendable {
  /// The bound after the first try, in seconds.
  package let first: Double
  /// The largest bound, in seconds.
  package let longest: Double
  private let shares: ClosedRange<Double>

  /// - Parameter shares: what shares of the bound a pause may be. From nothing to all of it ("full jitter") spreads best.
  package init(first: Double, longest: Double, shares: ClosedRange<Double> = 0...1) {
    self.first = first
    self.longest = longest
    self.shares = shares
  }

  /// Seconds to wait after so many tries, of which there has been one at least.
  ///
  /// - Parameter random: from 0 to 1.
  package func pause(after tries: Int, random: Double = .random(in: 0...1)) -> Double {
    let doublings = min(max(tries, 1), 31) - 1
    return (shares.lowerBound + random * (shares.upperBound - shares.lowerBound))
      * min(longest, first * Double(1 << doublings))
  }
}
