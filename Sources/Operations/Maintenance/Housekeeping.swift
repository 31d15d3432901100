public import Foundation
public import Logging
public import Metrics
public import Registrations
internal import Sealing

/// What is done now and then, without anybody asking: expired registrations go
/// (`retention.expired_days`), so do old events, and the registrations are counted for the metrics.
public struct Housekeeping: Sendable {
  private static let interval = Duration.seconds(60)

  private let registrations: E2EERegistrations
  private let devices: Devices
  private let lease: MaintenanceLease
  private let retention: TimeInterval
  private let now: @Sendable () -> Date
  private let logger: Logger
  private let metrics: any MetricsFactory

  /// Prepares the work.
  public init(
    registrations: E2EERegistrations, devices: Devices, lease: MaintenanceLease,
    _ configuration: Configuration, now: @escaping @Sendable () -> Date, logger: Logger,
    metrics: any MetricsFactory = MetricsSystem.factory
  ) {
    self.registrations = registrations
    self.devices = devices
    self.lease = lease
    retention = TimeInterval(configuration.retention.expiredDays) * 86_400
    self.now = now
    self.logger = logger
    self.metrics = metrics
  }

  /// Works once a minute until its task is cancelled.
  public func run() async {
    while !Task.isCancelled {
      do {
        try await work()
      } catch {
        // The type names the fault; the text could hold a value.
        logger.warning("housekeeping failed", metadata: ["error": "\(type(of: error))"])
      }
      try? await Task.sleep(for: Self.interval)
    }
  }

  /// Does all of it once; what changes anything only on one node at a time.
  func work() async throws {
    if try await lease.claim(for: 150) { try await removeWhatIsOver() }
    for count in try await registrations.counts() {
      gauge(count.kind, "live").record(count.live)
      gauge(count.kind, "expired").record(count.expired)
    }
  }

  private func removeWhatIsOver() async throws {
    let limit = 1000
    var removed = 0
    repeat {
      removed = try await registrations.removeExpired(before: now() - retention, limit: limit)
      if removed > 0 { logger.info("expired registrations removed", metadata: ["count": "\(removed)"]) }
    } while removed == limit && !Task.isCancelled
    repeat {
      removed = try await devices.removeOldEvents(limit: limit)
    } while removed == limit && !Task.isCancelled
  }

  private func gauge(_ kind: PushToken.Kind, _ state: String) -> Gauge {
    Gauge(
      label: "push_bouncer_registrations",
      dimensions: [("kind", "e2ee"), ("provider", kind.rawValue), ("state", state)], factory: metrics)
  }
}
