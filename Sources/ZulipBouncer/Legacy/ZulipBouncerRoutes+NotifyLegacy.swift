internal import Delivery
package import Foundation
package import HTTP
internal import HTTPTypes
internal import Hummingbird
package import Logging
internal import Providers
package import Registrations
internal import SQL
package import Sealing

/// What became of a notification in clear.
package struct LegacyReceipt: Sendable {
  /// The user's registrations of each kind that it went to.
  package let reached: [PushToken.Kind: Int]
  /// Tokens that the server believes in and that are not there.
  package let missing: [PushToken.Kind: [String]]
  /// Whether the realm is known.
  let hasRealm: Bool

  /// As chat servers are told.
  var members: [JSON.Object.Member] {
    func total(_ kind: PushToken.Kind) -> JSON { .integer(Int64(reached[kind] ?? 0)) }
    func missing(_ kind: PushToken.Kind) -> JSON { .array((self.missing[kind] ?? []).map(JSON.string)) }
    return [
      .init("total_android_devices", total(.fcm)), .init("total_apple_devices", total(.apns)),
      .init("deleted_devices", ["android_devices": missing(.fcm), "apple_devices": missing(.apns)]),
      .init("realm", hasRealm ? ZulipBouncerRoutes.pushStatus : .null),
    ]
  }
}

extension ZulipBouncerRoutes {
  /// `POST push/notify` (`Documentation/Protocols/Zulip.md` 7.5 and 8.1).
  func notifyLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    let body = try await Field.body(of: request, limit: configuration.maximumBodyBytes)
    let call = try LegacyCall(body)
    context.notes.note(realm: call.realm)
    let query = try Parameters(query: request)
    let receipt = try await notifyLegacy(
      call.notification, to: call.user, believedIn: call.tokens, realm: call.realm, of: server,
      since: context.received, logger: context.logger)
    return query.success(receipt.members)
  }

  /// Sends a notification in clear to all devices of a user that have not moved on to end-to-end encryption,
  /// and tells which of those that the server believes in are not there.
  package func notifyLegacy(
    _ notification: LegacyNotification, to user: LegacyUser, believedIn tokens: [PushToken.Kind: [String]],
    realm: UUID?, of server: RemoteServer, since received: ContinuousClock.Instant = .now, logger: Logger
  ) async throws -> LegacyReceipt {
    let realm = try await legacyRealm(realm, of: server, logger)
    let reach = try await dependencies.registrations.reach(user, server: server.id, realm: realm)
    report(reach, realm, logger)
    let batch = try LegacyBatch(
      notification, to: reach.registrations, of: .chatServer(server.id), now: dependencies.now(),
      logger: logger)
    _ = try await deliver(batch.deliveries, of: server, since: received)
    var missing: [PushToken.Kind: [String]] = [:]
    for (kind, tokens) in tokens {
      do {
        missing[kind] = try await dependencies.registrations.missing(
          tokens, kind: kind, of: user, server: server.id
        ).sorted()
      } catch {
        // What was sent was sent; the server asks with each notification.
        logger.warning(
          "tokens could not be looked up", metadata: ["error": "\(DatabaseError.name(of: error))"])
      }
    }
    return LegacyReceipt(
      reached: Dictionary(grouping: reach.registrations, by: \.token.kind).mapValues(\.count),
      missing: missing, hasRealm: realm != nil)
  }

  /// `POST push/test_notification` (7.6). A token that could not even be registered gets the same answer as one that is
  /// not registered: the server may have kept one like it.
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
    try await testLegacy(
      try? PushToken(text, legacyKind: kind), of: user, payload,
      realm: realmUUID.flatMap(UUID.init(pythonText:)), of: server, since: context.received,
      logger: context.logger)
    return query.success()
  }

  /// Sends a test to one device of a user; nil is one that is not there.
  package func testLegacy(
    _ token: PushToken?, of user: LegacyUser, _ payload: JSON.Object, realm: UUID?, of server: RemoteServer,
    since received: ContinuousClock.Instant = .now, logger: Logger
  ) async throws {
    _ = try await legacyRealm(realm, of: server, logger)
    guard let token,
      let registration = try await dependencies.registrations.find(token, of: user, server: server.id)
    else {
      throw APIError.unknownLegacyDevice
    }
    let now = dependencies.now()
    let batch = try LegacyBatch(
      .test(payload, now: now), to: [registration], of: .chatServer(server.id), now: now, logger: logger)
    _ = try await deliver(batch.deliveries, of: server, since: received)
  }

  private func report(_ reach: RegistrationStore.Reach, _ realm: RemoteRealm?, _ logger: Logger) {
    for (kind, count) in reach.superseded {
      logger.info(
        "legacy registrations removed: their devices have end-to-end encrypted ones",
        metadata: ["count": .stringConvertible(count), "kind": "\(kind)", "realm": "\(realm?.id ?? 0)"])
    }
    if reach.folded > 0 {
      logger.info(
        "legacy registrations under a user's number removed: the same devices are registered under a UUID",
        metadata: ["count": .stringConvertible(reach.folded), "realm": "\(realm?.id ?? 0)"])
    }
    var faults = ItemFaults()
    for _ in 0..<reach.unreadable { faults.add(.unreadable) }
    faults.report(to: logger)
  }
}

/// The body of `push/notify`.
private struct LegacyCall {
  let user: LegacyUser
  let realm: UUID?
  let notification: LegacyNotification
  /// Those that the server believes the user to have.
  let tokens: [PushToken.Kind: [String]]

  init(_ body: Field) throws(APIError) {
    let (id, uuid) = (try body["user_id"].present?.integer(), try body["user_uuid"].present?.string())
    realm = try (body["realm_uuid"].present?.string()).flatMap(UUID.init(pythonText:))
    notification = try LegacyNotification(body)
    func tokens(_ name: String) throws(APIError) -> [String] {
      try body[name].ifSent?.map { token throws(APIError) in try token.string() } ?? []
    }
    self.tokens = [.fcm: try tokens("android_devices"), .apns: try tokens("apple_devices")]
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
