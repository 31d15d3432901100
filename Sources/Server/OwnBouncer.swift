import Foundation
import HTTP
import HTTPTypes
import Logging
import Registrations
import Sealing
import ZulipBouncer
import ZulipServer

/// This program's own bouncer, as the built-in chat-server side uses it: the same rules as for any bouncer, but
/// called directly, without encoding requests and without credentials.
struct OwnBouncer: Bouncer {
  let bouncer: ZulipBouncerRoutes
  /// The chat server that it acts as.
  let server: UUID
  let logger: Logger

  func register(_ sealed: String, tokenID: TokenID, publicKey: String, realm: UUID) async throws {
    try await call { server in
      try await bouncer.register(sealed, tokenID: tokenID, publicKey: publicKey, realm: realm, of: server)
    }
  }

  func notify(realm: UUID, _ notifications: [SealedNotification]) async throws -> NotificationReceipt {
    var request = NotifyRequest()
    for notification in notifications { request.add(try NotifyRequest.Item(notification)) }
    return try await call { server in
      let receipt = try await bouncer.notify(request, realm: realm, of: server, logger: logger)
      return NotificationReceipt(apple: receipt.apple, android: receipt.android, gone: receipt.gone)
    }
  }

  func upload(_ realms: [(realm: ChatRealm, ownerSecret: String)]) async throws {
    let upload = AnalyticsUpload(
      version: ZulipServerRoutes.version, apiFeatureLevel: ZulipServerRoutes.featureLevel,
      realms: realms.map { RealmDescription($0, ownerSecret: $1) })
    try await call { try await bouncer.store(upload, of: $0, logger: logger) }
  }

  func registerLegacy(
    _ token: PushToken, iosAppID: String?, of user: LegacyUser, realm: UUID
  ) async throws {
    try await call { server in
      try await bouncer.registerLegacy(
        token, iosAppID: iosAppID, for: user, realm: realm, of: server, logger: logger)
    }
  }

  func unregisterLegacy(_ token: PushToken?, of user: LegacyUser, realm: UUID) async throws {
    try await call { try await bouncer.unregisterLegacy(token, for: user, of: $0) }
  }

  func notifyLegacy(
    _ user: User, _ message: LegacyMessage, tokens: [PushToken]
  ) async throws -> LegacyNotificationReceipt {
    try await call { server in
      let notification = try LegacyNotification(
        Field(
          [
            "apns_payload": .object(message.apns), "gcm_payload": .object(message.fcm),
            "gcm_options": .object(message.fcmOptions),
          ], path: "request"))
      let receipt = try await bouncer.notifyLegacy(
        notification, to: user.legacyUser,
        believedIn: Dictionary(grouping: tokens, by: \.kind).mapValues { $0.map(\.text) },
        realm: user.realm.uuid, of: server, logger: logger)
      return LegacyNotificationReceipt(
        apple: receipt.reached[.apns] ?? 0, android: receipt.reached[.fcm] ?? 0,
        missing: Set(
          receipt.missing.flatMap { kind, texts in
            texts.compactMap { try? PushToken($0, kind: kind) }
          }))
    }
  }

  func testLegacy(_ token: PushToken, of user: User, _ payload: JSON.Object) async throws {
    try await call { server in
      try await bouncer.testLegacy(
        token, of: user.legacyUser, payload, realm: user.realm.uuid, of: server, logger: logger)
    }
  }

  /// Makes a call; an error of the bouncer means the same as over the wire.
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

extension NotifyRequest.Item {
  fileprivate init(_ notification: SealedNotification) throws(ItemFault) {
    let told = notification.shape
    let shape: Shape =
      switch notification.kind {
      case .apns: .apns(pushType: told.apnsPushType, priority: told.apnsPriority, aps: told.aps)
      case .fcm: .fcm(priority: told.fcmPriority)
      }
    try self.init(
      tokenID: notification.tokenID, pushKeyID: notification.pushKeyID,
      encryptedData: notification.encryptedData, shape)
  }
}

extension RealmDescription {
  fileprivate init(_ realm: ChatRealm, ownerSecret: String) {
    self.init(
      realmID: realm.id, uuid: realm.uuid, ownerSecret: ownerSecret, host: realm.host, name: realm.name,
      orgType: 0, dateCreated: realm.createdAt, isDeactivated: false, isSystemBotRealm: false,
      authenticationMethods: "{}")
  }
}
