/// A metric of this program, as described by its HELP line in `/metrics` and its row in
/// `Documentation/Metrics.md`.
package struct MetricDescription: Sendable {
  package enum Kind: String, Sendable {
    case counter, gauge, histogram
  }

  package let name: String
  package let kind: Kind
  package let labels: [String]
  /// A sentence that describes it.
  package let help: String
  /// The upper bounds of a histogram's buckets.
  package let bounds: [Double]

  /// In seconds, from half a millisecond to a minute, the range that a phone's user could notice.
  package static let bounds = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
  ]

  package init(
    _ name: String, _ kind: Kind, labels: [String] = [], bounds: [Double] = Self.bounds, _ help: String
  ) {
    self.name = name
    self.kind = kind
    self.labels = labels
    self.help = help
    self.bounds = bounds
  }
}
