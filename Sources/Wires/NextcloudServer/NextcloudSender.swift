import Basics
package import Delivery
package import Foundation
import HTTP
package import Logging
package import NextcloudProxy
package import Registrations
package import SQL
package import Sealing

/// Sends a Nextcloud user's notifications to the proxies of the user's phones, and retries those that were
/// unavailable: durably, until the notifications are too old (`Documentation/Protocols/Nextcloud.md` 6,
/// `Documentation/Decisions` 0022). Phones with a Web Push subscription get them from their push service
/// instead.
package final class NextcloudSender: Sendable {
  /// Maximum number of pushes in one request; more than a user's phones normally need.
  private static let maximumPerRequest = 1000
  /// Seconds to wait for a proxy's answer, the same as Nextcloud.
  static let timeout = 30.0

  let settings: NextcloudServerSettings
  let delivery: DeliverySettings
  /// The proxy in this process, and its URL as phones name it. The URL is evaluated at each call, because it may
  /// be known only when this service listens.
  let own: PushProxy
  let ownAddress: @Sendable () -> String
  /// Calls other proxies.
  let proxies: ProxyClient
  let keys: NextcloudKeys
  let notifications: NextcloudNotifications
  let webPush: NextcloudWebPush
  let now: @Sendable () -> Date
  let logger: Logger
  package let registrations: NextcloudRegistrations
  package let pushes: NextcloudPushes

  /// - Parameter isClockTrusted: whether pushes may be treated as expired; false while the clock is in doubt.
  package init(
    _ settings: NextcloudServerSettings, delivery: DeliverySettings, own: PushProxy,
    ownAddress: @escaping @Sendable () -> String,
    proxies: ProxyClient, webPush: NextcloudWebPush, database: any Database, storageKey: StorageKey,
    now: @escaping @Sendable () -> Date, isClockTrusted: @escaping @Sendable () -> Bool, logger: Logger
  ) {
    self.settings = settings
    self.delivery = delivery
    self.own = own
    self.ownAddress = ownAddress
    self.proxies = proxies
    self.webPush = webPush
    self.now = now
    self.logger = logger
    keys = NextcloudKeys(database: database, storageKey: storageKey, now: now)
    notifications = NextcloudNotifications(database: database, storageKey: storageKey, now: now)
    registrations = NextcloudRegistrations(database: database, now: now)
    pushes = NextcloudPushes(database: database, now: now, isClockTrusted: isClockTrusted)
  }

  /// The time at which a push that is made now is given up.
  var expiry: Date { now() + delivery.maxAge / .seconds(1) }

  /// URL of the proxy for phones that name none; any address is allowed.
  func standardAddress() -> String { settings.defaultProxy ?? ownAddress() }

  /// Stores or deletes a user's notifications, and sends that to the user's phones. Each proxy gets one
  /// request; all requests are made concurrently.
  ///
  /// Phones are not left out for their age: the last use of an app password is not stored, and the proxies
  /// report phones that are gone.
  ///
  /// - Parameter appPassword: the app password of the phone that caused this, which gets no push.
  /// - Throws: the database's error if something could be neither sent nor queued; nothing is promised then.
  package func notify(
    _ user: User, _ message: NextcloudMessage, except appPassword: Int64? = nil
  ) async throws -> NextcloudReceipt {
    // Stored before anything is sent, and deleted after everything was, so that repeating an interrupted call
    // completes it.
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
    // A phone with a subscription gets nothing by way of a proxy.
    let excluded = Set(direct.compactMap(\.holder.appPassword) + [appPassword].compactMap(\.self))
    var receipt = try await pushToProxies(message, apps, to: user, phones, except: excluded)
    receipt.add(try await sent)
    return receipt
  }

  private func pushToProxies(
    _ message: NextcloudMessage, _ apps: [Int64: String], to user: User, _ phones: [NextcloudRegistration],
    except excluded: Set<Int64>
  ) async throws -> NextcloudReceipt {
    guard !phones.isEmpty else { return NextcloudReceipt() }
    let maker = PushMaker(padding: settings.padding, userKey: try await keys.key(of: user.id))
    let made = await maker.pushes(of: message, apps: apps, to: phones, except: excluded)
    if !made.broken.isEmpty {
      let count = try await registrations.forget(made.broken.map { ($0.id, $0.registeredAt) })
      logger.notice(
        "Nextcloud phones removed: their keys are not valid", metadata: ["count": .stringConvertible(count)])
    }
    var pushes = made.pushes
    if !message.isNotification {
      // Pushes that a deletion makes obsolete are removed before the deletion is sent.
      pushes = try await self.pushes.supersede(
        message.deleted, of: user.id, by: pushes, dueAt: leaseEnd, expiresAt: expiry)
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
    if let answer = await exchange.value(within: delivery.deadline) {
      return try await settle(batch, answer)
    }
    // The proxy may still answer. Until then the pushes are queued under a lease, so that nothing is sent
    // twice.
    let kept = try await keep(batch, dueAt: leaseEnd)
    Task {
      do {
        _ = try await settle(kept, await exchange.value)
      } catch {
        // When the lease runs out, the pushes are tried again.
        logger.error(
          "a push proxy's answer could not be processed",
          metadata: ["error": "\(DatabaseError.name(of: error))"])
      }
    }
    return .init(url: proxy, failed: batch.count - kept.count, queued: kept.count)
  }

  /// End of the lease for pushes under way: later than any request can end.
  var leaseEnd: Date { now() + Self.timeout + 10 }
}
