package import CoreMetrics
package import Foundation
internal import Metrics
package import SQL
internal import Synchronization

/// Keeps the program's metrics and writes them as Prometheus reads them.
///
/// There is no backend of swift-metrics for Prometheus among the packages we may use; this is the
/// part of one that we need. Labels come from closed lists, so the number of series is bounded; a
/// series, once made, stays: one that came back at zero would look like a restart.
package final class PrometheusRegistry: MetricsFactory {
  private struct Family {
    let kind: MetricDescription.Kind
    /// By their labels as they are written: a series more or less costs a lookup nothing.
    var series: [String: (labels: [(String, String)], metric: any PrometheusMetric)] = [:]
  }

  private let families = Mutex<[String: Family]>([:])
  private let collectors = Mutex<[(name: String, samples: Probe<[Sample]?>)]>([])

  package init() {}

  /// The registry of this process, which everything reports to after ``bootstrap()``.
  package static let shared = PrometheusRegistry()

  /// Makes ``shared`` the backend of swift-metrics. Once per process, before any metric is made.
  package static func bootstrap() { MetricsSystem.bootstrap(shared) }

  /// A value read when somebody looks, with its labels.
  package struct Sample: Sendable {
    let labels: [(String, String)]
    let value: Double

    package init(_ value: Double, labels: [(String, String)] = []) {
      (self.value, self.labels) = (value, labels)
    }
  }

  /// How long whoever looks waits for values that have to be read first.
  private static let timeout = Duration.milliseconds(800)

  /// Adds values that are read when somebody looks: gauges, unless ``MetricDescription`` says otherwise. Those that
  /// cannot be read, or not soon, are left out: an old or an invented value would hide that something is wrong.
  package func gauges(_ name: String, _ collect: @escaping @Sendable () async throws -> [Sample]) {
    collectors.withLock { $0.append((name, Probe { try? await collect() })) }
  }

  /// Everything, as Prometheus reads it.
  package func text() async -> String {
    var output = ""
    for (name, family) in families.withLock({ $0 }).sorted(by: { $0.key < $1.key }) {
      PrometheusText.head(name, family.kind, to: &output)
      for (_, series) in family.series.sorted(by: { $0.key < $1.key }) {
        series.metric.write(name, series.labels, to: &output)
      }
    }
    let collectors = collectors.withLock { $0 }
    let collected = await withTaskGroup(of: (Int, [Sample]?).self) { group in
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
      // A name that is already something else keeps being that; this one is not shown.
      guard known == nil, families[name, default: Family(kind: kind)].kind == kind else { return metric }
      families[name, default: Family(kind: kind)].series[key] = (labels, metric)
      return metric
    }
  }
}

/// Durations of the database's operations, as `DatabaseObserver` sees them.
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
