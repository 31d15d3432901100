import Metrics
import Providers
import Synchronization

/// Counts what providers answer and what follows from it. Handles are made once per label set: making
/// one costs as much as a thousand increments.
final class DeliveryMetrics: Sendable {
  private struct Series: Hashable {
    let name: String
    let provider: Route.Provider
    let result: String
    let reason: String
  }

  private let counters = Mutex<[Series: Counter]>([:])

  /// Counts what the deletion guard made of an answer about a token.
  func count(_ verdict: DeletionGuard.Verdict, _ reason: Reason, on route: Route) {
    counter(
      "push_bouncer_deletion_verdicts_total", route.provider, "verdict", verdict.rawValue, reason.description
    ).increment()
  }

  private func counter(
    _ name: String, _ provider: Route.Provider, _ label: String, _ result: String, _ reason: String
  ) -> Counter {
    let series = Series(name: name, provider: provider, result: result, reason: reason)
    return counters.withLock { counters in
      if let counter = counters[series] { return counter }
      let counter = Counter(
        label: name, dimensions: [("provider", provider.rawValue), (label, result), ("reason", reason)])
      counters[series] = counter
      return counter
    }
  }
}
