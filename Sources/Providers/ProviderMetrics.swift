import Metrics
import NIOCore
import Synchronization

/// What is counted of the providers. Handles are held: looking one up costs more than all the rest.
final class ProviderMetrics: Sendable {
  /// A counter with its labels, which come from closed lists: at most some hundred combinations.
  private struct Key: Hashable {
    var name = "push_bouncer_deliveries_total"
    let provider: Route.Provider
    var label = "outcome"
    let value: String
    let reason: Reason?

    init(_ provider: Route.Provider, _ outcome: String, _ reason: Reason?) {
      (self.provider, value, self.reason) = (provider, outcome, reason)
    }

    init(_ provider: Route.Provider, _ verdict: DeletionGuard.Verdict, _ reason: Reason) {
      self.init(provider, verdict.rawValue, reason)
      (name, label) = ("push_bouncer_deletion_verdicts_total", "verdict")
    }
  }

  /// One provider's.
  private struct Handles {
    let delivered: Counter
    let duration: Timer
    let connections: Gauge
    let tokens: Counter
  }

  /// No credential serves a push.
  private static let unconfigured = "unconfigured"

  private let factory: any MetricsFactory
  private let handles: [Route.Provider: Handles]
  private let counters = Mutex<[Key: Counter]>([:])
  private let connections = Mutex<[Route.Provider: Int]>([:])

  init(factory: any MetricsFactory = MetricsSystem.factory) {
    self.factory = factory
    handles = Dictionary(
      uniqueKeysWithValues: Route.Provider.allCases.map { provider in
        let labels = [("provider", provider.rawValue)]
        let handles = Handles(
          delivered: Self.counter(Key(provider, Outcome.delivered.label, nil), factory),
          duration: Timer(
            label: "push_bouncer_provider_request_duration_seconds", dimensions: labels, factory: factory),
          connections: Gauge(
            label: "push_bouncer_provider_connections", dimensions: labels, factory: factory),
          tokens: Counter(
            label: "push_bouncer_provider_tokens_minted_total", dimensions: labels, factory: factory))
        return (provider, handles)
      })
    for provider in Route.Provider.allCases { _ = counter(Key(provider, Self.unconfigured, nil)) }
  }

  /// Makes the counters of the outcomes that come up: what is there only after the first time does not count as an
  /// increase.
  func prepare(_ provider: Route.Provider) {
    for (label, reasons) in Outcome.usual(provider) {
      for reason in reasons { _ = counter(Key(provider, label, reason)) }
    }
  }

  /// A try has ended.
  func ended(_ provider: Route.Provider, _ outcome: Outcome, after duration: TimeAmount) {
    if case .delivered = outcome {
      handles[provider]?.delivered.increment()
    } else {
      counter(Key(provider, outcome.label, outcome.reason)).increment()
    }
    handles[provider]?.duration.recordNanoseconds(duration.nanoseconds)
  }

  /// No credential serves a push.
  func unconfigured(_ provider: Route.Provider) { counter(Key(provider, Self.unconfigured, nil)).increment() }

  /// A deletion guard has judged what was said of a token.
  func count(_ verdict: DeletionGuard.Verdict, on outcome: Outcome, of provider: Route.Provider) {
    switch outcome {
    case .dead(let reason, _), .suspect(let reason): counter(Key(provider, verdict, reason)).increment()
    case .delivered, .retry, .rejected, .misconfigured: break
    }
  }

  func connectionsChanged(_ provider: Route.Provider, by change: Int) {
    connections.withLock { connections in
      connections[provider, default: 0] += change
      handles[provider]?.connections.record(connections[provider, default: 0])
    }
  }

  /// A provider token or an access token was made.
  func minted(_ provider: Route.Provider) { handles[provider]?.tokens.increment() }

  private func counter(_ key: Key) -> Counter {
    counters.withLock { counters in
      if let counter = counters[key] { return counter }
      let counter = Self.counter(key, factory)
      counters[key] = counter
      return counter
    }
  }

  private static func counter(_ key: Key, _ factory: any MetricsFactory) -> Counter {
    Counter(
      label: key.name,
      dimensions: [
        ("provider", key.provider.rawValue), (key.label, key.value), ("reason", key.reason?.rawValue ?? ""),
      ], factory: factory)
  }
}
