import Foundation
import Metrics
import Providers
import Registrations

/// What is counted of notifications and registrations. Handles are held where there are many.
struct DeliveryMetrics: Sendable {
  private let factory: any MetricsFactory
  private let apns: Timer
  private let fcm: Timer
  private let webPush: Timer

  init(_ factory: any MetricsFactory) {
    self.factory = factory
    func waits(_ provider: Route.Provider) -> Timer {
      Timer(
        label: "push_bouncer_notify_to_accepted_seconds", dimensions: [("provider", provider.rawValue)],
        factory: factory)
    }
    (apns, fcm, webPush) = (waits(.apns), waits(.fcm), waits(.webPush))
    // What comes up for the first time would not count as an increase.
    for kind in RegistrationReference.Kind.allCases {
      for reason in Outcome.usuallyEnding { ended(kind, reason, by: 0) }
    }
  }

  /// A provider has accepted a notification, so many seconds after it was asked for.
  func accepted(_ provider: Route.Provider, after seconds: TimeInterval) {
    // No longer than a year: the clock may have been set meanwhile.
    let nanoseconds = Int64(max(0, min(seconds, 365 * 86_400)) * 1e9)
    let timer =
      switch provider {
      case .apns: apns
      case .fcm: fcm
      case .webPush: webPush
      }
    timer.recordNanoseconds(nanoseconds)
  }

  /// A registration has ended.
  func ended(_ kind: RegistrationReference.Kind, _ reason: Reason, by count: Int = 1) {
    Counter(
      label: "push_bouncer_registrations_ended_total",
      dimensions: [("kind", "\(kind)"), ("reason", "\(reason)")], factory: factory
    ).increment(by: count)
  }
}
