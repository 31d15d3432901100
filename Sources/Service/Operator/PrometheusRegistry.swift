import Basics
package import CoreMetrics
package import Foundation
import Metrics
package import Platform
package import SQL
import Synchronization

/// Keeps the program's metrics and writes them in Prometheus' text format.
///
/// None of the packages that we may use is a Prometheus backend for swift-metrics; this implements the part
/// that we need. Labels come from closed lists, so the number of series is bounded. Series are never removed,
/// because one that came back at zero would look like a restart.
package final class PrometheusRegistry: MetricsFactory {
  private struct Family {
    let kind: MetricDescription.Kind
    /// The series by their labels as written, so that finding one takes constant time.
    var series: [String: (labels: [(String, String)], metric: any PrometheusMetric)] = [:]
  }

  private let families = Mutex<[String: Family]>([:])
  private let collectors = Mutex<[(name: String, samples: Probe<[PolledGauge.Sample]?>)]>([])

  package init() {}

  /// The registry of this process, to which all metrics report after ``bootstrap()``.
  package static let shared = PrometheusRegistry()

  /// Makes ``shared`` the backend of swift-metrics. Call once per process, before any metric is created.
  package static func bootstrap() { MetricsSystem.bootstrap(shared) }

  /// How long a scrape waits for values that have to be read first.
  private static let timeout = Duration.milliseconds(800)

  /// Adds values that are read at each scrape: gauges, unless ``MetricDescription`` says otherwise. Values
  /// that cannot be read in time are left out, because an old or invented value would hide a problem.
  package func gauges(_ name: String, _ collect: @escaping @Sendable () async throws -> [PolledGauge.Sample])
  {
    collectors.withLock { $0.append((name, Probe { try? await collect() })) }
  }

  /// Adds a feature's metric, as ``gauges(_:_:)`` does.
  package func add(_ gauge: PolledGauge) { gauges(gauge.name, gauge.samples) }

  /// All metrics in Prometheus' text format.
  package func text() async -> String {
    var output = ""
    for (name, family) in families.withLock({ $0 }).sorted(by: { $0.key < $1.key }) {
      PrometheusText.head(name, family.kind, to: &output)
      for (_, series) in family.series.sorted(by: { $0.key < $1.key }) {
        series.metric.write(name, series.labels, to: &output)
      }
    }
    let collectors = collectors.withLock { $0 }
    let collected = await withTaskGroup(of: (Int, [PolledGauge.Sample]?).self) { group in
      for (index, collector) in collectors.enumerated() {
        group.addTask { (index, await collector.samples.answer(within: Self.timeout) ?? nil) }
      }
      return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
    }
    for (index, collector) in collectors.enumerated() {
      guard let samples = collected[index] else { continue }
      PrometheusText.head(collector.name, MetricDescription.of(collector.name)?.kind ?? .gauge, to: &output)
      for sample in samples { PrometheusText.line(collector.name, sample.labels, sample.value, to: &output) }
    }
    return output
  }

  // MARK: As a backend of swift-metrics

  package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    metric(label, dimensions, .counter) { PrometheusCounter() }
  }

  package func makeRecorder(
    label: String, dimensions: [(String, String)], aggregate: Bool
  ) -> any RecorderHandler {
    aggregate
      ? histogram(label, dimensions) : metric(label, dimensions, .gauge) { PrometheusGauge() }
  }

  package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    histogram(label, dimensions)
  }

  package func destroyCounter(_ handler: any CounterHandler) {}
  package func destroyRecorder(_ handler: any RecorderHandler) {}
  package func destroyTimer(_ handler: any TimerHandler) {}

  private func histogram(_ label: String, _ dimensions: [(String, String)]) -> PrometheusHistogram {
    metric(label, dimensions, .histogram) {
      PrometheusHistogram(MetricDescription.of(label)?.bounds ?? MetricDescription.bounds)
    }
  }

  private func metric<Metric: PrometheusMetric>(
    _ label: String, _ dimensions: [(String, String)], _ kind: MetricDescription.Kind, _ make: () -> Metric
  ) -> Metric {
    let name = PrometheusText.name(label)
    let labels = dimensions.sorted { $0.0 < $1.0 }
    let key = PrometheusText.labels(labels)
    return families.withLock { families in
      let known = families[name]?.series[key]?.metric
      if let metric = known as? Metric { return metric }
      let metric = make()
      // A name that already belongs to a metric of another kind keeps that kind; the new metric is not shown.
      guard known == nil, families[name, default: Family(kind: kind)].kind == kind else { return metric }
      families[name, default: Family(kind: kind)].series[key] = (labels, metric)
      return metric
    }
  }
}

/// Durations of database operations, reported by `DatabaseObserver`.
package struct DatabaseMetrics: Sendable {
  private let read = timer("read")
  private let write = timer("write")
  private let commit = timer("commit")

  package init() {}

  private static func timer(_ operation: String) -> Timer {
    Timer(label: "push_bouncer_database_duration_seconds", dimensions: [("operation", operation)])
  }

  package func observe(_ operation: DatabaseOperation, _ duration: Duration) {
    switch operation {
    case .read: read.record(duration: duration)
    case .write: write.record(duration: duration)
    case .commit: commit.record(duration: duration)
    }
  }
}

extension PrometheusRegistry {
  /// Adds metrics of the build and the process, with the names that Prometheus' own client libraries use.
  package func watchProcess(start: Date = Date()) {
    gauges("push_bouncer_build_info") {
      [.init(1, labels: [("version", Version.number), ("commit", Version.commit ?? "")])]
    }
    gauges("process_cpu_seconds_total") {
      // POSIX requires `CLOCKS_PER_SEC` to be one million.
      [.init(Double(clock()) / 1_000_000)]
    }
    gauges("process_resident_memory_bytes") {
      // The second number is the number of resident pages.
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
