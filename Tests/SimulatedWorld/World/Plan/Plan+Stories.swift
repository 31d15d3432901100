import Providers

/// Worlds with fixed events, for situations that random plans produce too rarely.
extension Plan {
  static let stories = ["bad-hour", "upstream-lies"]

  /// One of ``stories``; nil: there is none of that name.
  init?(story: String, seed: UInt64) {
    switch story {
    case "bad-hour": self.init(badHour: seed)
    case "upstream-lies": self.init(upstreamLies: seed)
    default: return nil
    }
  }

  /// Apple reports many tokens as dead, while Google refuses every token.
  private init(badHour seed: UInt64) {
    self.seed = seed
    (nodes, servers) = (1, 1)
    phones = (0..<80).map {
      PhonePlan(kind: $0.isMultiple(of: 2) ? .apns : .fcm, server: 0, user: $0, isLegacy: false)
    }
    let everybody = Event.Action.message(server: 0, users: Array(phones.indices))
    var actions: [(Double, Event.Action)] = phones.indices.map { (Double($0) / 20, .open($0)) }
    actions += [
      (10, everybody), (20, .trouble(.apns, .lyingDead, seconds: 120)),
      (20, .trouble(.fcm, .lyingSuspect, seconds: 120)), (25, everybody), (60, everybody),
    ]
    events = actions.enumerated().map { Event(number: $0, time: $1.0, action: $1.1) }
  }

  /// The vendor's bouncer, which has answered well, calls all devices gone.
  private init(upstreamLies seed: UInt64) {
    self.seed = seed
    (nodes, servers) = (1, 1)
    phones = (0..<80).map {
      PhonePlan(
        kind: $0.isMultiple(of: 2) ? .apns : .fcm, server: 0, user: $0, isLegacy: false, isOfStore: true)
    }
    upstream = UpstreamPlan(knowsRealms: true)
    let everybody = Event.Action.message(server: 0, users: Array(phones.indices))
    var actions: [(Double, Event.Action)] = phones.indices.map { (Double($0) / 20, .open($0)) }
    actions += [
      (10, everybody), (20, .upstreamTrouble(.lyingDead, seconds: 120)), (25, everybody), (60, everybody),
    ]
    events = actions.enumerated().map { Event(number: $0, time: $1.0, action: $1.1) }
  }
}
