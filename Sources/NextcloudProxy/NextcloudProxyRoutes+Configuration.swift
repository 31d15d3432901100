package import Delivery
package import Foundation
package import HTTP
package import Logging
package import Registrations

extension NextcloudProxyRoutes {
  /// What the operator decides.
  package struct Configuration: Sendable {
    /// `nextcloud.apps_file`
    package var apps: NextcloudApps
    /// `nextcloud.rate_limit.per_address`
    package var rateLimitPerAddress: RateLimit?
    /// `nextcloud.new_devices_per_address`
    package var newDevicesPerAddress: RateLimit?
    /// Notifications of a device that are sent at once, the rest at that pace. What FCM takes for one in a minute.
    var notificationsPerDevice: [RateLimit]
    /// `nextcloud.deadline`
    package var deadline: Duration
    /// `http.max_body_bytes`
    package var maximumBodyBytes: Int
    /// The same for `/notifications`.
    package var maximumNotificationsBytes: Int
    /// How many notifications one request may have.
    var maximumNotifications: Int

    /// The defaults.
    package init() {
      apps = NextcloudApps()
      rateLimitPerAddress = RateLimit(calls: 6000, seconds: 60)
      newDevicesPerAddress = RateLimit(calls: 1000, seconds: 3600)
      notificationsPerDevice = [
        RateLimit(calls: 240, seconds: 60), RateLimit(calls: 5000, seconds: 3600),
      ]
      deadline = .seconds(3)
      maximumBodyBytes = 1 << 20
      maximumNotificationsBytes = 16 << 20
      maximumNotifications = 20_000
    }
  }

  /// What it works with.
  package struct Dependencies: Sendable {
    /// The devices.
    package var devices: NextcloudDevices
    /// What deliveries find out about them.
    package var recorder: OutcomeRecorder
    /// Sends notifications.
    package var deliverer: Deliverer
    /// Which store was last served.
    package var lossDetector: StoreLossDetector
    /// The service's clock.
    package var now: @Sendable () -> Date
    /// Whether anything may be taken as expired now: not while the clock is doubted.
    package var mayExpire: @Sendable () -> Bool
    /// For what concerns no single request.
    package var logger: Logger

    /// What it works with.
    package init(
      devices: NextcloudDevices, recorder: OutcomeRecorder, deliverer: Deliverer,
      lossDetector: StoreLossDetector,
      now: @escaping @Sendable () -> Date, mayExpire: @escaping @Sendable () -> Bool = { true },
      logger: Logger
    ) {
      self.devices = devices
      self.recorder = recorder
      self.deliverer = deliverer
      self.lossDetector = lossDetector
      self.now = now
      self.mayExpire = mayExpire
      self.logger = logger
    }
  }
}
