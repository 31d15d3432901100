internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import Providers
internal import Registrations
internal import Sealing

/// What old apps register with (`Documentation/Protocols/Zulip.md` 10.8).
extension ZulipServerRoutes {
  /// `POST users/me/apns_device_token`
  func addAPNsToken(_ user: User, _ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let app = try parameters.required("appid")
    guard AppID.isValid(app) else { throw APIError.invalidFormat("appid") }
    let token = try Self.token(try parameters.required("token"), .apns)
    try await add(LegacyToken(token, iosAppID: app), of: user)
    return parameters.success()
  }

  /// `POST users/me/android_gcm_reg_id`
  func addFCMToken(_ user: User, _ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let token = try Self.token(try parameters.required("token"), .fcm)
    try await add(LegacyToken(token, iosAppID: nil), of: user)
    return parameters.success()
  }

  /// `DELETE users/me/apns_device_token`
  func removeAPNsToken(_ user: User, _ request: Request, _ context: WireContext) async throws -> Response {
    try await remove(.apns, of: user, request)
  }

  /// `DELETE users/me/android_gcm_reg_id`
  func removeFCMToken(_ user: User, _ request: Request, _ context: WireContext) async throws -> Response {
    try await remove(.fcm, of: user, request)
  }

  /// `POST mobile_push/test_notification`: to one old app of the user, or to all.
  func sendLegacyTest(_ user: User, _ request: Request, _ context: WireContext) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let text = parameters.optional("token")
    let tokens = try await dependencies.devices.legacyTokens.tokens(of: user.id).map(\.token).filter {
      text == nil || $0.text == text
    }
    if text != nil, tokens.isEmpty {
      throw APIError.unknownToken
    }
    guard let bouncer = dependencies.notifier.bouncer else { throw APIError.pushServiceNotConfigured }
    let host = URL(string: user.realm.url)?.host() ?? user.realm.url
    let payload: JSON.Object = [
      "server": .string(host), "realm_id": .integer(user.realm.id), "realm_uri": .string(user.realm.url),
      "realm_url": .string(user.realm.url), "realm_name": .string(user.realm.name),
      "user_id": .integer(user.userID),
    ]
    for token in tokens {
      do {
        try await bouncer.realms.providing { try await bouncer.client.testLegacy(token, of: user, payload) }
      } catch let error as BouncerError {
        throw APIError(legacy: error)
      }
    }
    return parameters.success()
  }

  private func add(_ token: LegacyToken, of user: User) async throws {
    do {
      try await dependencies.devices.legacyTokens.add(token, user: user)
    } catch is LegacyTokens.TooMany {
      throw APIError.tooManyTokens
    }
    guard let bouncer = dependencies.notifier.bouncer else { return }
    do {
      try await bouncer.realms.providing {
        try await bouncer.client.registerLegacy(
          token.token, iosAppID: token.iosAppID, of: user.legacyUser, realm: user.realm.uuid)
      }
    } catch let error as BouncerError {
      // Else the row stays: the app comes again, and until then the bouncer says that it does not have it.
      if error.isInvalidToken {
        try await dependencies.devices.legacyTokens.forget([token.token], user: user.id)
      }
      throw APIError(legacy: error)
    }
  }

  /// It is gone here when this returns, and will be at the bouncer: what cannot be told now is kept.
  private func remove(_ kind: PushToken.Kind, of user: User, _ request: Request) async throws -> Response {
    var parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let token = try Self.token(try parameters.required("token"), kind)
    let wasThere = try await dependencies.devices.legacyTokens.remove(token, user: user)
    dependencies.unregistrar?.wake()
    if !wasThere { try await checkAtBouncer(token, of: user) }
    return parameters.success()
  }

  /// A token that this side does not have may still be the bouncer's; whether it was is the answer.
  private func checkAtBouncer(_ token: PushToken, of user: User) async throws {
    guard let bouncer = dependencies.notifier.bouncer else {
      throw APIError.tokenDoesNotExist
    }
    do {
      try await bouncer.client.unregisterLegacy(token, of: user.legacyUser, realm: user.realm.uuid)
    } catch let error as BouncerError {
      throw APIError(legacy: error)
    }
  }

  private static func token(_ text: String, _ kind: PushToken.Kind) throws(APIError) -> PushToken {
    do {
      let token = try PushToken(text, kind: kind)
      if kind == .fcm, WebPushSubscription.isToken(text) { _ = try WebPushSubscription(token: text) }
      return token
    } catch {
      throw APIError(((error as? PushToken.Malformed) ?? .length).description)
    }
  }
}
