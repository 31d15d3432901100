package import Foundation
package import HTTP
package import Registrations
package import Sealing

extension BouncerClient {
  /// Tells of a token of an old app (`Documentation/Protocols/Zulip.md` 7.2).
  package func registerLegacy(
    _ token: PushToken, iosAppID: String?, of user: LegacyUser, realm: UUID
  ) async throws {
    var form = Self.form(user, realm) + Self.form(token)
    if let id = iosAppID { form.append(("ios_app_id", id)) }
    _ = try await post("push/register", "application/x-www-form-urlencoded", Form.encode(form))
  }

  /// Tells that a token is no longer used (7.3); nil stands for all of the user's (7.4).
  package func unregisterLegacy(_ token: PushToken?, of user: LegacyUser, realm: UUID) async throws {
    let form = Self.form(user, realm) + (token.map(Self.form) ?? [])
    _ = try await post(
      token == nil ? "push/unregister/all" : "push/unregister", "application/x-www-form-urlencoded",
      Form.encode(form))
  }

  /// Sends a notification in clear to all old apps of a user (7.5).
  package func notifyLegacy(
    _ user: User, _ message: LegacyMessage, tokens: [PushToken]
  ) async throws -> LegacyNotificationReceipt {
    func list(_ kind: PushToken.Kind) -> JSON {
      .array(tokens.filter { $0.kind == kind }.map { .string($0.text) })
    }
    let body: JSON = [
      "user_uuid": .string(user.uuid.canonical), "user_id": .integer(user.userID),
      "realm_uuid": .string(user.realm.uuid.canonical), "apns_payload": .object(message.apns),
      "gcm_payload": .object(message.fcm), "gcm_options": .object(message.fcmOptions),
      "android_devices": list(.fcm), "apple_devices": list(.apns),
    ]
    let answer = try await post("push/notify", "application/json", body.bytes)
    guard let apple = answer["total_apple_devices"]?.integer,
      let android = answer["total_android_devices"]?.integer, let missing = answer["deleted_devices"]
    else { throw BouncerError.failed(status: 200) }
    func absent(_ name: String, _ kind: PushToken.Kind) -> [PushToken] {
      guard case .array(let texts)? = missing[name] else { return [] }
      return texts.compactMap { $0.string.flatMap { try? PushToken($0, kind: kind) } }
    }
    return LegacyNotificationReceipt(
      apple: Int(clamping: apple), android: Int(clamping: android),
      missing: Set(absent("apple_devices", .apns) + absent("android_devices", .fcm)))
  }

  /// Sends a test to one token (7.6).
  package func testLegacy(_ token: PushToken, of user: User, _ payload: JSON.Object) async throws {
    let body: JSON = [
      "user_uuid": .string(user.uuid.canonical), "user_id": .integer(user.userID),
      "realm_uuid": .string(user.realm.uuid.canonical), "token": .string(token.text),
      "token_kind": .integer(token.kind.storage), "base_payload": .object(payload),
    ]
    _ = try await post("push/test_notification", "application/json", body.bytes)
  }

  private static func form(_ user: LegacyUser, _ realm: UUID) -> [(String, String)] {
    var form = [("realm_uuid", realm.canonical)]
    if let uuid = user.uuid { form.append(("user_uuid", uuid.canonical)) }
    if let id = user.id { form.append(("user_id", "\(id)")) }
    return form
  }

  private static func form(_ token: PushToken) -> [(String, String)] {
    [("token", token.text), ("token_kind", "\(token.kind.storage)")]
  }
}

extension User {
  /// As a bouncer is told who it is.
  package var legacyUser: LegacyUser { LegacyUser(id: userID, uuid: uuid) }
}
