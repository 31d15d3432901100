package import Foundation
package import HTTP
internal import Providers
package import Registrations
package import Sealing
internal import Timing

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

/// Why a bouncer did not do what was asked, in the classes of `Documentation/Protocols/Zulip.md` 10.5.
package enum BouncerError: Error, Sendable, Hashable, CustomStringConvertible {
  /// No answer: it cannot be reached, or takes too long.
  case unreachable
  /// It has a fault of its own (5xx, or an answer that makes no sense), or too much to do (429); with the `Retry-After` of
  /// its answer.
  case failed(status: Int, retryAfter: String? = nil)
  /// It refuses: its code and what it says.
  case refused(code: String, message: String)

  /// What an answer means that is no success.
  package init(status: Int, code: String?, message: String?, retryAfter: String?) {
    // A refusal without a message is not in the envelope, and comes from something in between.
    guard (400..<500).contains(status), status != 429, status != 408, let message else {
      self = .failed(status: status, retryAfter: retryAfter)
      return
    }
    // It is passed on and kept: no more of it than a sentence.
    self = .refused(code: String((code ?? "BAD_REQUEST").prefix(64)), message: String(message.prefix(500)))
  }

  /// A sentence for the log.
  package var description: String {
    switch self {
    case .unreachable: "the bouncer cannot be reached"
    case .failed(let status, _): "the bouncer failed with status \(status)"
    case .refused(let code, let message): "the bouncer refused: \(code): \(message)"
    }
  }

  /// Seconds to wait after so many tries: no fewer than the bouncer asks for, and no more than an hour.
  func pause(after tries: Int, _ backoff: Backoff, now: Date) -> TimeInterval {
    var start = now
    if case .failed(_, let text) = self { start = RetryAfter.date(text, now: now) ?? now }
    return min(start.timeIntervalSince(now) + backoff.pause(after: tries), RetryAfter.limit)
  }

  /// Whether the realm is one that it has not been told of.
  var isMissingRealm: Bool {
    if case .refused(APIError.Code.missingRealm, _) = self { true } else { false }
  }

  /// Whether the token is one that it does not have.
  var isMissingToken: Bool {
    if case .refused(_, APIError.tokenDoesNotExist.message) = self { true } else { false }
  }

  /// Whether the token is none that anything can be sent to.
  var isInvalidToken: Bool {
    if case .refused(_, PushToken.Malformed.length.description) = self { true } else { false }
  }

  /// Whether this ends a registration for good; nil if it is to be tried again: the bouncer is away, or its
  /// operator has to let this server or realm in first.
  var registrationError: Device.RegistrationError? {
    guard case .refused(let code, _) = self else { return nil }
    switch code {
    case APIError.Code.invalidPublicKey: return .invalidBouncerPublicKey
    case APIError.Code.requestExpired: return .requestExpired
    case APIError.Code.missingRealm, APIError.Code.anothersRealm, "PUSH_NOTIFICATIONS_DISALLOWED",
      "INVALID_ZULIP_SERVER", "UNAUTHORIZED":
      return nil
    default: return .badRequest
    }
  }
}
