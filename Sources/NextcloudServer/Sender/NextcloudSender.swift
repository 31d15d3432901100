package import Foundation
internal import HTTP
package import Logging
package import NextcloudProxy
package import Providers
package import Registrations
package import SQL
package import Sealing
internal import Timing

/// Sends a Nextcloud user's notifications to the proxies of the user's phones, and again to those that were away:
/// durably, until they are too old (`Documentation/Protocols/Nextcloud.md` 6, `Documentation/Decisions` 0022). Those with
/// a subscription to Web Push get them from its push service instead.
package final class NextcloudSender: Sendable {
  /// The proxies that pushes go to.
  package struct Proxies: Sendable {
    /// The proxy that is part of this program, and what phones call it; asked for at each call, as the address may be
    /// known only when this service listens.
    let own: PushProxy
    let ownAddress: @Sendable () -> String
    /// `nextcloud.default_proxy`, else this program's own.
    let standard: String?
    /// `nextcloud.allow_local_proxies`: phones may name any `http` or `https` URL.
    let allowsLocal: Bool
    /// `nextcloud.subscription_server` and `nextcloud.subscription_key`, which goes to that server alone.
    let subscriptionServer: String
    let subscriptionKey: String?
    /// The way to them.
    let client: OutgoingClient

    package init(
      own: PushProxy, ownAddress: @escaping @Sendable () -> String, standard: String?, allowsLocal: Bool,
      subscriptionServer: String, subscriptionKey: String?, client: OutgoingClient
    ) {
      self.own = own
      self.ownAddress = ownAddress
      self.standard = standard
      self.allowsLocal = allowsLocal
      self.subscriptionServer = subscriptionServer
      self.subscriptionKey = subscriptionKey
      self.client = client
    }

    /// The proxy of phones that name none; it may have any address.
    func standardAddress() -> String { standard ?? ownAddress() }
  }

  /// Pushes in one request; more than any user's phones want at a time.
  private static let maximumPerRequest = 1000
  /// How many seconds a proxy may take to answer, as long as Nextcloud waits.
  static let timeout = 30.0

  let padding: RSAPadding
  let proxies: Proxies
  /// `delivery.deadline`: what a proxy has not answered by then is queued.
  let deadline: Duration
  /// `delivery.max_age` in seconds: what no proxy has taken by then is given up.
  let maximumAge: TimeInterval

  let keys: NextcloudKeys
  let notifications: NextcloudNotifications
  let webPush: NextcloudWebPush
  let now: @Sendable () -> Date
  let logger: Logger
  package let registrations: NextcloudRegistrations
  package let pushes: NextcloudPushes

  /// - Parameters:
  ///   - padding: `nextcloud.padding`
  ///   - mayExpire: whether anything may be taken as expired now: not while the clock is doubted.
  package init(
    padding: RSAPadding, proxies: Proxies, webPush: NextcloudWebPush, deadline: Duration,
    maximumAge: TimeInterval, database: any Database, storageKey: StorageKey,
    now: @escaping @Sendable () -> Date, mayExpire: @escaping @Sendable () -> Bool, logger: Logger
  ) {
    self.padding = padding
    self.proxies = proxies
    self.webPush = webPush
    self.deadline = deadline
    self.maximumAge = maximumAge
    self.now = now
    self.logger = logger
    keys = NextcloudKeys(database: database, storageKey: storageKey, now: now)
    notifications = NextcloudNotifications(database: database, storageKey: storageKey, now: now)
    registrations = NextcloudRegistrations(database: database, now: now)
    pushes = NextcloudPushes(database: database, now: now, mayExpire: mayExpire)
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
      try await notifications.keep(notification, user: user.id)
      return try await push(message, to: user, except: appPassword)
    case .deletion, .deletionOfAll:
      let receipt = try await push(message, to: user, except: appPassword)
      try await notifications.forget(message.deleted, user: user.id)
      return receipt
    }
  }

  private func push(
    _ message: NextcloudMessage, to user: User, except appPassword: Int64?
  ) async throws -> NextcloudReceipt {
    async let subscriptions = webPush.subscriptions(of: user.id)
    let phones = try await registrations.all(of: user.id)
    let direct = try await subscriptions
    guard !phones.isEmpty || !direct.isEmpty else { return NextcloudReceipt() }
    let apps: [Int64: String] =
      if case .deletion(let nids, nil) = message {
        try await notifications.apps(of: nids, user: user.id)
      } else { [:] }
    async let sent = webPush.send(message, apps: apps, to: direct, except: appPassword)
    // Whoever is told without a proxy is not told again by one.
    let told = Set(direct.compactMap(\.holder.appPassword) + [appPassword].compactMap(\.self))
    var receipt = try await pushToProxies(message, apps, to: user, phones, except: told)
    receipt.add(try await sent)
    return receipt
  }

  private func pushToProxies(
    _ message: NextcloudMessage, _ apps: [Int64: String], to user: User, _ phones: [NextcloudRegistration],
    except told: Set<Int64>
  ) async throws -> NextcloudReceipt {
    guard !phones.isEmpty else { return NextcloudReceipt() }
    let maker = PushMaker(padding: padding, userKey: try await keys.key(of: user.id))
    let made = await maker.pushes(of: message, apps: apps, to: phones, except: told)
    if !made.broken.isEmpty {
      let count = try await registrations.forget(made.broken.map { ($0.id, $0.registeredAt) })
      logger.notice(
        "Nextcloud phones removed: their keys are not valid", metadata: ["count": .stringConvertible(count)])
    }
    var pushes = made.pushes
    if case .notification = message {
    } else {
      // What a deletion makes idle is dropped before the deletion is sent.
      pushes = try await self.pushes.supersede(
        message.deleted, of: user.id, by: pushes, dueAt: leaseEnd, expiresAt: now() + maximumAge)
    }
    var receipt = NextcloudReceipt(devices: made.devices)
    try await withThrowingTaskGroup(of: NextcloudReceipt.Proxy.self) { group in
      for (proxy, pushes) in Dictionary(grouping: pushes, by: \.proxy) {
        for start in stride(from: 0, to: pushes.count, by: Self.maximumPerRequest) {
          let batch = Array(pushes[start..<min(start + Self.maximumPerRequest, pushes.count)])
          group.addTask { try await self.send(batch, to: proxy) }
        }
      }
      for try await part in group { receipt.add(part) }
    }
    return receipt
  }

  private func send(_ batch: [NextcloudPush], to proxy: String) async throws -> NextcloudReceipt.Proxy {
    let exchange = Task { await post(batch.map(\.entry), to: proxy) }
    if let answer = await exchange.value(within: deadline) {
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
  var leaseEnd: Date { now() + Self.timeout + 10 }
}
