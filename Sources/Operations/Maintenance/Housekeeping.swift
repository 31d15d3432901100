public import Foundation
public import Logging
public import Metrics
public import Registrations
internal import Sealing

/// What is done now and then, without anybody asking: expired registrations go
/// (`retention.expired_days`), so do old events and legacy registrations of devices that have moved on,
/// and the registrations are counted for the metrics.
public struct Housekeeping: Sendable {
  private static let interval = Duration.seconds(60)

  /// Stretches of legacy registrations that are swept at a time: a hundred thousand rows.
  private static let stretches = 50

  private let registrations: E2EERegistrations
  private let legacy: LegacyRegistrations
  private let devices: Devices
  private let lease: MaintenanceLease
  private let retention: TimeInterval
  private let now: @Sendable () -> Date
  private let logger: Logger
  private let metrics: any MetricsFactory

  /// Prepares the work.
  public init(
    registrations: E2EERegistrations, legacy: LegacyRegistrations, devices: Devices, lease: MaintenanceLease,
    _ configuration: Configuration, now: @escaping @Sendable () -> Date, logger: Logger,
    metrics: any MetricsFactory = MetricsSystem.factory
  ) {
    self.registrations = registrations
    self.legacy = legacy
    self.devices = devices
    self.lease = lease
    retention = TimeInterval(configuration.retention.expiredDays) * 86_400
    self.now = now
    self.logger = logger
    self.metrics = metrics
  }

  /// Works once a minute until its task is cancelled.
  public func run() async {
    var sweep = Sweep()
    while !Task.isCancelled {
      do {
        try await work(&sweep)
      } catch {
        // The type names the fault; the text could hold a value.
        logger.warning("housekeeping failed", metadata: ["error": "\(type(of: error))"])
      }
      try? await Task.sleep(for: Self.interval)
    }
  }

  /// Does all of it once; what changes anything only on one node at a time.
  func work(_ sweep: inout Sweep) async throws {
    if try await lease.claim(for: 150) {
      try await removeWhatIsOver()
      try await removeSuperseded(&sweep)
    }
    for count in try await registrations.counts() {
      gauge("e2ee", count.kind, "live").record(count.live)
      gauge("e2ee", count.kind, "expired").record(count.expired)
    }
    for (kind, count) in try await legacy.counts() { gauge("legacy", kind, "live").record(count) }
  }

  /// How far the legacy registrations have been looked through; at their end it begins anew.
  struct Sweep {
    var last: Int64 = 0
    var removed = 0
  }

  private func removeSuperseded(_ sweep: inout Sweep) async throws {
    for _ in 0..<Self.stretches where !Task.isCancelled {
      let (removed, last) = try await legacy.sweep(after: sweep.last)
      sweep.removed += removed
      sweep.last = last ?? 0
      guard last == nil else { continue }
      if sweep.removed > 0 {
        logger.info(
          "legacy registrations removed: their devices have end-to-end encrypted ones",
          metadata: ["count": "\(sweep.removed)"])
      }
      sweep.removed = 0
      return
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

  private func gauge(_ name: String, _ kind: PushToken.Kind, _ state: String) -> Gauge {
    Gauge(
      label: "push_bouncer_registrations",
      dimensions: [("kind", name), ("provider", kind.rawValue), ("state", state)], factory: metrics)
  }
}
