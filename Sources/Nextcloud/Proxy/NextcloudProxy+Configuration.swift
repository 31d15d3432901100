public import Delivery
public import Foundation
public import Logging
public import Registrations
public import Wire

extension NextcloudProxy {
  /// What the operator decides.
  public struct Configuration: Sendable {
    /// `nextcloud.apps_file`
    public var apps: NextcloudApps
    /// `nextcloud.rate_limit.per_address`
    public var rateLimitPerAddress: RateLimit?
    /// `nextcloud.new_devices_per_address`
    public var newDevicesPerAddress: RateLimit?
    /// Notifications of a device that are sent at once, the rest at that pace. What FCM takes for one in a minute.
    public var notificationsPerDevice: RateLimit?
    /// `nextcloud.deadline`
    public var deadline: Duration
    /// `http.max_body_bytes`
    public var maximumBodyBytes: Int
    /// The same for `/notifications`.
    public var maximumNotificationsBytes: Int
    /// How many notifications one request may have.
    public var maximumNotifications: Int

    /// The defaults.
    public init() {
      apps = NextcloudApps()
      rateLimitPerAddress = RateLimit(calls: 6000, seconds: 60)
      newDevicesPerAddress = RateLimit(calls: 1000, seconds: 3600)
      notificationsPerDevice = RateLimit(calls: 240, seconds: 60)
      deadline = .seconds(3)
      maximumBodyBytes = 1 << 20
      maximumNotificationsBytes = 16 << 20
      maximumNotifications = 20_000
    }
  }

  /// What it works with.
  public struct Dependencies: Sendable {
    /// The devices.
    public var devices: NextcloudDevices
    /// What deliveries find out about them.
    public var book: RegistrationBook
    /// Sends notifications.
    public var deliverer: Deliverer
    /// Which store was last served.
    public var memory: StoreMemory
    /// The service's clock.
    public var now: @Sendable () -> Date
    /// Whether anything may be called over now: not while the clock is doubted.
    public var mayExpire: @Sendable () -> Bool
    /// For what concerns no single request.
    public var logger: Logger

    /// What it works with.
    public init(
      devices: NextcloudDevices, book: RegistrationBook, deliverer: Deliverer, memory: StoreMemory,
      now: @escaping @Sendable () -> Date, mayExpire: @escaping @Sendable () -> Bool = { true },
      logger: Logger
    ) {
      self.devices = devices
      self.book = book
      self.deliverer = deliverer
      self.memory = memory
      self.now = now
      self.mayExpire = mayExpire
      self.logger = logger
    }
  }
}
