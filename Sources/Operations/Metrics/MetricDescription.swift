/// A metric of this program: its HELP line in `/metrics`, and its row in `Documentation/Metrics.md`.
package struct MetricDescription: Sendable {
  /// How its values behave.
  package enum Kind: String, Sendable {
    case counter, gauge, histogram
  }

  /// Its name.
  package let name: String
  /// How its values behave.
  package let kind: Kind
  /// The names of its labels.
  package let labels: [String]
  /// What it says, in a sentence.
  package let help: String
  /// A histogram's buckets, by their upper ends.
  let bounds: [Double]

  init(
    _ name: String, _ kind: Kind, labels: [String] = [], bounds: [Double] = PrometheusHistogram.bounds,
    _ help: String
  ) {
    (self.name, self.kind, self.labels, self.help, self.bounds) = (name, kind, labels, help, bounds)
  }

  /// That of a name; nil for one that is not in ``all``.
  static func of(_ name: String) -> MetricDescription? { named[name] }

  private static let named = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

  /// All of them as a table in Markdown.
  package static var table: String {
    all.sorted { $0.name < $1.name }.reduce(
      into: "| metric | kind | labels | what it says |\n|---|---|---|---|\n"
    ) {
      let labels = $1.labels.map { "`\($0)`" }.joined(separator: ", ")
      $0 += "| `\($1.name)` | \($1.kind.rawValue) | \(labels) | \($1.help) |\n"
    }
  }
}
