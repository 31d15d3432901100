internal import Foundation
internal import HTTPTypes
internal import Hummingbird
internal import Logging
internal import Registrations
internal import Sealing
internal import Wire

extension ZulipBouncer {
  /// `POST push/register`: keeps an old app's token (`Documentation/Protocols/Zulip.md` 7.2).
  func registerLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = LegacyParameters(try await .read(from: request, limit: configuration.maximumBodyBytes))
    try parameters.readUser()
    let (text, kind) = try parameters.readToken()
    let appID = try parameters.readAppID()
    let token = try PushToken(text, legacyKind: kind)
    if token.kind == .apns, appID == nil { throw APIError("Missing ios_app_id") }
    let user = try parameters.user()
    if parameters.realmUUID != nil, user.uuid == nil { throw APIError("Missing user_uuid") }
    let realm = try await legacyRealm(parameters.realmUUID, of: server, context)
    try await dependencies.legacy.register(token, iosAppID: appID, for: user, server: server.id, realm: realm)
    return parameters.form.success()
  }

  /// `POST push/unregister`: forgets a token of a user (7.3).
  func unregisterLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = LegacyParameters(try await .read(from: request, limit: configuration.maximumBodyBytes))
    let (text, kind) = try parameters.readToken()
    try parameters.readUser()
    let token = try PushToken(text, legacyKind: kind)
    let user = try parameters.user()
    guard try await dependencies.legacy.unregister(token, of: user, server: server.id) > 0 else {
      throw APIError("Token does not exist")
    }
    return parameters.form.success()
  }

  /// `POST push/unregister/all`: forgets all tokens of a user (7.4).
  func unregisterAllLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = LegacyParameters(try await .read(from: request, limit: configuration.maximumBodyBytes))
    try parameters.readUser()
    try await dependencies.legacy.unregisterAll(of: try parameters.user(), server: server.id)
    return parameters.form.success()
  }

  /// The realm that a legacy call names. One that nobody has told of is not needed for it; another
  /// server's is refused.
  func legacyRealm(
    _ text: String?, of server: RemoteServer, _ context: WireContext
  ) async throws -> RemoteRealm? {
    guard let text else { return nil }
    guard let uuid = UUID(pythonText: text),
      case let ownership = try await dependencies.realms.find(uuid: uuid, server: server.id),
      ownership != .unknown
    else {
      context.logger.info("a legacy call names an unknown realm", metadata: ["server": "\(server.uuid)"])
      return nil
    }
    return try await realm(named: text, of: server)
  }
}
