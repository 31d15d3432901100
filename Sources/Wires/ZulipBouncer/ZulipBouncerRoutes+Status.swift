internal import Delivery
internal import Foundation
internal import HTTP
internal import Hummingbird
internal import Providers
internal import Registrations
internal import Sealing

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
    return parameters.success(status.members, noting: context.notes)
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
  fileprivate var members: [JSON.Object.Member] {
    [
      .init("registrations", .array(registrations.map { .object($0.json(for: .chatServer)) })),
      .init("next", .optional(end?.text)),
      .init("routes", .array(routes.map { .object($0.json) })),
      .init(
        "last_24_hours",
        [
          "handed_in": .integer(sent), "refused": .integer(refused),
          "latest_refusals": .array(refusals.map { .object($0.json(for: .chatServer)) }),
          "refused_registrations": .array(refusedRegistrations.map(\.json)),
        ]),
      .init(
        "pace",
        pace.map {
          [
            "notifications": .integer(Int64($0.calls)), "seconds": .integer(Int64($0.seconds)),
            "delay_seconds": .integer(Int64(delay.rounded(.up))),
          ]
        } ?? .null),
    ]
  }
}

extension HourlyCounts.RefusedRegistrations {
  fileprivate var json: JSON {
    [
      "code": .string(refusal.rawValue), "count": .integer(count), "latest_hour": .time(latest),
      "meaning": .string(refusal.meaning),
    ]
  }
}

extension PushStatus.RouteHealth {
  fileprivate var json: JSON.Object {
    var json = StatusReport(state, target: target, for: .chatServer).json
    json["provider"] = .string(provider.rawValue)
    return json
  }
}
