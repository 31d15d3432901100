internal import CoreMetrics
package import Foundation
internal import Metrics
package import SQL
internal import Synchronization

/// A series: it can write itself down.
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

final class PrometheusGauge: PrometheusMetric, MeterHandler, RecorderHandler, FloatingPointCounterHandler {
  private let value = Mutex(0.0)

  func set(_ value: Int64) { set(Double(value)) }
  func set(_ value: Double) { self.value.withLock { $0 = value } }
  func record(_ value: Int64) { set(Double(value)) }
  func record(_ value: Double) { set(value) }
  func increment(by amount: Double) { value.withLock { $0 += amount } }
  func decrement(by amount: Double) { value.withLock { $0 -= amount } }
  func reset() { set(0.0) }

  func write(_ name: String, _ labels: [(String, String)], to output: inout String) {
    PrometheusText.line(name, labels, value.withLock { $0 }, to: &output)
  }
}

/// A distribution.
final class PrometheusHistogram: PrometheusMetric, TimerHandler, RecorderHandler {
  /// From half a millisecond to a minute: what a phone's user would notice.
  static let bounds = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60,
  ]

  private struct State {
    /// One more than there are bounds: the last is for what exceeds them all.
    var counts: [Int]
    var sum = 0.0
  }

  private let bounds: [Double]
  private let state: Mutex<State>

  /// - Parameter bounds: the upper ends of the buckets, rising.
  init(_ bounds: [Double] = PrometheusHistogram.bounds) {
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
    for (index, count) in state.counts.enumerated() {
      total += count
      let bound = index < bounds.count ? PrometheusText.number(bounds[index]) : "+Inf"
      PrometheusText.line("\(name)_bucket", labels + [("le", bound)], Double(total), to: &output)
    }
    PrometheusText.line("\(name)_sum", labels, state.sum, to: &output)
    PrometheusText.line("\(name)_count", labels, Double(total), to: &output)
  }
}

/// Prometheus' text format.
enum PrometheusText {
  /// One line: name, labels, value.
  static func line(_ name: String, _ labels: [(String, String)], _ value: Double, to output: inout String) {
    output += name + self.labels(labels)
    output += " \(number(value))\n"
  }

  /// `{name="value",...}`, or nothing.
  static func labels(_ labels: [(String, String)]) -> String {
    labels.isEmpty
      ? "" : "{" + labels.map { "\(name($0))=\"\(escape($1))\"" }.joined(separator: ",") + "}"
  }

  /// A name of letters, digits and underscores that does not begin with a digit.
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

  /// Whole numbers without a fraction.
  static func number(_ value: Double) -> String {
    Int64(exactly: value).map(String.init)
      ?? (value.isNaN
        ? "NaN" : value < 0 && value.isInfinite ? "-Inf" : value.isInfinite ? "+Inf" : "\(value)")
  }

  /// What the metric says. One that is not in the table is another's, who gave it no more than its name.
  static func help(_ name: String) -> String {
    (MetricDescription.of(name)?.help ?? name).replacing("\\", with: "\\\\").replacing("\n", with: "\\n")
  }

  private static func escape(_ text: String) -> String {
    text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
  }
}

/// Durations of the database's operations, as `DatabaseObserver` sees them.
package struct DatabaseMetrics: Sendable {
  private let read = Timer(
    label: "push_bouncer_database_duration_seconds", dimensions: [("operation", "read")])
  private let write = Timer(
    label: "push_bouncer_database_duration_seconds", dimensions: [("operation", "write")])
  private let commit = Timer(
    label: "push_bouncer_database_duration_seconds", dimensions: [("operation", "commit")])

  /// Handles of the process's metrics system.
  package init() {}

  /// Records one operation.
  package func observe(_ operation: DatabaseOperation, _ duration: Duration) {
    switch operation {
    case .read: read.record(duration: duration)
    case .write: write.record(duration: duration)
    case .commit: commit.record(duration: duration)
    }
  }
}

extension PrometheusRegistry {
  /// Shows the build and the process, under the names that Prometheus' own clients use.
  package func watchProcess(start: Date = Date()) {
    gauges("push_bouncer_build_info") {
      [.init(1, labels: [("version", Version.number), ("commit", Version.commit ?? "")])]
    }
    gauges("process_cpu_seconds_total") {
      // POSIX counts in millionths of a second.
      [.init(Double(clock()) / 1_000_000)]
    }
    gauges("process_resident_memory_bytes") {
      // The second number: pages that are resident.
      let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
      guard pages.count > 1, let resident = Double(pages[1]) else { return [] }
      return [.init(resident * Double(sysconf(Int32(_SC_PAGESIZE))))]
    }
    gauges("process_open_fds") {
      [.init(Double(try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count))]
    }
    gauges("process_max_fds") {
      var limit = rlimit()
      guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return [] }
      return [.init(Double(limit.rlim_cur))]
    }
    gauges("process_start_time_seconds") { [.init(start.timeIntervalSince1970.rounded())] }
  }
}
