package import Foundation
package import HTTP
package import Registrations
package import Sealing

/// A bouncer as a chat server uses it: another program's (``BouncerClient``), or this program's own, which is
/// called without a wire. Each call throws a ``BouncerError`` for what the bouncer does not do.
package protocol Bouncer: Sendable {
  /// Passes on what a phone has sealed; when this returns the bouncer has its token.
  ///
  /// - Parameter publicKey: the bouncer's that it is sealed to, as the client spelled it.
  func register(_ sealed: String, tokenID: TokenID, publicKey: String, realm: UUID) async throws

  /// Sends sealed notifications to devices of a realm.
  func notify(realm: UUID, _ notifications: [SealedNotification]) async throws -> NotificationReceipt

  /// Tells of all realms, each with what proves that it is ours.
  func upload(_ realms: [(realm: ChatRealm, ownerSecret: String)]) async throws

  /// Tells of a token of an old app.
  func registerLegacy(
    _ token: PushToken, iosAppID: String?, of user: LegacyUser, realm: UUID) async throws

  /// Tells that a token is no longer used; nil stands for all of the user's.
  func unregisterLegacy(_ token: PushToken?, of user: LegacyUser, realm: UUID) async throws

  /// Sends a notification in clear to all old apps of a user, who is believed to have these.
  func notifyLegacy(
    _ user: User, _ message: LegacyMessage, tokens: [PushToken]
  ) async throws -> LegacyNotificationReceipt

  /// Sends a test to one token.
  func testLegacy(_ token: PushToken, of user: User, _ payload: JSON.Object) async throws
}

/// What became of sealed notifications.
package struct NotificationReceipt: Sendable {
  /// Those that APNs has taken.
  package var apple: Int
  /// Those that FCM has.
  package var android: Int
  /// Tokens that the bouncer does not know, or no longer.
  package var gone: [TokenID]

  /// A receipt by its parts.
  package init(apple: Int, android: Int, gone: [TokenID]) {
    (self.apple, self.android, self.gone) = (apple, android, gone)
  }
}

/// What became of a notification in clear.
package struct LegacyNotificationReceipt: Sendable {
  /// Registrations with APNs that it went to.
  package var apple: Int
  /// Those with FCM.
  package var android: Int
  /// Tokens that the bouncer does not have, as they were spelled.
  package var missing: Set<PushToken>

  /// A receipt by its parts.
  package init(apple: Int, android: Int, missing: Set<PushToken>) {
    (self.apple, self.android, self.missing) = (apple, android, missing)
  }
}
