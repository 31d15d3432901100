import Metrics
import Providers
import Synchronization

/// Counts deliveries by provider, outcome and reason. Handles are made once per label set: making
/// one costs as much as a thousand increments.
final class DeliveryMetrics: Sendable {
  private struct Labels: Hashable {
    let provider: Route.Provider
    let outcome: String
    let reason: String
  }

  private let counters = Mutex<[Labels: Counter]>([:])

  /// Counts one; nil stands for a push that no credential serves.
  func count(_ push: Push, _ outcome: Outcome?) {
    let provider: Route.Provider =
      switch push {
      case .apns: .apns
      case .fcm: .fcm
      }
    let (name, reason) = outcome?.labels ?? ("unconfigured", "")
    let labels = Labels(provider: provider, outcome: name, reason: reason)
    let counter = counters.withLock { counters in
      if let counter = counters[labels] { return counter }
      let counter = Counter(
        label: "push_bouncer_deliveries_total",
        dimensions: [("provider", provider.rawValue), ("outcome", name), ("reason", reason)])
      counters[labels] = counter
      return counter
    }
    counter.increment()
  }
}

extension Outcome {
  /// The outcome and its reason as metric labels; both are from closed lists.
  fileprivate var labels: (String, String) {
    switch self {
    case .delivered: ("delivered", "")
    case .dead(let reason, _): ("dead", reason.description)
    case .suspect(let reason): ("suspect", reason.description)
    case .retry(let reason, _): ("retry", reason.description)
    case .rejected(let reason): ("rejected", reason.description)
    case .misconfigured(let reason): ("misconfigured", reason.description)
    }
  }
}
