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
    let (realm, user) = (names.realmUUID, try names.optionalUser())
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
      .init("registrations", .array(registrations.map(\.json))),
      .init("next", .optional(end?.text)),
      .init("routes", .array(routes.map(\.json))),
      .init(
        "last_24_hours",
        [
          "handed_in": .integer(sent), "refused": .integer(refused),
          "latest_refusals": .array(refusals.map(\.json)),
          "refused_registrations": .array(refusedRegistrations.map(\.json)),
        ]),
      .init(
        "pace",
        pace.map {
          [
            "notifications": .integer(Int64($0.calls)), "seconds": .integer(Int64($0.seconds)),
            "delay": .integer(Int64(delay.rounded(.up))),
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
  fileprivate var json: JSON {
    var json: JSON.Object = ["provider": .string(provider.rawValue), "target": .optional(target)]
    let failure = state == nil ? (reason: Reason.unconfigured, since: nil) : state?.failure
    switch state {
    case nil: json["state"] = "unconfigured"
    case .unknown: json["state"] = "unknown"
    case .ok: json["state"] = "ok"
    case .failing: json["state"] = "failing"
    case .open: json["state"] = "open"
    }
    json["since"] = .time(failure?.since)
    json["reason"] = .optional(failure?.reason.rawValue)
    json["meaning"] = .optional(failure?.reason.explanation.meaning)
    return .object(json)
  }
}

extension PushProviders.RouteState {
  fileprivate var failure: (reason: Reason, since: Date?)? {
    switch self {
    case .unknown, .ok: nil
    case .failing(let reason, let since), .open(let reason, let since): (reason, since)
    }
  }
}

extension FoundDevice {
  fileprivate var json: JSON {
    [
      "registration": .string(name), "kind": .string("\(kind)"), "state": .string(state.rawValue),
      "explanation": .string(advice), "provider": .string(provider), "app": .optional(app),
      "push_service": .optional(provider == Route.Provider.webPush.rawValue ? target : nil),
      "realm_uuid": .optional(realm?.uuid), "user": .optional(user), "token_id": .optional(tokenID?.base64),
      "registered_at": .time(registeredAt), "last_accepted_at": .time(deliveredAt),
      "last_failure": Self.json(failure), "not_believed_yet": Self.json(held), "ended_at": .time(endedAt),
      "waiting": .integer(waiting), "waiting_since": .time(waitingSince), "waiting_for": waitingFor,
    ]
  }

  /// Why the notification that is due first waits, and until when.
  private var waitingFor: JSON {
    guard let waitReason, let waitExplanation else { return .null }
    return [
      "reason": .string(waitReason), "until": .time(waitingUntil),
      "meaning": .string(waitExplanation.meaning),
    ]
  }

  private static func json(_ failure: Failure?) -> JSON {
    failure.map {
      ["reason": .string($0.reason), "at": .time($0.at), "meaning": .string($0.explanation.meaning)]
    } ?? .null
  }
}

extension JSON {
  /// RFC 3339 in UTC, to the second.
  fileprivate static func time(_ date: Date?) -> JSON {
    date.map { .string($0.formatted(.iso8601)) } ?? .null
  }
}
