import Delivery
import Foundation
import NextcloudProxy
import NextcloudServer
import Operations
import Providers

extension PrometheusRegistry {
  /// Gauges of the routes' states and of the notifications that wait for them.
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
    gauges("push_bouncer_route_doubted") {
      deliverer.doubts().map { .init(1, labels: $0.route.labels + [("kind", "\($0.kind)")]) }
    }
    gauges("push_bouncer_held_deaths") {
      deliverer.held.map { .init(Double($0.held), labels: $0.route.labels + [("kind", "\($0.kind)")]) }
    }
    gauges("push_bouncer_late_answers_pending") { [.init(Double(deliverer.lateAnswerCount))] }
    gauges("push_bouncer_outbox_entries") { [.init(Double(outbox.count))] }
    gauges("push_bouncer_outbox_age_seconds") {
      guard let oldest = try await outbox.oldest() else { return [.init(0)] }
      return [.init(max(0, now().timeIntervalSince(oldest)))]
    }
    gauges("push_bouncer_outbox_late_seconds") {
      guard let oldest = try await outbox.oldestLate() else { return [.init(0)] }
      return [.init(max(0, now().timeIntervalSince(oldest)))]
    }
  }
}

extension PrometheusRegistry {
  /// Gauges of the Nextcloud proxy's devices and of the pushes that its server side has yet to send.
  func watch(_ nextcloud: NextcloudAdapter) {
    gauges("push_bouncer_nextcloud_devices") {
      try await nextcloud.devices.counts().map {
        .init(Double($0.devices), labels: [("app", $0.app), ("kind", "\($0.kind)")])
      }
    }
    gauges("push_bouncer_nextcloud_devices_failing") {
      try await nextcloud.devices.counts().flatMap { count in
        count.failures.map { reason, number in
          .init(
            Double(number), labels: [("app", count.app), ("kind", "\(count.kind)"), ("reason", reason)])
        }
      }
    }
    gauges("push_bouncer_nextcloud_registrations") {
      [.init(Double(try await nextcloud.registrations.count()))]
    }
    gauges("push_bouncer_nextcloud_pushes_pending") {
      [.init(Double(try await nextcloud.pushes.count()))]
    }
  }
}

extension Route {
  /// The labels are bounded: the operator sets the credentials with their topics and projects.
  fileprivate var labels: [(String, String)] {
    [("provider", provider.rawValue), ("credential", credential), ("target", target)]
  }
}
