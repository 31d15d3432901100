import Basics
package import Foundation
package import HTTP
import HTTPTypes
package import Logging
package import Providers
package import Registrations
import SQL
package import Sealing
package import ZulipBouncer

/// The calls of a chat server to its bouncer, which is another program (``BouncerClient``) or this program's
/// own (``OwnBouncer``). Calls throw a ``BouncerError`` if the bouncer fails or refuses.
package protocol BouncerCalls: Sendable {
  /// Forwards a phone's sealed registration; when this returns the bouncer has its token.
  ///
  /// - Parameter publicKey: the bouncer's key that it is sealed to, in the client's spelling.
  func register(_ sealed: String, tokenID: TokenID, publicKey: String, realm: UUID) async throws

  /// Sends end-to-end encrypted notifications.
  func notify(_ request: NotifyRequest, realm: UUID) async throws -> NotifyReceipt

  /// Uploads all realms, each with the secret that proves that it belongs to this server.
  func upload(_ realms: [(realm: ChatRealm, ownerSecret: String)]) async throws

  /// Registers an old app's token.
  func registerLegacy(_ token: LegacyToken, of user: LegacyUser, realm: UUID) async throws

  /// Unregisters a token that is no longer used.
  ///
  /// - Parameter token: nil for all of the user's tokens.
  func unregisterLegacy(_ token: PushToken?, of user: LegacyUser, realm: UUID) async throws

  /// Sends an unencrypted notification to all old apps of a user; `tokens` are those known to this server.
  func notifyLegacy(
    _ user: User, _ notification: LegacyNotification, tokens: [PushToken]
  ) async throws -> LegacyReceipt

  /// Sends a test notification to an old app.
  func testLegacy(_ token: PushToken, of user: User, _ payload: JSON.Object) async throws
}

/// This program's own bouncer: the same rules as for any bouncer, but called directly, without HTTP and
/// credentials.
package struct OwnBouncer: BouncerCalls {
  private let bouncer: Bouncer
  /// The chat server that it acts as.
  private let server: UUID
  private let logger: Logger

  package init(_ bouncer: Bouncer, server: UUID, logger: Logger) {
    self.bouncer = bouncer.unpaced
    self.server = server
    self.logger = logger
  }

  package func register(_ sealed: String, tokenID: TokenID, publicKey: String, realm: UUID) async throws {
    try await call {
      _ = try await bouncer.register(sealed, tokenID: tokenID, publicKey: publicKey, realm: realm, of: $0)
    }
  }

  package func notify(_ request: NotifyRequest, realm: UUID) async throws -> NotifyReceipt {
    try await call { try await bouncer.notify(request, realm: realm, of: $0, logger: logger) }
  }

  package func upload(_ realms: [(realm: ChatRealm, ownerSecret: String)]) async throws {
    let descriptions = realms.map { realm, secret in
      RealmDescription(
        realmID: realm.id, uuid: realm.uuid, ownerSecret: secret, host: realm.host, name: realm.name,
        orgType: 0, dateCreated: realm.createdAt, isDeactivated: false, isSystemBotRealm: false,
        authenticationMethods: "{}")
    }
    let upload = AnalyticsUpload(
      version: ZulipServerRoutes.version, apiFeatureLevel: ZulipServerRoutes.featureLevel,
      realms: descriptions)
    try await call { try await bouncer.store(upload, of: $0, logger: logger) }
  }

  package func registerLegacy(_ token: LegacyToken, of user: LegacyUser, realm: UUID) async throws {
    try await call { server in
      try await bouncer.registerLegacy(
        token.token, iosAppID: token.iosAppID, for: user, realm: realm, of: server, logger: logger)
    }
  }

  package func unregisterLegacy(_ token: PushToken?, of user: LegacyUser, realm: UUID) async throws {
    try await call { try await bouncer.unregisterLegacy(token, for: user, of: $0) }
  }

  package func notifyLegacy(
    _ user: User, _ notification: LegacyNotification, tokens: [PushToken]
  ) async throws -> LegacyReceipt {
    try await call { server in
      try await bouncer.notifyLegacy(
        notification, to: user.legacyUser,
        believedIn: Dictionary(grouping: tokens, by: \.kind).mapValues { $0.map(\.text) },
        realm: user.realm.uuid, of: server, logger: logger)
    }
  }

  package func testLegacy(_ token: PushToken, of user: User, _ payload: JSON.Object) async throws {
    try await call { server in
      try await bouncer.testLegacy(
        token, of: user.legacyUser, payload, realm: user.realm.uuid, of: server, logger: logger)
    }
  }

  private func call<Result>(_ body: (RemoteServer) async throws -> Result) async throws -> Result {
    do {
      return try await bouncer.call(as: server, body)
    } catch is CancellationError {
      throw CancellationError()
    } catch {
      let refusal = APIError(error, logger: logger)
      throw BouncerError(
        status: refusal.status.code, code: refusal.code, message: refusal.message,
        retryAfter: refusal.headers[.retryAfter])
    }
  }
}

extension User {
  var legacyUser: LegacyUser { LegacyUser(id: userID, uuid: uuid) }
}

/// The error of a call to the bouncer, by the classes of `Documentation/Protocols/Zulip.md` 10.5.
package enum BouncerError: Error, Sendable, Hashable, CustomStringConvertible {
  /// There was no answer: it cannot be reached, or takes too long.
  case unreachable(Reason)
  /// It has an internal error (5xx, or an invalid answer), or is overloaded (429); with the answer's
  /// `Retry-After`.
  case failed(status: Int, retryAfter: String? = nil)
  /// It refuses the call.
  case refused(code: String, message: String)

  /// Classifies an answer that is not a success.
  init(status: Int, code: String?, message: String?, retryAfter: String?) {
    // A refusal without a message is not in Zulip's envelope, and comes from a proxy in between.
    let isForNow = status == 408 || status == 429 && code != APIError.Code.missingRealm
    guard (400..<500).contains(status), !isForNow, let message else {
      self = .failed(status: status, retryAfter: retryAfter)
      return
    }
    self = .refused(code: APIError.code(from: code), message: ForeignText(message).description)
  }

  package var description: String {
    switch self {
    case .unreachable(let reason): "the bouncer cannot be reached: \(reason)"
    case .failed(let status, _): "the bouncer failed with status \(status)"
    case .refused(let code, let message): "the bouncer refused: \(code): \(message)"
    }
  }

  /// Seconds to wait after this number of tries: at least as long as the bouncer asks for, and at most an
  /// hour.
  func pause(after tries: Int, _ backoff: Backoff, now: Date) -> TimeInterval {
    var start = now
    if case .failed(_, let text) = self { start = RetryAfter.date(text, now: now) ?? now }
    return min(start.timeIntervalSince(now) + backoff.pause(after: tries), RetryAfter.limit)
  }

  /// Whether the bouncer does not know the realm.
  var isMissingRealm: Bool {
    if case .refused(APIError.Code.missingRealm, _) = self { true } else { false }
  }

  /// Whether the bouncer does not have the token.
  var isMissingToken: Bool {
    if case .refused(_, APIError.tokenDoesNotExist.message) = self { true } else { false }
  }

  /// Whether the bouncer calls the token malformed.
  var isInvalidToken: Bool {
    if case .refused(_, PushToken.Malformed.length.description) = self { true } else { false }
  }

  /// The error that ends a registration for good; nil if it is to be tried again, because the bouncer is
  /// unavailable, or its operator has to admit this server or realm first.
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
