package import CoreMetrics
internal import Synchronization

/// Keeps the program's metrics and writes them in Prometheus' text format (version 0.0.4).
///
/// There is no backend of swift-metrics for Prometheus among the packages we may use; this is the
/// part of one that we need. Labels come from closed lists, so the number of series is bounded; a
/// series, once made, stays.
package final class PrometheusRegistry: MetricsFactory {
  typealias Kind = MetricDescription.Kind

  private struct Family {
    let kind: Kind
    /// By their labels as they are written: a series more or less costs a lookup nothing.
    var series: [String: (labels: [(String, String)], metric: any PrometheusMetric)] = [:]
  }

  private let families = Mutex<[String: Family]>([:])
  private let collectors = Mutex<[Collector]>([])

  /// A registry without metrics.
  package init() {}

  /// The registry of this process, which everything reports to after ``bootstrap()``.
  package static let shared = PrometheusRegistry()

  /// Makes ``shared`` the backend of swift-metrics. Once per process, before any metric is made.
  package static func bootstrap() {
    MetricsSystem.bootstrap(shared)
  }

  /// A value read when somebody looks, with its labels.
  package struct Sample: Sendable {
    let labels: [(String, String)]
    let value: Double

    /// A sample.
    package init(_ value: Double, labels: [(String, String)] = []) {
      self.value = value
      self.labels = labels
    }
  }

  private struct Collector: Sendable {
    let name: String
    let samples: Probe<[Sample]?>
  }

  /// How long whoever looks waits for values that have to be read first.
  private static let timeout = Duration.milliseconds(800)

  /// Adds values that are read when somebody looks: gauges, unless ``MetricDescription`` says otherwise. Those that
  /// cannot be read, or not soon, are left out: an old or an invented value would hide that something is wrong.
  package func gauges(_ name: String, _ collect: @escaping @Sendable () async throws -> [Sample]) {
    collectors.withLock { $0.append(Collector(name: name, samples: Probe { try? await collect() })) }
  }

  /// Everything, as Prometheus reads it.
  package func text() async -> String {
    var output = ""
    let families = families.withLock { $0 }.sorted { $0.key < $1.key }
    for (name, family) in families {
      Self.head(name, family.kind, &output)
      for (_, series) in family.series.sorted(by: { $0.key < $1.key }) {
        series.metric.write(name, series.labels, to: &output)
      }
    }
    for (name, samples) in await collected() {
      Self.head(name, MetricDescription.of(name)?.kind ?? .gauge, &output)
      for sample in samples { PrometheusText.line(name, sample.labels, sample.value, to: &output) }
    }
    return output
  }

  /// What the collectors say in time, in the order in which they were added.
  private func collected() async -> [(name: String, samples: [Sample])] {
    let collectors = collectors.withLock { $0 }
    return await withTaskGroup(of: (index: Int, samples: [Sample]?).self) { group in
      for (index, collector) in collectors.enumerated() {
        group.addTask { (index, await collector.samples.answer(within: Self.timeout) ?? nil) }
      }
      var samples = [[Sample]?](repeating: nil, count: collectors.count)
      for await answer in group { samples[answer.index] = answer.samples }
      return zip(collectors, samples).compactMap { collector, samples in
        samples.map { (collector.name, $0) }
      }
    }
  }

  private static func head(_ name: String, _ kind: Kind, _ output: inout String) {
    output += "# HELP \(name) \(PrometheusText.help(name))\n# TYPE \(name) \(kind.rawValue)\n"
  }

  private func histogram(_ label: String, _ dimensions: [(String, String)]) -> PrometheusHistogram {
    metric(label, dimensions, .histogram) {
      PrometheusHistogram(MetricDescription.of(label)?.bounds ?? PrometheusHistogram.bounds)
    }
  }

  private func metric<Metric: PrometheusMetric>(
    _ label: String, _ dimensions: [(String, String)], _ kind: Kind, _ make: () -> Metric
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

extension PrometheusRegistry {
  /// A count that only grows.
  package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
    metric(label, dimensions, .counter) { PrometheusCounter() }
  }

  /// A sum that only grows.
  package func makeFloatingPointCounter(
    label: String, dimensions: [(String, String)]
  ) -> any FloatingPointCounterHandler {
    metric(label, dimensions, .counter) { PrometheusGauge() }
  }

  /// A value that goes up and down.
  package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
    metric(label, dimensions, .gauge) { PrometheusGauge() }
  }

  /// A value that goes up and down, or, aggregated, a distribution of them.
  package func makeRecorder(
    label: String, dimensions: [(String, String)], aggregate: Bool
  ) -> any RecorderHandler {
    aggregate
      ? histogram(label, dimensions)
      : metric(label, dimensions, .gauge) { PrometheusGauge() }
  }

  /// A distribution of durations, in seconds.
  package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
    histogram(label, dimensions)
  }

  // A series that disappears and comes back at zero would look like a restart: none ever goes.

  /// Does nothing.
  package func destroyCounter(_ handler: any CounterHandler) {}
  /// Does nothing.
  package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
  /// Does nothing.
  package func destroyMeter(_ handler: any MeterHandler) {}
  /// Does nothing.
  package func destroyRecorder(_ handler: any RecorderHandler) {}
  /// Does nothing.
  package func destroyTimer(_ handler: any TimerHandler) {}
}
