import Basics
import CoreMetrics
import Foundation
import HTTP
import Logging
import Sealing

/// Watches for devices that get nothing although they are registered: notifications for them are signed with a key that
/// they are not registered with. The server has made new keys for its users, or somebody guesses device identifiers.
final class UnverifiedNotifications: Sendable {
  private static let hour = 3600.0
  /// How many notifications for a device in an hour are too many to be by accident.
  private static let suspicious = 3
  /// Maximum number of lines logged in an hour: anybody can send such notifications.
  private static let lines = 100

  private let logger: Logger
  /// By the hash of the identifier, which takes little memory and cannot be predicted.
  private let notifications: Rate<Int>
  private let devices: Rate<Int>
  private let logged: Rate<Bool>
  private let counter: Counter

  init(
    logger: Logger, now: @escaping @Sendable () -> Date, factory: any MetricsFactory = MetricsSystem.factory
  ) {
    self.logger = logger
    counter = Counter(label: "push_bouncer_nextcloud_devices_unverified_total", factory: factory)
    notifications = Rate(.init(calls: Self.suspicious - 1, seconds: Self.hour), now: now)
    devices = Rate(.init(calls: 1, seconds: Self.hour), now: now)
    logged = Rate(.init(calls: Self.lines, seconds: Self.hour), now: now)
    // Prometheus sees no increase in a counter that appears with its first value.
    counter.increment(by: 0)
  }

  /// Adds notifications that no key of their device verifies. Each device is counted and logged once an hour.
  func add(_ entries: [NotificationEntry]) {
    for entry in entries {
      let device = Bytes(entry.identifier).hashValue
      guard notifications.take(of: device) == 0, devices.take(of: device) == 1 else { continue }
      counter.increment()
      guard logged.take(of: true) == 1 else { continue }
      logger.warning(
        """
        notifications for a Nextcloud device fail: they are signed with a key that it is not registered with; \
        its app registers it again when it is opened
        """, metadata: ["device_identifier": "\(Base64.encode(entry.identifier))"])
    }
  }
}
