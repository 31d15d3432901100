import CoreMetrics
import Platform
import Synchronization

/// A time series that can write itself in Prometheus' text format.
protocol PrometheusMetric: Sendable {
  func write(_ name: String, _ labels: [(String, String)], to output: inout String)
}

final class PrometheusCounter: PrometheusMetric, CounterHandler {
  private let value = Atomic<Int64>(0)

  func increment(by amount: Int64) { value.wrappingAdd(amount, ordering: .relaxed) }
  func reset() { value.store(0, ordering: .relaxed) }

  func write(_ name: String, _ labels: [(String, String)], to output: inout String) {
    PrometheusText.line(name, labels, Double(value.load(ordering: .relaxed)), to: &output)
  }
}

final class PrometheusGauge: PrometheusMetric, RecorderHandler {
  private let value = Mutex(0.0)

  func record(_ value: Int64) { record(Double(value)) }
  func record(_ value: Double) { self.value.withLock { $0 = value } }

  func write(_ name: String, _ labels: [(String, String)], to output: inout String) {
    PrometheusText.line(name, labels, value.withLock { $0 }, to: &output)
  }
}

/// A histogram.
final class PrometheusHistogram: PrometheusMetric, TimerHandler, RecorderHandler {
  private struct State {
    /// One element more than `bounds`: the last counts values above all bounds.
    var counts: [Int]
    var sum = 0.0
  }

  private let bounds: [Double]
  private let state: Mutex<State>

  /// - Parameter bounds: the upper bounds of the buckets, ascending.
  init(_ bounds: [Double]) {
    self.bounds = bounds
    state = Mutex(State(counts: [Int](repeating: 0, count: bounds.count + 1)))
  }

  func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }
  func record(_ value: Int64) { record(Double(value)) }

  func record(_ value: Double) {
    let bucket = bounds.firstIndex { value <= $0 } ?? bounds.count
    state.withLock { state in
      state.counts[bucket] += 1
      state.sum += value
    }
  }

  func write(_ name: String, _ labels: [(String, String)], to output: inout String) {
    let state = state.withLock { $0 }
    var total = 0
    for (count, bound) in zip(state.counts, bounds + [.infinity]) {
      total += count
      PrometheusText.line(
        "\(name)_bucket", labels + [("le", PrometheusText.number(bound))], Double(total), to: &output)
    }
    PrometheusText.line("\(name)_sum", labels, state.sum, to: &output)
    PrometheusText.line("\(name)_count", labels, Double(total), to: &output)
  }
}

/// Prometheus' text format, version 0.0.4.
enum PrometheusText {
  static func head(_ name: String, _ kind: MetricDescription.Kind, to output: inout String) {
    // A metric that is not in the table belongs to a library and has no description.
    let help = MetricDescription.of(name)?.help ?? name
    output += "# HELP \(name) \(help.replacing("\\", with: "\\\\").replacing("\n", with: "\\n"))\n"
    output += "# TYPE \(name) \(kind.rawValue)\n"
  }

  static func line(_ name: String, _ labels: [(String, String)], _ value: Double, to output: inout String) {
    output += "\(name)\(self.labels(labels)) \(number(value))\n"
  }

  /// `{name="value",...}`, or an empty string.
  static func labels(_ labels: [(String, String)]) -> String {
    labels.isEmpty
      ? "" : "{" + labels.map { "\(name($0))=\"\(escape($1))\"" }.joined(separator: ",") + "}"
  }

  /// Turns a label into a valid name: letters, digits and underscores, not beginning with a digit.
  static func name(_ label: String) -> String {
    let cleaned = String(
      label.unicodeScalars.map { scalar in
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", "_": Character(scalar)
        default: "_"
        }
      })
    return cleaned.first.map { $0.isNumber ? "_\(cleaned)" : cleaned } ?? "_"
  }

  /// Formats whole numbers without a fraction.
  static func number(_ value: Double) -> String {
    if let whole = Int64(exactly: value) { return String(whole) }
    return value.isFinite ? "\(value)" : value.isNaN ? "NaN" : value < 0 ? "-Inf" : "+Inf"
  }

  private static func escape(_ text: String) -> String {
    text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
  }
}
