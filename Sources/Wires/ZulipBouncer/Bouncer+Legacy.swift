import Basics
import Delivery
package import Foundation
package import HTTP
package import Logging
package import Providers
package import Registrations
import SQL
import Sealing

/// Devices of old apps, which get unencrypted notifications.
extension Bouncer {
  /// Registers an old app's token, or renews its registration.
  ///
  /// - Parameter more: parameters that are not known here.
  package func registerLegacy(
    _ token: PushToken, iosAppID: String?, for user: LegacyUser, realm: UUID?, with more: [Form.Field] = [],
    of server: RemoteServer, logger: Logger
  ) async throws {
    let realm = try await legacyRealm(realm, of: server, logger)
    guard await deliverer.providers.accepts(token) else {
      throw APIError(PushToken.Malformed.length.description)
    }
    // What is there may be renewed in any case.
    if !room.take(ofServer: server.id),
      try await registrations.find(token, of: user, server: server.id) == nil
    {
      throw room.refusal(ofServer: server.hostname)
    }
    try await registrations.register(token, iosAppID: iosAppID, for: user, server: server.id, realm: realm)
    try await passOnRegistration(of: token, user, realm, with: more, server)
  }

  /// Removes a token of a user, or all of them.
  ///
  /// - Parameters:
  ///   - token: nil for all of the user's tokens.
  ///   - more: parameters that are not known here.
  package func unregisterLegacy(
    _ token: PushToken?, for user: LegacyUser, with more: [Form.Field] = [], of server: RemoteServer
  ) async throws {
    try await passOnUnregistration(of: token, user, with: more, server)
    // A registration replaced by an encrypted one is gone already.
    try await registrations.unregister(token, of: user, server: server.id)
  }

  /// Sends an unencrypted notification to all devices of a user that have not switched to end-to-end
  /// encryption, and reports which of the tokens known to the server are not registered.
  package func notifyLegacy(
    _ notification: LegacyNotification, to user: LegacyUser, believedIn tokens: [PushToken.Kind: [String]],
    realm: UUID?, of server: RemoteServer, since received: ContinuousClock.Instant = .now, logger: Logger
  ) async throws -> LegacyReceipt {
    let memory = try charge(notification.memory, to: server)
    defer { memory.release() }
    let realm = try await legacyRealm(realm, of: server, logger)
    let recipients: [Registration]
    var reached: Set<String> = []
    if let both = try await notifyHereAndElsewhere(
      notification, to: user, believedIn: tokens, realm, server, since: received, logger: logger)
    {
      recipients = both
    } else {
      recipients = try await self.recipients(of: user, realm, server, logger)
      let pushes = try notification.pushes(
        to: recipients, of: .chatServer(server.id), now: now(), logger: logger)
      let results = try await deliver(pushes, of: server, since: received)
      reached = Self.tokens(of: recipients, reachedBy: zip(pushes, results))
    }
    var missing: [PushToken.Kind: [String]] = [:]
    for (kind, tokens) in tokens {
      do {
        // A phone that has this notification may have moved on to an encrypted registration meanwhile. Its server is told
        // the next time: now it would send this one to the new registration, too.
        missing[kind] = try await registrations.missing(tokens, kind: kind, of: user, server: server.id)
          .filter { (try? PushToken($0, kind: kind)).map { !reached.contains($0.canonical) } ?? true }
          .sorted()
      } catch {
        // The notification was sent, so the call succeeds; the server repeats the question with each
        // notification.
        logger.warning(
          "tokens could not be looked up", metadata: ["error": "\(DatabaseError.name(of: error))"])
      }
    }
    if missing.values.contains(where: { !$0.isEmpty }), await !mayForgetUnknown(of: server) { missing = [:] }
    return LegacyReceipt(
      apple: recipients.count { $0.token.kind == .apns }, android: recipients.count { $0.token.kind == .fcm },
      missing: missing, hasRealm: realm != nil)
  }

  /// The tokens, spelled canonically, of the recipients that have a notification, or will get it from the outbox.
  private static func tokens(
    of recipients: [Registration], reachedBy sent: some Sequence<(RegisteredPush, DeliveryResult)>
  ) -> Set<String> {
    let reached = Set(
      sent.compactMap { push, result -> Int64? in
        switch result {
        case .delivered, .passedOn, .queued: push.registration.id
        case .ended, .refused: nil
        }
      })
    return Set(recipients.lazy.filter { reached.contains($0.reference.id) }.map(\.token.canonical))
  }

  /// Sends a test to one device of a user.
  ///
  /// - Parameters:
  ///   - token: nil for an invalid token.
  ///   - more: members that are not known here.
  package func testLegacy(
    _ token: PushToken?, of user: LegacyUser, _ payload: JSON.Object, with more: JSON.Object = [:],
    realm: UUID?, of server: RemoteServer, since received: ContinuousClock.Instant = .now, logger: Logger
  ) async throws {
    let memory = try charge(JSON.object(payload).memory, to: server)
    defer { memory.release() }
    let realm = try await legacyRealm(realm, of: server, logger)
    var registration: Registration?
    if let token { registration = try await registrations.find(token, of: user, server: server.id) }
    if let token,
      try await testElsewhere(
        token, registration, of: user, payload, with: more, realm, server, since: received, logger: logger)
    {
      return
    }
    guard let registration else {
      throw APIError(code: APIError.Code.unknownLegacyDevice, "Device not recognized by the push bouncer")
    }
    try await testHere(registration, payload, server, since: received, logger: logger)
  }

  /// Sends a test from here.
  ///
  /// - Parameter mayMove: whether the registration moves elsewhere if its token is of another project.
  @discardableResult
  func testHere(
    _ registration: Registration, _ payload: JSON.Object, mayMove: Bool = false, _ server: RemoteServer,
    since received: ContinuousClock.Instant, logger: Logger
  ) async throws -> DeliveryResult {
    let now = now()
    let pushes = try LegacyNotification.test(payload, now: now).pushes(
      to: [registration], of: .chatServer(server.id), now: now, logger: logger
    ).map { mayMove ? $0.markingPossibleMove(of: [registration]) : $0 }
    let results = try await deliver(pushes, of: server, since: received)
    guard let push = pushes.first?.push, let result = results.first,
      deliverer.providers.route(of: push) != nil
    else {
      throw APIError.unservedTest
    }
    return result
  }

  /// The realm that a legacy call names. An unknown realm is ignored; another server's realm is refused.
  private func legacyRealm(
    _ uuid: UUID?, of server: RemoteServer, _ logger: Logger
  ) async throws -> RemoteRealm? {
    guard let uuid else { return nil }
    guard try await realms.find(uuid: uuid, server: server.id) != .unknown else {
      logger.info("a legacy call names an unknown realm", metadata: ["server": "\(server.hostname)"])
      return nil
    }
    return try await caller(uuid, of: server)
  }

  /// The user's registrations that a notification goes to, once ``RegistrationStore/recipients(of:server:realm:)`` has
  /// corrected them.
  func recipients(
    of user: LegacyUser, _ realm: RemoteRealm?, _ server: RemoteServer, _ logger: Logger
  ) async throws -> [Registration] {
    let found = try await registrations.recipients(of: user, server: server.id, realm: realm)
    func metadata(_ more: Logger.Metadata) -> Logger.Metadata {
      var metadata = more
      metadata["server"] = "\(server.hostname)"
      metadata["realm"] = realm.map { "\($0.uuid.canonical)" }
      return metadata
    }
    for (kind, count) in found.superseded {
      logger.info(
        "legacy registrations removed: their devices have end-to-end encrypted ones",
        metadata: metadata(["count": .stringConvertible(count), "kind": "\(kind)"]))
    }
    if found.mergedUserIDs > 0 {
      logger.info(
        "legacy registrations under a user's number removed: the same devices are registered under a UUID",
        metadata: metadata(["count": .stringConvertible(found.mergedUserIDs)]))
    }
    var faults = ItemFaults()
    faults.add(.unreadable, count: found.unreadable)
    faults.report(to: logger)
    return found.registrations
  }
}

/// Result of an unencrypted notification.
package struct LegacyReceipt: Sendable {
  /// Number of the user's APNs registrations that it was sent to.
  package let apple: Int
  /// Number of the user's FCM registrations that it was sent to.
  package let android: Int
  /// Tokens known to the server that are not registered.
  package let missing: [PushToken.Kind: [String]]
  /// Whether the realm that the call names is known.
  let hasRealm: Bool

  package init(apple: Int, android: Int, missing: [PushToken.Kind: [String]], hasRealm: Bool) {
    self.apple = apple
    self.android = android
    self.missing = missing
    self.hasRealm = hasRealm
  }
}
