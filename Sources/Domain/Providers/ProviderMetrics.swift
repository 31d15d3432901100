import HTTPClient
import Metrics
import NIOCore
import Synchronization

/// The metrics of the providers. Counters are kept once looked up: the lookup costs more than the rest of
/// counting.
final class ProviderMetrics: Sendable {
  /// A counter with its labels, which come from closed lists: at most some hundred combinations.
  private struct Key: Hashable {
    let provider: Route.Provider
    let outcome: String
    let reason: Reason?

    init(_ provider: Route.Provider, _ outcome: String, _ reason: Reason?) {
      self.provider = provider
      self.outcome = outcome
      self.reason = reason
    }
  }

  /// The metrics of one provider.
  private struct Handles {
    let delivered: Counter
    let duration: Timer
    let connections: Gauge
    let tokens: Counter
  }

  /// The outcome label of pushes that no credential serves.
  private static let unconfigured = "unconfigured"

  private let factory: any MetricsFactory
  private let handles: [Route.Provider: Handles]
  private let counters = Mutex<[Key: Counter]>([:])
  private let connections = Mutex<[Route.Provider: Int]>([:])
  private let keyExchanges: KeyExchangeMetrics
  private let latest = Mutex<[Route.Provider: KeyExchange]>([:])

  init(factory: any MetricsFactory = MetricsSystem.factory) {
    self.factory = factory
    keyExchanges = KeyExchangeMetrics(legs: Route.Provider.allCases.map(\.rawValue), factory: factory)
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

  /// Makes the counters of the usual outcomes with the value 0: Prometheus sees no increase in a counter that
  /// appears with its first event.
  func prepare(_ provider: Route.Provider) {
    for (label, reasons) in Outcome.usual(provider) {
      for reason in reasons { _ = counter(Key(provider, label, reason)) }
    }
  }

  /// Counts an attempt to send and its duration.
  func ended(_ provider: Route.Provider, _ outcome: Outcome, after duration: TimeAmount) {
    let handles = handles[provider]
    if case .delivered = outcome {
      handles?.delivered.increment()
    } else {
      counter(Key(provider, outcome.label, outcome.reason)).increment()
    }
    handles?.duration.recordNanoseconds(duration.nanoseconds)
  }

  /// Counts a push that no credential serves.
  func unconfigured(_ provider: Route.Provider) { counter(Key(provider, Self.unconfigured, nil)).increment() }

  func connectionsChanged(_ provider: Route.Provider, by change: Int) {
    connections.withLock { connections in
      connections[provider, default: 0] += change
      handles[provider]?.connections.record(connections[provider, default: 0])
    }
  }

  /// Counts the key exchange of a new connection.
  func connected(_ provider: Route.Provider, by keyExchange: KeyExchange) {
    keyExchanges.count(keyExchange, on: provider.rawValue)
    latest.withLock { $0[provider] = keyExchange }
  }

  /// The key exchange of the latest connection.
  func keyExchange(_ provider: Route.Provider) -> KeyExchange? { latest.withLock { $0[provider] } }

  /// Counts a new provider token (APNs) or access token (FCM).
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
      label: "push_bouncer_delivery_attempts_total",
      dimensions: [
        ("provider", key.provider.rawValue), ("outcome", key.outcome), ("reason", key.reason?.rawValue ?? ""),
      ], factory: factory)
  }
}
