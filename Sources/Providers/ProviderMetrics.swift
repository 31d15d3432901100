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

    static func unconfigured(_ provider: Route.Provider) -> Key {
      Key(provider: provider, value: "unconfigured", reason: nil)
    }

    func counter(_ factory: any MetricsFactory) -> Counter {
      Counter(
        label: name,
        dimensions: [("provider", provider.rawValue), (label, value), ("reason", reason?.rawValue ?? "")],
        factory: factory)
    }
  }

  /// One provider's.
  private struct Handles {
    let delivered: Counter
    let duration: Timer
    let connections: Gauge
    let tokens: Counter

    init(_ provider: Route.Provider, _ factory: any MetricsFactory) {
      let labels = [("provider", provider.rawValue)]
      delivered = Key(provider: provider, value: Outcome.delivered.label, reason: nil).counter(factory)
      duration = Timer(
        label: "push_bouncer_provider_request_duration_seconds", dimensions: labels, factory: factory)
      connections = Gauge(label: "push_bouncer_provider_connections", dimensions: labels, factory: factory)
      tokens = Counter(
        label: "push_bouncer_provider_tokens_minted_total", dimensions: labels, factory: factory)
    }
  }

  private let factory: any MetricsFactory
  private let apns: Handles
  private let fcm: Handles
  private let webPush: Handles
  private let counters = Mutex<[Key: Counter]>([:])
  private let connections = Mutex<[Route.Provider: Int]>([:])

  init(factory: any MetricsFactory = MetricsSystem.factory) {
    self.factory = factory
    apns = Handles(.apns, factory)
    fcm = Handles(.fcm, factory)
    webPush = Handles(.webPush, factory)
    for provider in [Route.Provider.apns, .fcm, .webPush] {
      let key = Key.unconfigured(provider)
      counters.withLock { $0[key] = key.counter(factory) }
    }
  }

  /// Makes the counters of the outcomes that come up: what is there only after the first time does not count as an
  /// increase.
  func prepare(_ provider: Route.Provider) {
    for outcome in Outcome.usual(provider) {
      let key = Key(provider: provider, value: outcome.label, reason: outcome.reason)
      counters.withLock { $0[key] = $0[key] ?? key.counter(factory) }
    }
  }

  /// A try has ended.
  func ended(_ provider: Route.Provider, _ outcome: Outcome, after duration: TimeAmount) {
    let handles = self[provider]
    if case .delivered = outcome {
      handles.delivered.increment()
    } else {
      count(Key(provider: provider, value: outcome.label, reason: outcome.reason))
    }
    handles.duration.recordNanoseconds(duration.nanoseconds)
  }

  /// No credential serves a push.
  func unconfigured(_ provider: Route.Provider) {
    count(.unconfigured(provider))
  }

  /// A deletion guard has judged what was said of a token.
  func count(_ verdict: DeletionGuard.Verdict, on outcome: Outcome, of provider: Route.Provider) {
    switch outcome {
    case .dead(let reason, _), .suspect(let reason):
      count(
        Key(
          name: "push_bouncer_deletion_verdicts_total", provider: provider, label: "verdict",
          value: verdict.rawValue, reason: reason))
    case .delivered, .retry, .rejected, .misconfigured: break
    }
  }

  private func count(_ key: Key) {
    let counter = counters.withLock { counters in
      if let counter = counters[key] { return counter }
      let counter = key.counter(factory)
      counters[key] = counter
      return counter
    }
    counter.increment()
  }

  /// Connections were opened or closed.
  func connectionsChanged(_ provider: Route.Provider, by change: Int) {
    connections.withLock { connections in
      connections[provider, default: 0] += change
      self[provider].connections.record(connections[provider, default: 0])
    }
  }

  /// A provider token or an access token was made.
  func minted(_ provider: Route.Provider) {
    self[provider].tokens.increment()
  }

  private subscript(provider: Route.Provider) -> Handles {
    switch provider {
    case .apns: apns
    case .fcm: fcm
    case .webPush: webPush
    }
  }
}
