import Delivery
import Foundation
import Operations
import Providers

extension PrometheusRegistry {
  /// Shows how the routes fare and what waits for them.
  func watch(_ deliverer: Deliverer, _ outbox: Outbox, now: @escaping @Sendable () -> Date) {
    gauges("push_bouncer_route_up") {
      deliverer.routeStates().map { route, state in
        switch state {
        case .unknown, .ok: .init(1, labels: route.labels)
        case .failing, .open: .init(0, labels: route.labels)
        }
      }
    }
    gauges("push_bouncer_breaker_open") {
      deliverer.routeStates().map { route, state in
        switch state {
        case .unknown, .ok, .failing: .init(0, labels: route.labels)
        case .open: .init(1, labels: route.labels)
        }
      }
    }
    gauges("push_bouncer_outbox_entries") { [.init(Double(outbox.count))] }
    gauges("push_bouncer_outbox_age_seconds") {
      guard let oldest = try? await outbox.oldest() else { return [.init(0)] }
      return [.init(max(0, now().timeIntervalSince(oldest)))]
    }
  }
}

extension Route {
  /// Bounded: credentials and their topics or projects are the operator's.
  fileprivate var labels: [(String, String)] {
    [("provider", provider.rawValue), ("credential", credential), ("target", target)]
  }
}
