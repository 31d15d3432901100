import Basics
import Delivery
package import Foundation
package import HTTP
package import Logging
import Providers
package import Registrations
package import Sealing

/// Devices with end-to-end encrypted notifications.
extension Bouncer {
  /// Opens a sealed registration and stores its token. An existing registration is renewed, even if it had
  /// expired (`Documentation/Decisions` 0008).
  ///
  /// - Parameters:
  ///   - tokenID: the id of the sealed token, as the server knows it; nil for an invalid id.
  ///   - publicKey: the key that the registration was sealed to, in the server's spelling.
  ///   - realm: the realm; nil for an invalid UUID.
  ///   - more: parameters that are not known here.
  /// - Returns: the registration's members that are not known here.
  @discardableResult
  package func register(
    _ sealed: String, tokenID: TokenID?, publicKey: String, realm: UUID?, with more: [Form.Field] = [],
    of server: RemoteServer
  ) async throws -> Additions {
    let realm = try await caller(realm, of: server)
    guard let registration = try await open(sealed, publicKey: publicKey, of: server) else {
      guard let tokenID else { throw APIError.invalidRegistration }
      try await passOn(sealed, tokenID: tokenID, publicKey: publicKey, with: more, realm, server)
      return Additions()
    }
    guard registration.token.id == tokenID else { throw APIError.invalidRegistration }
    guard !registration.isExpired(at: now()) else {
      // Chat servers and phones treat this refusal as final, so it must not depend on a clock in doubt.
      guard isClockTrusted() else { throw APIError.rateLimited(retryAfter: "60") }
      throw APIError(code: APIError.Code.requestExpired, "Request expired")
    }
    guard await deliverer.providers.accepts(registration.token) else { throw APIError.invalidRegistration }
    // What is there may be renewed in any case.
    if !room.take(ofServer: server.id),
      try await registrations.lookup(realm: realm.id, tokenIDs: [registration.token.id]).isEmpty
    {
      throw room.refusal(ofServer: server.hostname)
    }
    try await registrations.register(
      registration.token, iosAppID: registration.iosAppID, realm: realm.id, bouncerKey: publicKey)
    deliverer.history?.registered(key: publicKey)
    return registration.additions
  }

  /// Opens a registration. Returns nil if it is to be passed on: it is sealed to a key that this service never had, and the
  /// server has a link elsewhere.
  private func open(
    _ sealed: String, publicKey: String, of server: RemoteServer
  ) async throws -> PushRegistration? {
    let plaintext: [UInt8]
    do {
      plaintext = try keyring().open(sealed, publicKey: publicKey)
    } catch .notOpened {
      throw APIError.invalidRegistration
    } catch {
      // A node that does not have a new key yet must not refuse it for good.
      if Base64.decodeStrictly(publicKey)?.count == BouncerKeyPair.keyBytes,
        try await bouncerKeys.isAnnounced(publicKey)
      {
        throw APIError.tryAgainLater
      }
      if try await passesOn(for: server), try await !bouncerKeys.isOwn(publicKey) { return nil }
      throw APIError(code: APIError.Code.invalidPublicKey, "Invalid bouncer_public_key")
    }
    guard let registration = PushRegistration(plaintext), registration.audience == nil else {
      throw APIError.invalidRegistration
    }
    return registration
  }

  /// Sends end-to-end encrypted notifications.
  ///
  /// - Parameter received: the time at which the request came in.
  package func notify(
    _ notification: NotifyRequest, realm: UUID?, of server: RemoteServer,
    since received: ContinuousClock.Instant = .now, logger: Logger
  ) async throws -> NotifyReceipt {
    let memory = try charge(notification.memory, to: server)
    defer { memory.release() }
    let realm = try await caller(realm, of: server)
    var lookup = try await registrations.lookup(
      realm: realm.id, tokenIDs: notification.items.map(\.tokenID))
    try await adoptUnknown(notification.items, realm, server, &lookup)
    let batch = NotifyBatch(
      notification, lookup, realm: realm.uuid, of: .chatServer(server.id), logger: logger)
    let results = try await deliver(batch.deliveries, of: server, since: received)
    if batch.isTest, let refusal = refusal(ofTest: results) { throw refusal }
    let forgets = batch.unknown.isEmpty ? false : await mayForgetUnknown(of: server)
    return batch.receipt(results, forgetsUnknown: forgets)
  }

  /// The answer to a test that reaches nobody, for a reason that stays; nil for any other. A message is not refused for it: its
  /// chat server would take that for a fault of its own.
  private func refusal(ofTest results: [DeliveryResult]) -> APIError? {
    if let upstream, results.allSatisfy({ $0 == .refused(.upstreamDisallows) }) {
      return upstream.refusalOfTest
    }
    return results.allSatisfy { $0 == .refused(.unconfigured) } ? .unservedTest : nil
  }

  /// Counts memory for a server's notifications, until it is released.
  ///
  /// - Throws: 503 if there is no room for the server at present.
  func charge(_ bytes: Int, to server: RemoteServer) throws(APIError) -> FairSemaphore<Owner>.Permit {
    guard let memory = deliverer.work.take(bytes, of: .chatServer(server.id)) else { throw .tryAgainLater }
    return memory
  }

  /// Sends what the server's pace allows now, and stores the rest in the outbox.
  @discardableResult
  func deliver(
    _ deliveries: [RegisteredPush], of server: RemoteServer, since received: ContinuousClock.Instant,
    within limit: Duration? = nil
  ) async throws -> [DeliveryResult] {
    let memory = try charge(deliveries.reduce(0) { $0 + $1.memory }, to: server)
    defer { memory.release() }
    do {
      let results = try await deliverer.deliver(
        try pace.pace(deliveries, of: server.id), after: .now - received, within: limit)
      deliverer.history?.countSent(results, of: server.id)
      return results
    } catch is Outbox.Full {
      throw APIError.tryAgainLater
    }
  }
}

/// Limits the notifications of each chat server. A refused notification would be lost for good, so
/// those beyond the limit are postponed.
package final class NotificationPace: Sendable {
  /// The longest postponement, in windows of the limit. It is a server's share of the outbox.
  package static let share = 15.0

  private let rate: CellRate<Int64>

  /// - Parameter limit: nil sends everything at once.
  init(_ limit: RateLimit?, now: @escaping @Sendable () -> Date) {
    rate = CellRate(limit, windows: Self.share, now: now)
  }

  /// Counts unknown devices, each of which makes a row, as if they were notifications.
  ///
  /// - Throws: 503 while the server sends faster than its pace.
  func admitUnknown(_ count: Int, of server: Int64) throws(APIError) {
    let delay = delay(of: server)
    guard delay <= 0 else {
      throw .unavailable(
        "Too many notifications are waiting to take one for an unknown device",
        retryAfter: max(1, Int(delay.rounded(.up))))
    }
    _ = rate.book(count, of: server)
  }

  /// Seconds by which a server's next notification would be postponed.
  func delay(of server: Int64) -> TimeInterval { rate.delay(of: server) }

  /// Sets the time of each notification.
  ///
  /// - Throws: 503 while the server's share is used up.
  func pace(_ deliveries: [RegisteredPush], of server: Int64) throws(APIError) -> [RegisteredPush] {
    let booking = rate.book(deliveries.count, of: server)
    if booking.excess > 0 {
      throw .unavailable(
        "Too many notifications are waiting already", retryAfter: max(1, Int(booking.excess.rounded(.up))))
    }
    // None is postponed if the last is not.
    guard booking.time(of: deliveries.count - 1) != nil else { return deliveries }
    return deliveries.enumerated().map { index, delivery in
      guard let time = booking.time(of: index) else { return delivery }
      var delivery = delivery
      delivery.notBefore = time
      return delivery
    }
  }
}
