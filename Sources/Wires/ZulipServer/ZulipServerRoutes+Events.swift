import Basics
import HTTP
import Hummingbird
import Registrations

/// A client's event queue (`Documentation/Protocols/Zulip.md` 10.3).
extension ZulipServerRoutes {
  /// Time after which a waiting client gets a heartbeat event.
  private static let heartbeat = Duration.seconds(50)

  /// Opens an event queue and returns the present state, as far as it concerns devices. Other event types may
  /// be requested, but never occur.
  func openQueue(_ user: User, _ parameters: inout Parameters, _ context: WireContext) async throws -> Members
  {
    let types = try parameters.eventTypes("event_types")
    let fetched = try parameters.eventTypes("fetch_event_types") ?? types
    parameters.ignore([
      "all_public_streams", "apply_markdown", "client_capabilities", "client_gravatar", "include_subscribers",
      "narrow", "presence_history_limit_days", "slim_presence",
    ])
    let queue = try await devices.openQueue(
      user: user.id, followsDevices: types?.contains("device") ?? true)
    var members: [JSON.Object.Member] = [
      .init("queue_id", .string(queue.id)), .init("last_event_id", .integer(queue.lastEvent)),
      .init("event_queue_longpoll_timeout_seconds", .integer(Self.heartbeat.components.seconds + 40)),
      .init("zulip_version", .string(Self.version)),
      .init("zulip_feature_level", .integer(Self.featureLevel)),
    ]
    if fetched?.contains("device") ?? true {
      let devices = queue.devices.map { device in
        JSON.Object.Member("\(device.id)", .object(JSON.Object(device.state.members())))
      }
      members.append(.init("devices", .object(JSON.Object(devices))))
    }
    return members
  }

  /// Waits for events after the client's last one, or answers with a heartbeat.
  func events(_ user: User, _ parameters: inout Parameters, _ context: WireContext) async throws -> Members {
    let queue = try parameters.required("queue_id")
    let last = try parameters.integer("last_event_id")
    let mayWait = try parameters.optionalJSON("dont_block")?.bool() != true
    @Sendable func found() async throws -> [JSON]? {
      guard let events = try await devices.events(queue: queue, user: user.id, after: last) else {
        throw APIError.badQueue(queue)
      }
      return events.isEmpty ? nil : events
    }
    var events = try await found()
    if events == nil, mayWait {
      // Listening starts before the first query, so that no event is missed.
      events =
        try await eventNotifier.listening(to: user.id) { rings in
          if let events = try await found() { return events }
          return try await withTimeout(Self.heartbeat) {
            for await _ in rings { if let events = try await found() { return events } }
            return nil
          } ?? nil
        } ?? nil
    }
    let answer = events ?? (mayWait ? [["type": "heartbeat", "id": .integer(last)]] : [])
    return [.init("events", .array(answer)), .init("queue_id", .string(queue))]
  }

  func closeQueue(_ user: User, _ parameters: inout Parameters, _ context: WireContext) async throws
    -> Members
  {
    let queue = try parameters.required("queue_id")
    guard try await devices.closeQueue(queue, user: user.id) else { throw APIError.badQueue(queue) }
    return []
  }
}

extension Parameters {
  /// A list of event types; nil stands for all.
  fileprivate mutating func eventTypes(_ name: String) throws -> Set<String>? {
    guard let field = try optionalJSON(name)?.present else { return nil }
    return Set(try field.elements().map { try $0.string() })
  }
}
