import Metrics
import NIOCore
import Synchronization

/// What the room counts. Handles are held: looking one up costs more than all the rest.
final class ProviderMetrics: Sendable {
  private struct Key: Hashable {
    let provider: Route.Provider
    let outcome: String
    let reason: Reason?
  }

  /// One provider's.
  private struct Handles {
    let duration: Timer
    let connections: Gauge
    let tokens: Counter

    init(_ provider: Route.Provider, _ factory: any MetricsFactory) {
      let labels = [("provider", provider.rawValue)]
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
  private let requests = Mutex<[Key: Counter]>([:])
  private let connections = Mutex<[Route.Provider: Int]>([:])

  init(factory: any MetricsFactory = MetricsSystem.factory) {
    self.factory = factory
    apns = Handles(.apns, factory)
    fcm = Handles(.fcm, factory)
  }

  /// A push has ended. The labels come from closed lists: at most some hundred combinations.
  func ended(_ provider: Route.Provider, _ outcome: Outcome, after duration: TimeAmount) {
    let key = Key(provider: provider, outcome: outcome.label, reason: outcome.reason)
    let counter = requests.withLock { requests in
      if let counter = requests[key] { return counter }
      let counter = Counter(
        label: "push_bouncer_provider_requests_total",
        dimensions: [
          ("provider", provider.rawValue), ("outcome", key.outcome), ("reason", key.reason?.rawValue ?? ""),
        ], factory: factory)
      requests[key] = counter
      return counter
    }
    counter.increment()
    self[provider].duration.recordNanoseconds(duration.nanoseconds)
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
    provider == .apns ? apns : fcm
  }
}
