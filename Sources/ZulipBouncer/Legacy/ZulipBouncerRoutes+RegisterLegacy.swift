package import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
package import Logging
package import Registrations
package import Sealing

extension ZulipBouncerRoutes {
  /// `POST push/register` (`Documentation/Protocols/Zulip.md` 7.2).
  func registerLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = LegacyParameters(try await .read(from: request, limit: configuration.maximumBodyBytes))
    try parameters.readUser()
    let (text, kind) = try parameters.readToken()
    let appID = try parameters.readAppID()
    let token = try PushToken(text, legacyKind: kind)
    if token.kind == .apns, appID == nil { throw APIError.missingParameter("ios_app_id") }
    let user = try parameters.user()
    if parameters.realmUUID != nil, user.uuid == nil { throw APIError.missingParameter("user_uuid") }
    context.notes.note(realm: parameters.realm)
    try await registerLegacy(
      token, iosAppID: appID, for: user, realm: parameters.realm, of: server, logger: context.logger)
    return parameters.form.success()
  }

  /// Keeps an old app's token.
  package func registerLegacy(
    _ token: PushToken, iosAppID: String?, for user: LegacyUser, realm: UUID?, of server: RemoteServer,
    logger: Logger
  ) async throws {
    let realm = try await legacyRealm(realm, of: server, logger)
    guard await accepts(token) else { throw APIError.invalidToken }
    try await dependencies.registrations.register(
      token, iosAppID: iosAppID, for: user, server: server.id, realm: realm)
  }

  /// `POST push/unregister` (7.3).
  func unregisterLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = LegacyParameters(try await .read(from: request, limit: configuration.maximumBodyBytes))
    let (text, kind) = try parameters.readToken()
    try parameters.readUser()
    let token = try PushToken(text, legacyKind: kind)
    try await unregisterLegacy(token, for: try parameters.user(), of: server)
    return parameters.form.success()
  }

  /// `POST push/unregister/all` (7.4).
  func unregisterAllLegacy(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    var parameters = LegacyParameters(try await .read(from: request, limit: configuration.maximumBodyBytes))
    try parameters.readUser()
    try await unregisterLegacy(nil, for: try parameters.user(), of: server)
    return parameters.form.success()
  }

  /// Forgets a token of a user, if it is there; nil stands for all of them.
  package func unregisterLegacy(
    _ token: PushToken?, for user: LegacyUser, of server: RemoteServer
  ) async throws {
    guard let token else {
      return try await dependencies.registrations.unregister(nil, of: user, server: server.id)
    }
    // One that has given way to an encrypted registration is gone already.
    try await dependencies.registrations.unregister(token, of: user, server: server.id)
  }

  /// The realm that a legacy call names. One that nobody has told of is not needed for it; another
  /// server's is refused.
  func legacyRealm(
    _ uuid: UUID?, of server: RemoteServer, _ logger: Logger
  ) async throws -> RemoteRealm? {
    guard let uuid else { return nil }
    guard try await dependencies.realms.find(uuid: uuid, server: server.id) != .unknown else {
      logger.info("a legacy call names an unknown realm", metadata: ["server": "\(server.uuid)"])
      return nil
    }
    return try await caller(uuid, of: server)
  }
}
