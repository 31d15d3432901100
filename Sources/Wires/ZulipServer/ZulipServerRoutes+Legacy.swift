import Foundation
import HTTP
import Hummingbird
import Providers
import Registrations
import Sealing
import ZulipBouncer

/// Endpoints for old apps (`Documentation/Protocols/Zulip.md` 10.8).
extension ZulipServerRoutes {
  func addAPNsToken(_ user: User, _ parameters: inout Parameters, _ context: WireContext) async throws
    -> Members
  {
    let app = try parameters.required("appid")
    guard AppID.isValid(app) else { throw APIError.invalidFormat("appid") }
    try await add(LegacyToken(token: try parameters.legacyToken(.apns), iosAppID: app), of: user)
    return []
  }

  func addFCMToken(_ user: User, _ parameters: inout Parameters, _ context: WireContext) async throws
    -> Members
  {
    try await add(LegacyToken(token: try parameters.legacyToken(.fcm), iosAppID: nil), of: user)
    return []
  }

  private func add(_ token: LegacyToken, of user: User) async throws {
    try await devices.legacyTokens.add(token, user: user)
    guard let bouncer = notifier.bouncer else { return }
    do {
      try await bouncer.providingRealms {
        try await bouncer.calls.registerLegacy(token, of: user.legacyUser, realm: user.realm.uuid)
      }
    } catch let error as BouncerError {
      // After other errors the row stays: the app tries again, and until then the bouncer reports the token
      // as missing.
      if error.isInvalidToken {
        try await devices.legacyTokens.forget([token.token], user: user.id)
      }
      throw APIError(legacy: error)
    }
  }

  /// Removes a token here at once, and at the bouncer as soon as possible. A token that this side does not
  /// have is unregistered at the bouncer directly, and the answer says whether the bouncer had it.
  func removeLegacyToken(_ kind: PushToken.Kind) -> UserHandler {
    { user, parameters, _ in
      let token = try parameters.legacyToken(kind)
      let wasThere = try await devices.legacyTokens.remove(token, user: user)
      notifier.bouncer?.wakeUnregistrations()
      guard !wasThere else { return [] }
      guard let bouncer = notifier.bouncer else { throw APIError.tokenDoesNotExist }
      do {
        try await bouncer.calls.unregisterLegacy(token, of: user.legacyUser, realm: user.realm.uuid)
      } catch let error as BouncerError {
        throw APIError(legacy: error)
      }
      return []
    }
  }

  /// Sends a test to one old app of the user, or to all.
  func sendLegacyTest(_ user: User, _ parameters: inout Parameters, _ context: WireContext) async throws
    -> Members
  {
    let text = parameters.optional("token")
    let tokens = try await devices.legacyTokens.tokens(of: user.id).map(\.token).filter {
      text == nil || $0.text == text
    }
    if text != nil, tokens.isEmpty {
      throw APIError(code: "INVALID_PUSH_DEVICE_TOKEN", "Device not recognized")
    }
    guard let bouncer = notifier.bouncer else { throw APIError.pushServiceNotConfigured }
    let host = URL(string: user.realm.url)?.host() ?? user.realm.url
    let payload: JSON.Object = [
      "server": .string(host), "realm_id": .integer(user.realm.id), "realm_uri": .string(user.realm.url),
      "realm_url": .string(user.realm.url), "realm_name": .string(user.realm.name),
      "user_id": .integer(user.userID),
    ]
    for token in tokens {
      do {
        try await bouncer.providingRealms { try await bouncer.calls.testLegacy(token, of: user, payload) }
      } catch let error as BouncerError {
        throw APIError(legacy: error)
      }
    }
    return []
  }
}

extension Parameters {
  fileprivate mutating func legacyToken(_ kind: PushToken.Kind) throws(APIError) -> PushToken {
    let text = try required("token")
    do {
      let token = try PushToken(text, kind: kind)
      if case .webPush(let text) = token { _ = try WebPushSubscription(token: text) }
      return token
    } catch {
      throw APIError(((error as? PushToken.Malformed) ?? .length).description)
    }
  }
}
