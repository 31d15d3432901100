package import Foundation
internal import HTTP
package import Logging
package import Providers
package import Registrations
internal import SQL
package import Sealing
internal import Timing

/// Sends a Nextcloud user's notifications to the proxies of the user's phones, and again to those that were away:
/// durably, until they are too old (`Documentation/Protocols/Nextcloud.md` 6, `Documentation/Decisions` 0022). Those with
/// a subscription to Web Push get them from its push service instead.
package final class NextcloudSender: Sendable {
  /// How it is set up.
  package struct Configuration: Sendable {
    /// `nextcloud.padding`
    package var padding: RSAPadding
    /// `nextcloud.default_proxy`: may have any address. Asked for at each call, as this service's own may be
    /// known only when it listens.
    package var defaultProxy: @Sendable () -> String
    /// `nextcloud.allow_local_proxies`: so may all the others.
    package var allowsLocalProxies: Bool
    /// `nextcloud.subscription_server`
    package var subscriptionServer: String
    /// `nextcloud.subscription_key`, which goes to that server alone.
    package var subscriptionKey: String?
    /// `delivery.deadline`: what a proxy has not answered by then is queued.
    package var deadline: Duration
    /// `delivery.max_age` in seconds: what no proxy has taken by then is given up.
    package var maximumAge: TimeInterval
    /// How long a proxy may take to answer, as long as Nextcloud waits.
    package var timeout = Duration.seconds(30)

    /// A configuration by its parts.
    package init(
      padding: RSAPadding, defaultProxy: @escaping @Sendable () -> String, allowsLocalProxies: Bool,
      subscriptionServer: String,
      subscriptionKey: String?, deadline: Duration, maximumAge: TimeInterval
    ) {
      self.padding = padding
      self.defaultProxy = defaultProxy
      self.allowsLocalProxies = allowsLocalProxies
      self.subscriptionServer = subscriptionServer
      self.subscriptionKey = subscriptionKey
      self.deadline = deadline
      self.maximumAge = maximumAge
    }
  }

  /// What it works with.
  package struct Dependencies: Sendable {
    /// Users' key pairs.
    package var keys: NextcloudKeys
    /// Their phones.
    package var registrations: NextcloudRegistrations
    /// What they have been sent.
    package var notifications: NextcloudNotifications
    /// What no proxy has taken yet.
    package var pushes: NextcloudPushes
    /// The way to those who need no proxy.
    package var webPush: NextcloudWebPush
    /// The way to the proxies.
    package var client: OutgoingClient
    /// The proxy that is part of this program, if there is one.
    package var ownProxy: OwnProxy?
    /// The service's clock.
    package var now: @Sendable () -> Date

    /// What it works with.
    package init(
      keys: NextcloudKeys, registrations: NextcloudRegistrations, notifications: NextcloudNotifications,
      pushes: NextcloudPushes, webPush: NextcloudWebPush, client: OutgoingClient, ownProxy: OwnProxy? = nil,
      now: @escaping @Sendable () -> Date
    ) {
      self.keys = keys
      self.registrations = registrations
      self.notifications = notifications
      self.pushes = pushes
      self.webPush = webPush
      self.client = client
      self.ownProxy = ownProxy
      self.now = now
    }
  }

  /// A proxy that is called without a wire.
  package struct OwnProxy: Sendable {
    /// What phones call it; asked for at each call.
    let address: @Sendable () -> String
    /// Takes entries.
    let notify: @Sendable (_ entries: [String]) async -> ProxyAnswer

    /// A proxy by its parts.
    package init(
      address: @escaping @Sendable () -> String,
      notify: @escaping @Sendable (_ entries: [String]) async -> ProxyAnswer
    ) {
      self.address = address
      self.notify = notify
    }
  }

  /// Pushes in one request; more than any user's phones want at a time.
  private static let maximumPerRequest = 1000

  let configuration: Configuration
  let dependencies: Dependencies
  let proxies: ProxyClient
  let logger: Logger
  /// The proxies that this node is sending to from the queue.

  /// A sender by its parts.
  package init(configuration: Configuration, dependencies: Dependencies, logger: Logger) {
    self.configuration = configuration
    self.dependencies = dependencies
    proxies = ProxyClient(
      client: dependencies.client, own: dependencies.ownProxy, configuration: configuration)
    self.logger = logger
  }

  /// Keeps a notification for a user, or takes some back, and tells the user's phones that it is for; each
  /// proxy gets one request, all at once.
  ///
  /// No phone is left out for its age: when an app password was last used is not kept, and phones that are
  /// gone are found out by their proxies.
  ///
  /// - Parameter appPassword: of the phone that has asked for it, and is not told.
  /// - Throws: the database's error if something could be neither sent nor queued: nothing is promised then.
  package func notify(
    _ user: User, _ message: NextcloudMessage, except appPassword: Int64? = nil
  ) async throws -> NextcloudReceipt {
    // Kept before anybody is told of it, and forgotten after everybody was: whatever ends this in between,
    // to do it again does it.
    switch message {
    case .notification(let notification):
      try await dependencies.notifications.keep(notification, user: user.id)
      return try await push(message, to: user, except: appPassword)
    case .deletion, .deletionOfAll:
      let receipt = try await push(message, to: user, except: appPassword)
      try await dependencies.notifications.forget(message.deleted, user: user.id)
      return receipt
    }
  }

  private func push(
    _ message: NextcloudMessage, to user: User, except appPassword: Int64?
  ) async throws -> NextcloudReceipt {
    async let subscriptions = dependencies.webPush.subscriptions(of: user.id)
    let phones = try await dependencies.registrations.all(of: user.id)
    let direct = try await subscriptions
    guard !phones.isEmpty || !direct.isEmpty else { return NextcloudReceipt() }
    let apps = try await apps(of: message, user)
    async let sent = dependencies.webPush.send(message, apps: apps, to: direct, except: appPassword)
    // Whoever is told without a proxy is not told again by one.
    let told = Set(direct.compactMap(\.holder.appPassword) + [appPassword].compactMap(\.self))
    var receipt = try await pushToProxies(message, apps, to: user, phones, except: told)
    let services = try await sent
    receipt.add(devices: services.devices, services.services.values)
    return receipt
  }

  private func pushToProxies(
    _ message: NextcloudMessage, _ apps: [Int64: String], to user: User, _ phones: [NextcloudRegistration],
    except told: Set<Int64>
  ) async throws -> NextcloudReceipt {
    guard !phones.isEmpty else { return NextcloudReceipt() }
    let maker = PushMaker(
      padding: configuration.padding, userKey: try await dependencies.keys.key(of: user.id))
    let made = await maker.pushes(of: message, apps: apps, to: phones, except: told)
    if !made.broken.isEmpty {
      let count = try await dependencies.registrations.forget(made.broken.map { ($0.id, $0.registeredAt) })
      logger.notice(
        "Nextcloud phones removed: their keys are not valid", metadata: ["count": .stringConvertible(count)])
    }
    var receipt = NextcloudReceipt(devices: made.devices)
    receipt.proxies = try await sendAll(try await supersede(message, user, made.pushes))
    return receipt
  }

  /// The apps of what is taken back, where they are not told.
  private func apps(of message: NextcloudMessage, _ user: User) async throws -> [Int64: String] {
    guard case .deletion(let nids, nil) = message else { return [:] }
    return try await dependencies.notifications.apps(of: nids, user: user.id)
  }

  /// Drops what a deletion makes idle, before it is sent.
  private func supersede(
    _ message: NextcloudMessage, _ user: User, _ pushes: [NextcloudPush]
  ) async throws -> [NextcloudPush] {
    if case .notification = message { return pushes }
    return try await dependencies.pushes.supersede(
      message.deleted, of: user.id, by: pushes, dueAt: leaseEnd,
      expiresAt: dependencies.now() + configuration.maximumAge)
  }

  private func sendAll(_ pushes: [NextcloudPush]) async throws -> [NextcloudReceipt.Proxy] {
    try await withThrowingTaskGroup(of: NextcloudReceipt.Proxy.self) { group in
      for (proxy, pushes) in Dictionary(grouping: pushes, by: \.proxy) {
        for start in stride(from: 0, to: pushes.count, by: Self.maximumPerRequest) {
          let batch = Array(pushes[start..<min(start + Self.maximumPerRequest, pushes.count)])
          group.addTask { try await self.send(batch, to: proxy) }
        }
      }
      var all: [String: NextcloudReceipt.Proxy] = [:]
      for try await part in group { all[part.url, default: .init(url: part.url)].add(part) }
      return all.values.sorted { $0.url < $1.url }
    }
  }

  private func send(_ batch: [NextcloudPush], to proxy: String) async throws -> NextcloudReceipt.Proxy {
    let exchange = Task { await proxies.post(batch.map(\.entry), to: proxy) }
    if let answer = await exchange.value(within: configuration.deadline) {
      return try await settle(batch, answer)
    }
    // The proxy may still answer. Until then what was sent is under lease, and nobody sends it twice.
    let kept = try await keep(batch, dueAt: leaseEnd)
    Task {
      do {
        _ = try await settle(kept, await exchange.value)
      } catch {
        // The lease runs out, and somebody tries again.
        logger.error(
          "a proxy's answer could not be acted on", metadata: ["error": "\(DatabaseError.name(of: error))"])
      }
    }
    return .init(url: proxy, failed: batch.count - kept.count, queued: kept.count)
  }

  /// When pushes that are under way may be taken over: after every request has ended.
  var leaseEnd: Date { dependencies.now() + Double(configuration.timeout.components.seconds) + 10 }
}
