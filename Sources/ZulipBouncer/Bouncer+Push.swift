internal import Delivery
package import Foundation
internal import HTTP
package import Logging
internal import Providers
package import Registrations
package import Sealing

/// Devices that only their phones can read for.
extension Bouncer {
  /// Opens what a phone has sealed and keeps its token. A registration that was there before is renewed, even if it had
  /// expired (`Documentation/Decisions` 0008).
  ///
  /// - Parameters:
  ///   - tokenID: of the sealed token, as the server knows it; nil for a text that is no id.
  ///   - publicKey: that it was sealed for, as the server spells it.
  ///   - realm: nil for a text that is no UUID.
  package func register(
    _ sealed: String, tokenID: TokenID?, publicKey: String, realm: UUID?, of server: RemoteServer
  ) async throws {
    let realm = try await caller(realm, of: server)
    let registration = try await open(sealed, publicKey: publicKey)
    guard registration.token.id == tokenID else { throw APIError.invalidRegistration }
    guard !registration.isExpired(at: now()) else {
      // To a chat server this is for good, and to a phone: a clock that may be wrong must not say it.
      guard mayExpire() else { throw APIError.rateLimited(retryAfter: "60") }
      throw APIError(code: APIError.Code.requestExpired, "Request expired")
    }
    guard await accepts(registration.token) else { throw APIError.invalidRegistration }
    try await registrations.register(
      registration.token, iosAppID: registration.iosAppID, realm: realm.id, bouncerKey: publicKey)
    deliverer.history?.registered(key: publicKey)
  }

  private func open(_ sealed: String, publicKey: String) async throws -> PushRegistration {
    let plaintext: [UInt8]
    do {
      plaintext = try keyring().open(sealed, publicKey: publicKey)
    } catch .notOpened {
      throw APIError.invalidRegistration
    } catch {
      // A node that has not been given a new key yet must not refuse it for good.
      if Base64.decodeStrictly(publicKey)?.count == BouncerKeyPair.keyBytes,
        try await bouncerKeys.isAnnounced(publicKey)
      {
        throw APIError.tryAgainLater
      }
      throw APIError(code: APIError.Code.invalidPublicKey, "Invalid bouncer_public_key")
    }
    guard let registration = PushRegistration(plaintext) else { throw APIError.invalidRegistration }
    return registration
  }

  /// Whether a device may be registered with a token: any but a subscription that is none, or at a host that
  /// messages are not sent to.
  func accepts(_ token: PushToken) async -> Bool {
    guard token.kind == .fcm, WebPushSubscription.isToken(token.text) else { return true }
    guard let subscription = try? WebPushSubscription(token: token.text) else { return false }
    return await deliverer.providers.accepts(subscription)
  }

  /// Sends notifications that only phones can read.
  ///
  /// - Parameter received: when they were asked for.
  package func notify(
    _ notification: NotifyRequest, realm: UUID?, of server: RemoteServer,
    since received: ContinuousClock.Instant = .now, logger: Logger
  ) async throws -> NotifyReceipt {
    let realm = try await caller(realm, of: server)
    let (found, unreadable) = try await registrations.lookup(
      realm: realm.id, tokenIDs: notification.items.map(\.tokenID))
    let batch = NotifyBatch(
      notification, registrations: found, unreadable: unreadable, of: .chatServer(server.id), logger: logger)
    return batch.receipt(try await deliver(batch.deliveries, of: server, since: received))
  }

  /// Sends what the server's pace lets through, and keeps the rest in the outbox.
  @discardableResult
  func deliver(
    _ deliveries: [RegisteredPush], of server: RemoteServer, since received: ContinuousClock.Instant
  ) async throws -> [DeliveryResult] {
    do {
      let results = try await deliverer.deliver(
        try pace.pace(deliveries, of: server.id), after: .now - received)
      deliverer.history?.took(results, of: server.id)
      return results
    } catch is Outbox.Full {
      throw APIError.tryAgainLater
    }
  }
}

/// What a phone seals for its bouncer (`Documentation/Protocols/Zulip.md` 5.2).
struct PushRegistration {
  let token: PushToken
  /// The app's bundle id: there for APNs, absent for FCM.
  let iosAppID: String?
  /// When the phone made it, in seconds since 1970.
  let timestamp: Int64

  /// Reads the opened JSON; nil if anything about it is wrong.
  init?(_ plaintext: [UInt8]) {
    guard let json = try? JSON.parse(plaintext), let text = json["token"]?.string,
      let kind = json["token_kind"]?.string.flatMap(PushToken.Kind.init),
      let token = try? PushToken(text, kind: kind),
      let timestamp = json["timestamp"].flatMap(Self.lenientInteger)
    else { return nil }
    switch (kind, json["ios_app_id"] ?? .null) {
    case (.apns, .string(let id)) where AppID.isValid(id): iosAppID = id
    case (.fcm, .null): iosAppID = nil
    default: return nil
    }
    (self.token, self.timestamp) = (token, timestamp)
  }

  /// Upstream takes `5`, `5.0` and `"5"` for five.
  private static func lenientInteger(_ json: JSON) -> Int64? {
    switch json {
    case .integer(let value): value
    case .number(let text): Double(text).flatMap(Int64.init(exactly:))
    case .string(let text): Int64(text.strippingWhitespace())
    default: nil
    }
  }

  /// Whether it was made too long ago. Clocks differ, so one from the future is not refused.
  func isExpired(at now: Date) -> Bool {
    now.timeIntervalSince1970 - Double(timestamp) > Zulip.registrationLifetime
  }
}

/// The pace at which a chat server's notifications are sent. A refused notification is lost for good, so what is
/// beyond it is not refused but due later.
package final class NotificationPace: Sendable {
  /// A server's share of the outbox, in windows of the limit: how far ahead of now it may be booked.
  package static let share = 15.0

  private let rate: CellRate<Int64>

  /// Without a limit everything goes at once.
  init(_ limit: RateLimit?, now: @escaping @Sendable () -> Date) {
    rate = CellRate(limit, windows: Self.share, now: now)
  }

  /// Gives each of a server's notifications its time.
  ///
  /// - Throws: 503 while as much as the server's share waits already.
  func pace(_ deliveries: [RegisteredPush], of server: Int64) throws(APIError) -> [RegisteredPush] {
    let booking = rate.book(deliveries.count, of: server)
    if booking.excess > 0 {
      throw .unavailable(
        "Too many notifications are waiting already", retryAfter: max(1, Int(booking.excess.rounded(.up))))
    }
    return deliveries.enumerated().map { index, delivery in
      guard let time = booking.time(of: index) else { return delivery }
      var delivery = delivery
      delivery.notBefore = time
      return delivery
    }
  }
}
