import Delivery
import Foundation
import Operator
import Platform
import Providers
import Registrations

extension [PolledGauge] {
  /// The routes' states, and the waiting notifications.
  static func delivery(
    _ deliverer: Deliverer, _ outbox: Outbox, _ pushServices: @escaping @Sendable () -> PushServices?,
    now: @escaping @Sendable () -> Date
  ) -> [PolledGauge] {
    [
      PolledGauge("push_bouncer_route_up") {
        let routes = deliverer.routeStates().map { route, state -> PolledGauge.Sample in
          switch state {
          case .unknown, .ok: .init(1, labels: route.labels)
          case .failing, .open: .init(0, labels: route.labels)
          }
        }
        guard let services = pushServices() else { return routes }
        return routes + [.init(services.outage == nil ? 1 : 0, labels: Route.webPush.labels)]
      },
      PolledGauge("push_bouncer_webpush_hosts") {
        guard let services = pushServices() else { return [] }
        return [
          .init(Double(services.working), labels: [("state", "working")]),
          .init(Double(services.failing), labels: [("state", "failing")]),
        ]
      },
      .single("push_bouncer_webpush_waiting") { pushServices().map { Double($0.waiting) } },
      PolledGauge("push_bouncer_breaker_open") {
        deliverer.routeStates().map { route, state in
          let isOpen = if case .open = state { true } else { false }
          return .init(isOpen ? 1 : 0, labels: route.labels)
        }
      },
      PolledGauge("push_bouncer_route_doubted") {
        deliverer.doubts().map { .init(1, labels: $0.route.labels + [("kind", "\($0.wire)")]) }
      },
      PolledGauge("push_bouncer_held_deletions") {
        Dictionary(grouping: deliverer.held) { Share(route: $0.route.counted, wire: $0.wire) }
          .map { share, doubts in
            .init(
              Double(doubts.map(\.held).reduce(0, +)),
              labels: share.route.labels + [("kind", "\(share.wire)")])
          }
      },
      .single("push_bouncer_late_answers_pending") { Double(deliverer.lateAnswerCount) },
      .single("push_bouncer_outbox_entries") { Double(outbox.count) },
      .single("push_bouncer_outbox_age_seconds") {
        try await outbox.oldest().map { Swift.max(0, now().timeIntervalSince($0)) } ?? 0
      },
      .single("push_bouncer_outbox_late_seconds") {
        try await outbox.oldestLate().map { Swift.max(0, now().timeIntervalSince($0)) } ?? 0
      },
    ]
  }
}

/// The labels by which deletions held back are counted.
private struct Share: Hashable {
  let route: Route
  let wire: Wire
}

extension Route {
  /// The number of label values is bounded: the operator sets credentials, topics and projects, and all of
  /// Web Push counts as one route.
  fileprivate var labels: [(String, String)] {
    [("provider", provider.rawValue), ("credential", credential), ("target", target)]
  }
}
