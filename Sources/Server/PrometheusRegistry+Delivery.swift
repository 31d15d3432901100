import Delivery
import Foundation
import NextcloudProxy
import NextcloudServer
import Operations
import Providers
import Registrations

extension PrometheusRegistry {
  /// Gauges of the routes' states and of the notifications that wait for them.
  func watch(
    _ deliverer: Deliverer, _ outbox: Outbox, _ pushServices: @escaping @Sendable () -> PushServices?,
    now: @escaping @Sendable () -> Date
  ) {
    gauges("push_bouncer_route_up") {
      let routes = deliverer.routeStates().map { route, state -> Sample in
        switch state {
        case .unknown, .ok: .init(1, labels: route.labels)
        case .failing, .open: .init(0, labels: route.labels)
        }
      }
      guard let services = pushServices() else { return routes }
      return routes + [.init(services.outage == nil ? 1 : 0, labels: Route.webPush.labels)]
    }
    gauges("push_bouncer_webpush_hosts") {
      guard let services = pushServices() else { return [] }
      return [
        .init(Double(services.working), labels: [("state", "working")]),
        .init(Double(services.failing), labels: [("state", "failing")]),
      ]
    }
    gauges("push_bouncer_webpush_waiting") {
      guard let services = pushServices() else { return [] }
      return [.init(Double(services.waiting))]
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
      Dictionary(grouping: deliverer.held) { Share(route: $0.route.counted, kind: $0.kind) }
        .map { share, doubts in
          .init(
            Double(doubts.map(\.held).reduce(0, +)),
            labels: share.route.labels + [("kind", "\(share.kind)")])
        }
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

/// What deaths are counted by.
private struct Share: Hashable {
  let route: Route
  let kind: RegistrationReference.Kind
}

extension Route {
  /// The labels are bounded: the operator sets the credentials with their topics and projects, and all of Web Push is
  /// one route.
  fileprivate var labels: [(String, String)] {
    [("provider", provider.rawValue), ("credential", credential), ("target", target)]
  }
}
