internal import Delivery
internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import Registrations
internal import Sealing
internal import Wire

extension ZulipBouncer {
  /// `POST push/notify`: sends a notification in clear to all devices of a user that have not moved on to
  /// end-to-end encryption, and tells which of those that the server believes in are not there
  /// (`Documentation/Protocols/Zulip.md` 7.5 and 8.1).
  func notifyLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    let body = try await Field.body(of: request, limit: configuration.maximumBodyBytes)
    let call = try LegacyCall(body)
    let query = try Parameters(query: request)
    let realm = try await legacyRealm(call.realmUUID, of: server, context)
    let reach = try await dependencies.legacy.reach(call.user, server: server.id, realm: realm)
    report(reach, realm, context.logger)
    let batch = try LegacyBatch(
      call.notification, to: reach.registrations, now: dependencies.now(), logger: context.logger)
    _ = try await deliver(batch.deliveries, of: server)
    func missing(_ tokens: [String], _ kind: PushToken.Kind) async -> JSON {
      do {
        let missing = try await dependencies.legacy.missing(
          tokens, kind: kind, of: call.user, server: server.id)
        return .array(missing.sorted().map(JSON.string))
      } catch {
        // What was sent was sent; the server asks with each notification.
        context.logger.warning(
          "tokens could not be looked up", metadata: ["error": "\(type(of: error))"])
        return []
      }
    }
    func total(_ kind: PushToken.Kind) -> JSON {
      .integer(Int64(reach.registrations.count { $0.token.kind == kind }))
    }
    return query.success([
      .init("total_android_devices", total(.fcm)), .init("total_apple_devices", total(.apns)),
      .init(
        "deleted_devices",
        [
          "android_devices": await missing(call.androidDevices, .fcm),
          "apple_devices": await missing(call.appleDevices, .apns),
        ]), .init("realm", realm == nil ? .null : Self.pushStatus),
    ])
  }

  /// `POST push/test_notification`: a test for one device of a user. Of a token that could not even be
  /// registered the server is told what it is told of one that is not: it may have kept such a one.
  func testLegacy(_ server: RemoteServer, _ request: Request, _ context: WireContext) async throws -> Response
  {
    let body = try await Field.body(of: request, limit: configuration.maximumBodyBytes)
    let (text, kind) = (try body["token"].string(), try body["token_kind"].integer())
    let user = try LegacyUser(id: try body["user_id"].integer(), uuidText: try body["user_uuid"].string())
    let realmUUID = try body["realm_uuid"].present?.string()
    let payload = try body["base_payload"].members()
    try body.forbidMembers(except: [
      "token", "token_kind", "user_id", "user_uuid", "realm_uuid", "base_payload",
    ])
    let query = try Parameters(query: request)
    let token = try? PushToken(text, legacyKind: kind)
    _ = try await legacyRealm(realmUUID, of: server, context)
    guard let token,
      let registration = try await dependencies.legacy.find(token, of: user, server: server.id)
    else {
      throw APIError(
        code: "INVALID_REMOTE_PUSH_DEVICE_TOKEN", "Device not recognized by the push bouncer")
    }
    let now = dependencies.now()
    let batch = try LegacyBatch(
      .test(payload, now: now), to: [registration], now: now, logger: context.logger)
    _ = try await deliver(batch.deliveries, of: server)
    return query.success()
  }

  private func report(_ reach: LegacyRegistrations.Reach, _ realm: RemoteRealm?, _ logger: Logger) {
    for (kind, count) in reach.superseded {
      logger.info(
        "legacy registrations have gone: their devices have end-to-end encrypted ones",
        metadata: ["count": "\(count)", "kind": "\(kind)", "realm": "\(realm?.id ?? 0)"])
    }
    if reach.folded > 0 {
      logger.info(
        "legacy registrations under a number have gone: there are ones under a UUID",
        metadata: ["count": "\(reach.folded)", "realm": "\(realm?.id ?? 0)"])
    }
    var faults = ItemFaults()
    for _ in 0..<reach.unreadable { faults.add(.unreadable) }
    faults.report(to: logger)
  }
}

/// The body of `push/notify`.
private struct LegacyCall {
  let user: LegacyUser
  let realmUUID: String?
  let notification: LegacyNotification
  /// Tokens that the server believes the user to have.
  let androidDevices: [String]
  let appleDevices: [String]

  init(_ body: Field) throws(APIError) {
    let (id, uuid) = (try body["user_id"].present?.integer(), try body["user_uuid"].present?.string())
    realmUUID = try body["realm_uuid"].present?.string()
    notification = try LegacyNotification(body)
    func tokens(_ name: String) throws(APIError) -> [String] {
      try body[name].ifSent?.map { token throws(APIError) in try token.string() } ?? []
    }
    androidDevices = try tokens("android_devices")
    appleDevices = try tokens("apple_devices")
    user = try LegacyUser(id: id, uuidText: uuid)
  }
}

extension LegacyNotification {
  /// A test for a device (`Documentation/Protocols/Zulip.md` 7.6).
  ///
  /// - Parameter base: what the server says of itself.
  fileprivate static func test(_ base: JSON.Object, now: Date) -> LegacyNotification {
    var payload = base
    payload["event"] = "test"
    var data = payload
    data["time"] = .integer(Int64(now.timeIntervalSince1970))
    let url = base["realm_url"] ?? base["realm_uri"] ?? ""
    let body =
      "This is a test notification from \((base["realm_name"] ?? "").pythonText) (\(url.pythonText))."
    return LegacyNotification(
      apns: [
        "alert": ["title": "Test notification", "body": .string(body)], "sound": "default",
        "custom": ["zulip": .object(payload)],
      ], fcm: data, options: ["priority": "high"])
  }
}
