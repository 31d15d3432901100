package import Foundation
package import HTTP
package import Registrations
package import Sealing

extension Notifier {
  /// What became of a notification to old apps.
  package struct LegacyResult: Sendable, Hashable {
    /// Tokens it was for.
    package var devices = 0
    /// Registrations with APNs that the bouncer has sent to.
    package var apple = 0
    /// Registrations with FCM that it has sent to.
    package var android = 0
    /// Tokens that the bouncer does not have, or no longer; they are forgotten.
    package var gone = 0

    /// As the backend API tells it.
    package var json: JSON {
      [
        "devices": .integer(Int64(devices)), "total_apple_devices": .integer(Int64(apple)),
        "total_android_devices": .integer(Int64(android)), "deleted_devices": .integer(Int64(gone)),
      ]
    }
  }

  /// Sends to these tokens of a user, and returns which of them the bouncer does not have.
  func send(
    _ message: LegacyMessage, to tokens: [PushToken], of user: User
  ) async throws -> (result: LegacyResult, missing: Set<PushToken>) {
    // Nobody is there: the bouncer need not be asked (`Documentation/Protocols/Zulip.md` 10.6).
    guard !tokens.isEmpty else { return (LegacyResult(), []) }
    guard let bouncer else { throw APIError.pushServiceNotConfigured }
    let receipt = try await bouncer.realms.providing {
      try await bouncer.client.notifyLegacy(user, message.reduced(to: tokens), tokens: tokens)
    }
    try await devices.legacyTokens.forget(Array(receipt.missing), user: user.id)
    let result = LegacyResult(
      devices: tokens.count, apple: receipt.apple, android: receipt.android, gone: receipt.missing.count)
    return (result, receipt.missing)
  }

  /// The devices that have replaced old apps with these tokens, without the known ones. The bouncer has their
  /// registrations already, even if this side has not been told yet.
  func successors(of tokens: [LegacyToken], _ user: User, except known: [Device]) async throws -> [Device] {
    let known = Set(known.map(\.id))
    return try await devices.snapshot(user: user.id).devices.compactMap { device in
      guard !known.contains(device.id) else { return nil }
      let id = [device.state.tokenID, device.state.pendingTokenID].compactMap(\.self).first { id in
        tokens.contains { $0.isMeant(by: id) }
      }
      return id.map(device.reached)
    }
  }
}

/// A notification as old apps read it, in clear (`Documentation/Protocols/Zulip.md` 7.5).
package struct LegacyMessage: Sendable {
  /// For APNs: `aps` and, in `custom`, what stands beside it.
  package private(set) var apns: JSON.Object
  /// For FCM: `data`, whose values the bouncer makes text.
  package private(set) var fcm: JSON.Object
  /// For FCM: how urgent it is.
  package let fcmOptions: JSON.Object

  /// Reads `{"apns_payload", "gcm_payload", "gcm_options"}`, each of which may be missing.
  package init(_ field: Field) throws(APIError) {
    try field.forbidMembers(except: ["apns_payload", "gcm_payload", "gcm_options"])
    func object(_ name: String) throws(APIError) -> JSON.Object { try field[name].present?.members() ?? [:] }
    (apns, fcm, fcmOptions) = (
      try object("apns_payload"), try object("gcm_payload"), try object("gcm_options")
    )
    guard !apns.members.isEmpty || !fcm.members.isEmpty else {
      throw field.error("wants apns_payload or gcm_payload")
    }
  }

  /// The same without what there is no device for.
  func reduced(to tokens: [PushToken]) -> LegacyMessage {
    var message = self
    if !tokens.contains(where: { $0.kind == .apns }) { message.apns = [:] }
    if !tokens.contains(where: { $0.kind == .fcm }) { message.fcm = [:] }
    return message
  }
}

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
