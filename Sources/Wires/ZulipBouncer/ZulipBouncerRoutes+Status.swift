import Basics
import Delivery
import Foundation
package import HTTP
import Hummingbird
import Providers
import Registrations
import Sealing

/// `push/status`, which only this bouncer has (`Documentation/Protocols/Zulip.md` 9.4).
extension ZulipBouncerRoutes {
  func status(
    _ server: RemoteServer, _ request: Request, _ context: WireContext
  ) async throws -> Response {
    try statuses.check(server.id)
    var parameters = try Parameters(query: request)
    let selection = try await selection(&parameters, of: server)
    let last = try parameters.optional("after").map { text throws(APIError) in
      guard let mark = DeviceSearch.Mark(text) else { throw .invalid("after") }
      return mark
    }
    let limit = try parameters.optionalInteger("limit") ?? Int64(PushStatus.maximumRegistrations)
    guard (1...Int64(PushStatus.maximumRegistrations)).contains(limit) else {
      throw APIError.invalid("limit")
    }
    let status = try await bouncer.status(of: server, selection, after: last, limit: Int(limit))
    return parameters.success(PushStatus.members.object(status).members, noting: context.notes)
  }

  /// The narrowest selection that the parameters name.
  private func selection(
    _ parameters: inout Parameters, of server: RemoteServer
  ) async throws -> DeviceSearch.Selection {
    let names = try LegacyNames(&parameters)
    let realm = names.realmUUID
    let user = try names.optionalUser()
    let token = parameters.optional("token_id")
    guard [realm, token].count(where: { $0 != nil }) + (user == nil ? 0 : 1) <= 1 else {
      throw APIError("Only one of realm_uuid, token_id and a user may be given")
    }
    if let realm {
      return .realm(try await bouncer.realm(UUID(pythonText: realm), of: server).id, server: server.id)
    }
    if let token {
      guard let id = TokenID(base64: token) else { throw APIError.invalidFormat("token_id") }
      return .token(id, server: server.id)
    }
    return user.map { .user($0, server: server.id) } ?? .server(server.id)
  }
}

extension PushStatus {
  package static var members: [JSONMember<PushStatus>] {
    let registrations = FoundDevice.members(for: .chatServer)
    return [
      .list("registrations", "the encrypted ones, then the legacy ones", of: registrations) {
        $0.registrations
      },
      .member("next", "the `after` of the next call; null at the end") { $0.end?.text },
      .list("routes", "the ways to the providers that these registrations need", of: RouteHealth.members) {
        $0.routes
      },
      .object("last_24_hours", "of all of the server's notifications; up to a minute behind", of: lastDay) {
        $0
      },
      .object("pace", "so many notifications in so many seconds; null without a limit", orNull: paceMembers) {
        status in status.pace.map { Pace(limit: $0, delay: status.delay) }
      },
    ]
  }

  private static var lastDay: [JSONMember<PushStatus>] {
    [
      .member("handed_in", "notifications that the server has handed in") { $0.sent },
      .member("refused", "how many of these were refused at once") { $0.refused },
      .list(
        "latest_refusals", "the 20 registrations with the latest refusals, the newest first",
        of: FoundDevice.members(for: .chatServer)
      ) { $0.refusals },
      .list(
        "refused_registrations",
        "calls to register a device that were refused for good, by the code of the answer",
        of: HourlyCounts.RefusedRegistrations.members
      ) { $0.refusedRegistrations },
    ]
  }

  private struct Pace {
    let limit: RateLimit
    let delay: TimeInterval
  }

  private static var paceMembers: [JSONMember<Pace>] {
    [
      .member("notifications") { $0.limit.calls }, .member("seconds") { Int($0.limit.seconds) },
      .member("delay_seconds", "by how many seconds the next one would be late") {
        Int($0.delay.rounded(.up))
      },
    ]
  }
}

extension HourlyCounts.RefusedRegistrations {
  fileprivate static var members: [JSONMember<Self>] {
    [
      .member(
        "code", .oneOf(RegistrationRefusal.self), "`OTHER` stands for all that have no meaning of their own"
      ) {
        .string($0.refusal.rawValue)
      },
      .member("count") { $0.count }, .member("latest_hour", "the hour of the last one") { $0.latest },
      .member("meaning", "in a sentence") { $0.refusal.meaning },
    ]
  }
}

extension PushStatus.RouteHealth {
  fileprivate static var members: [JSONMember<Self>] {
    [.member("provider", .oneOf(Route.Provider.self)) { .string($0.provider.rawValue) }]
      + StatusReport.members(StatusReport.routeStatuses + ["unconfigured"]).of {
        StatusReport($0.state, target: $0.target, for: .chatServer)
      }
  }
}
