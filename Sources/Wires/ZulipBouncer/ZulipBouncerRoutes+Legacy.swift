import Basics
import Delivery
import Foundation
import HTTP
import HTTPClient
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Providers
import Registrations
import SQL
import Sealing

/// `push/...` for old apps (`Documentation/Protocols/Zulip.md` 7).
extension ZulipBouncerRoutes {
  func registerLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = try await parameters(of: request)
    let names = try LegacyNames(&parameters)
    let (text, kind) = try parameters.legacyToken()
    let appID = parameters.optional("ios_app_id")
    if let appID, !AppID.isValid(appID) { throw APIError.invalidFormat("ios_app_id") }
    let token = try PushToken(text, legacyKind: kind)
    if token.kind == .apns, appID == nil { throw APIError.missingParameter("ios_app_id") }
    let user = try names.user()
    if names.realmUUID != nil, user.uuid == nil { throw APIError.missingParameter("user_uuid") }
    context.notes.record(realm: names.realm)
    try await bouncer.registerLegacy(
      token, iosAppID: appID, for: user, realm: names.realm, with: parameters.undeclared, of: server,
      logger: context.logger)
    return parameters.success(noting: context.notes)
  }

  func unregisterLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = try await parameters(of: request)
    let (text, kind) = try parameters.legacyToken()
    let names = try LegacyNames(&parameters)
    let token = try PushToken(text, legacyKind: kind)
    try await bouncer.unregisterLegacy(
      token, for: try names.user(), with: parameters.undeclared, of: server)
    return parameters.success(noting: context.notes)
  }

  func unregisterAllLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = try await parameters(of: request)
    let user = try LegacyNames(&parameters).user()
    try await bouncer.unregisterLegacy(nil, for: user, with: parameters.undeclared, of: server)
    return parameters.success(noting: context.notes)
  }

  func notifyLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    let body = try await body(of: request)
    let names = try LegacyNames(body)
    var notification = try LegacyNotification(body)
    func tokens(_ name: String) throws(APIError) -> [String] {
      var tokens: [String] = []
      for token in try body[name].ifSent?.elements().map(\.self) ?? [] { tokens.append(try token.string()) }
      return tokens
    }
    let believed = [
      PushToken.Kind.fcm: try tokens("android_devices"), .apns: try tokens("apple_devices"),
    ]
    let user = try names.user()
    context.notes.record(realm: names.realm)
    let known: [Name] = [
      "user_id", "user_uuid", "realm_uuid", "gcm_payload", "apns_payload", "gcm_options", "android_devices",
      "apple_devices",
    ]
    notification.more = Additions.members(of: body.value, except: known)
    var additions = Additions()
    additions.addMembers(of: body.value, except: known)
    notification.addUnknownOptions(in: &additions)
    context.notes.record(additions)
    let query = try Parameters(query: request)
    let receipt = try await bouncer.notifyLegacy(
      notification, to: user, believedIn: believed, realm: names.realm, of: server, since: context.received,
      logger: context.logger)
    func missing(_ kind: PushToken.Kind) -> JSON { .array((receipt.missing[kind] ?? []).map(JSON.string)) }
    return query.success(
      [
        .init("total_android_devices", .integer(Int64(receipt.android))),
        .init("total_apple_devices", .integer(Int64(receipt.apple))),
        .init(
          "deleted_devices", ["android_devices": missing(.fcm), "apple_devices": missing(.apns)]),
        .init("realm", receipt.hasRealm ? Self.pushStatus : .null),
      ], noting: context.notes)
  }

  /// A malformed token gets the same answer as one that is not registered, because the server may have stored
  /// one.
  func testLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    let body = try await body(of: request)
    let text = try body["token"].string()
    let kind = try body["token_kind"].integer()
    _ = (try body["user_id"].integer(), try body["user_uuid"].string())
    let names = try LegacyNames(body)
    let user = try names.user()
    let payload = try body["base_payload"].members()
    let known: [Name] = ["token", "token_kind", "user_id", "user_uuid", "realm_uuid", "base_payload"]
    var additions = Additions()
    additions.addMembers(of: body.value, except: known)
    context.notes.record(additions)
    let query = try Parameters(query: request)
    try await bouncer.testLegacy(
      try? PushToken(text, legacyKind: kind), of: user, payload,
      with: Additions.members(of: body.value, except: known), realm: names.realm, of: server,
      since: context.received, logger: context.logger)
    return query.success(noting: context.notes)
  }
}

/// The user and realm of a legacy call, as its server names them (`Documentation/Protocols/Zulip.md` 7.1).
struct LegacyNames {
  let userID: Int64?
  let userUUID: String?
  let realmUUID: String?

  init(_ form: inout Parameters) throws(APIError) {
    userID = try form.optionalInteger("user_id")
    userUUID = form.optional("user_uuid")
    realmUUID = form.optional("realm_uuid")
  }

  init(_ body: Field) throws(APIError) {
    userID = try body["user_id"].present?.integer()
    userUUID = try body["user_uuid"].present?.string()
    realmUUID = try body["realm_uuid"].present?.string()
  }

  /// The realm; an invalid UUID counts as an unknown realm, which is ignored.
  var realm: UUID? { realmUUID.flatMap(UUID.init(pythonText:)) }

  /// The user. Call it after all other checks, whose errors come first.
  func user() throws(APIError) -> LegacyUser {
    guard let user = try optionalUser() else { throw .missingParameter("user_id or user_uuid") }
    return user
  }

  func optionalUser() throws(APIError) -> LegacyUser? {
    let uuid = userUUID.flatMap(UUID.init(pythonText:))
    if userUUID != nil, uuid == nil { throw .invalidFormat("user_uuid") }
    return LegacyUser(id: userID, uuid: uuid)
  }
}

extension Parameters {
  /// A token and Zulip's number of its kind, not validated yet.
  fileprivate mutating func legacyToken() throws(APIError) -> (text: String, kind: Int64) {
    (try text("token", .stripped()), try integer("token_kind"))
  }
}

extension PushToken {
  fileprivate init(_ text: String, legacyKind: Int64) throws(APIError) {
    guard let kind = Kind(storage: legacyKind) else { throw APIError("Invalid token type") }
    do {
      self = try PushToken(text, kind: kind)
    } catch {
      throw APIError(error.description)
    }
  }
}
