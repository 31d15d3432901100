import Providers

/// Worlds with fixed events, for situations that random plans produce too rarely.
extension Plan {
  static let stories = ["bad-hour", "upstream-lies", "other-names"] + slowStories.keys.sorted()

  /// One of ``stories``; nil: there is none of that name.
  init?(story: String, seed: UInt64) {
    switch story {
    case "bad-hour": self.init(badHour: seed)
    case "upstream-lies": self.init(upstreamLies: seed)
    case "other-names": self.init(otherNames: seed)
    default:
      guard let plan = Self.slowStories[story] else { return nil }
      self = plan(seed)
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

  /// What waits for a registration waits on when another one takes its place: while Apple fails, a server begins to name
  /// a user by UUID, and an old app is updated at a server that leaves old apps registered. Another app comes back with its
  /// token, is registered without having been removed, and is called dead for a while, as of before. At last a realm moves
  /// to a server where another user has the number under which one of its users is registered.
  private init(otherNames seed: UInt64) {
    self.seed = seed
    nodes = 1
    let tenants = TenantsPlan(servers: 3, realms: 1, numbered: [0], sharesUUIDs: false)
    (self.tenants, servers) = (tenants, 3)
    phones = (0..<5).map { PhonePlan(kind: .apns, server: $0 % 3, user: $0, isLegacy: true) }
    let everybody = (0..<3).map { Event.Action.message(server: $0, users: [$0, $0 + 3]) }
    var actions: [(Double, Event.Action)] = phones.indices.map { (Double($0), .open($0)) }
    actions += [(10, .trouble(.apns, .failing(503), seconds: 60))] + everybody.map { (12, $0) }
    actions += [
      (20, .tenant(.learnUUIDs(0))), (21, .tenant(.respell(0, .upper))), (30, .update(1)), (40, everybody[1]),
      (200, .comeBack(2)), (201.5, .kill(0, seconds: 1)), (210, .open(2)), (215, everybody[2]),
      (220, everybody[0]), (230, .tenant(.move(0, to: 1, isSwitchedOff: false))), (250, everybody[1]),
    ]
    events = actions.enumerated().map { Event(number: $0, time: $1.0, action: $1.1) }
  }

  /// The upstream bouncer, which has answered well, calls all devices gone.
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
