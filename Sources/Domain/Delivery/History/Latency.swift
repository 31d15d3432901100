package import Foundation
package import Providers

/// Histogram of latencies, from the call that brought a notification to its acceptance by the provider.
/// Buckets grow by the square root of two, so a percentile is accurate to about a fifth.
package struct Latency: Sendable, Hashable {
  /// The last bucket: more than a day.
  private static let last = 54

  /// Number of notifications by bucket.
  private var counts: [Int: Int64] = [:]

  package init() {}

  /// The bucket of a latency in seconds.
  static func bucket(of seconds: TimeInterval) -> Int {
    guard seconds > 0.001 else { return 0 }
    return Int(min(2 * log2(seconds * 1000), Double(last)))
  }

  mutating func add(_ count: Int64, bucket: Int) {
    counts[min(max(bucket, 0), Self.last), default: 0] += count
  }

  package static func += (left: inout Latency, right: Latency) {
    left.counts.merge(right.counts, uniquingKeysWith: +)
  }

  package var count: Int64 { counts.values.reduce(0, +) }

  /// The latency in seconds that this share of the notifications did not exceed; nil if there are none.
  package func percentile(_ share: Double) -> TimeInterval? {
    let total = count
    guard total > 0 else { return nil }
    let rank = share * Double(total)
    var below = 0.0
    for (bucket, count) in counts.sorted(by: { $0.key < $1.key }) {
      if below + Double(count) >= rank {
        let part = (rank - below) / Double(count)
        return exp2((Double(bucket) + min(max(part, 0), 1)) / 2) / 1000
      }
      below += Double(count)
    }
    return nil
  }
}

extension Route {
  /// The route that stands for all of Web Push.
  package static let webPush = Route(provider: .webPush, credential: "", target: "")

  /// The route under which it is counted. Anybody can name a push service, so all of Web Push is one route.
  package var counted: Route { isOfHost ? Route(provider: provider, credential: "", target: "") : self }
}
