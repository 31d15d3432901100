internal import Foundation
internal import HTTP
internal import HTTPTypes
internal import Hummingbird
package import Logging
package import Registrations

extension ZulipBouncerRoutes {
  /// `GET server/analytics/status`: how far a server's reports have come
  /// (`Documentation/Protocols/Zulip.md` 4.1).
  func analyticsStatus(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    let parameters = try await Parameters.read(from: request, limit: configuration.maximumBodyBytes)
    let status = try await dependencies.analytics.status(server: server.id)
    return parameters.success([
      .init("last_realm_count_id", .integer(status.lastRealmCountID)),
      .init("last_installation_count_id", .integer(status.lastInstallationCountID)),
      .init("last_realmauditlog_id", .integer(status.lastAuditEventID)),
    ])
  }

  /// `POST server/analytics` (`Documentation/Protocols/Zulip.md` 4.2).
  func uploadAnalytics(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    let sent = try await Parameters.read(from: request, limit: configuration.maximumAnalyticsBytes)
    let (upload, parameters) = try await LongRead.of(sent.bytes) {
      var parameters = sent
      return (try AnalyticsUpload(&parameters), parameters)
    }
    try await store(upload, of: server, logger: context.logger)
    let realms = (upload.realms ?? []).map { JSON.Object.Member($0.uuid.canonical, Self.pushStatus) }
    return parameters.success([.init("realms", .object(JSON.Object(realms)))])
  }

  /// Takes what a server reports of itself and its realms.
  package func store(_ upload: AnalyticsUpload, of server: RemoteServer, logger: Logger) async throws {
    do {
      for takeover in try await dependencies.analytics.store(upload, server: server.id) {
        logger.notice(
          "realm taken over from another server",
          metadata: [
            "realm": "\(takeover.realm.canonical)", "server": "\(server.uuid.canonical)",
            "registrations_kept": "\(takeover.keepsRegistrations)",
          ])
      }
    } catch let refusal as Analytics.Refusal {
      throw APIError(refusal)
    } catch let duplicate as RealmSync.DuplicateRealm {
      throw APIError.duplicateRealm(duplicate.realm)
    }
  }

  /// Everybody may push, for ever: there are no plans here (`Documentation/Decisions` 0021).
  static var pushStatus: JSON { ["can_push": true, "expected_end_timestamp": nil] }
}
