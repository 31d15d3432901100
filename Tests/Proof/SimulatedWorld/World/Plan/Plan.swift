import Providers

/// The participants and events of a world, all derived from a seed.
struct Plan: Sendable {
  struct PhonePlan: Sendable {
    var kind: Route.Provider
    let server: Int
    let user: Int
    var isLegacy: Bool
    /// Whether it has the store's app.
    var isOfStore = false
    /// Whether its app is the second of ours.
    var hasSecondApp = false
    /// The phone that it is a further account on.
    var shares: Int?
  }

  let seed: UInt64
  let nodes: Int
  var servers: Int
  var phones: [PhonePlan]
  var events: [Event]
  /// The phones of its Nextcloud server, if it has one.
  var nextcloud: [NextcloudPhonePlan] = []
  /// The phones of its built-in chat server, if it has one.
  var chat: [ChatPhonePlan] = []
  /// The phones of its built-in Nextcloud server, if it has one.
  var nextcloudChat: [NextcloudChatPhonePlan] = []
  /// The phones of the Web Push gateway, if it has any.
  var gateway: [GatewayPhonePlan] = []
  /// The upstream bouncer, if there is one.
  var upstream: UpstreamPlan?
  /// Senders whose devices their provider refuses.
  var strangers: [StrangerPlan] = []
  /// The chat servers with their realms, if there are several tenants.
  var tenants: TenantsPlan?
  /// Whether nothing but strangers and the upstream bouncer disturbs the service.
  var isCalm = false

  /// - Parameter steps: how many events; nil: as the seed has it.
  init(seed: UInt64, steps: Int? = nil) {
    var random = WorldRandom(seed: seed, "plan")
    self.seed = seed
    let isCrowd = random.chance(0.1)
    nodes = random.int(in: 1...2)
    servers = random.int(in: 1...2)
    let users = isCrowd ? random.int(in: 40...60) : random.int(in: 2...6)
    var phones: [PhonePlan] = []
    for user in 0..<users {
      for _ in 0..<(random.chance(0.25) ? 2 : 1) {
        phones.append(
          PhonePlan(
            kind: random.chance(0.5) ? .apns : .fcm, server: user % servers, user: user,
            isLegacy: random.chance(0.2)))
      }
    }
    self.phones = phones
    let count = steps ?? random.int(in: isCrowd ? 6...20 : 10...40)
    var time = 0.0
    var actions: [(Double, Event.Action)] = phones.indices.map { (random.seconds(0...5), .open($0)) }
    for _ in 0..<count {
      // Most come close together.
      time += random.chance(0.7) ? random.seconds(0...4) : random.seconds(4...120)
      actions.append(
        (
          5 + time,
          Self.action(&random, nodes: nodes, servers: servers, phones: phones.count, users: users, isCrowd)
        ))
    }
    actions.sort { $0.0 < $1.0 }
    events = actions.enumerated().map { Event(number: $0, time: $1.0, action: $1.1) }
    nameTimes()
  }

  /// Adds events; those that were there keep their numbers.
  mutating func add(_ more: [(Double, Event.Action)]) {
    let first = (events.map(\.number).max() ?? -1) + 1
    events += more.enumerated().map { Event(number: first + $0, time: $1.0, action: $1.1) }
    events.sort { ($0.time, $0.number) < ($1.time, $1.number) }
  }

  private static func action(
    _ random: inout WorldRandom, nodes: Int, servers: Int, phones: Int, users: Int, _ isCrowd: Bool
  ) -> Event.Action {
    let phone = random.int(in: 0...phones - 1)
    let node = random.int(in: 0...nodes - 1)
    let provider: Route.Provider = random.chance(0.5) ? .apns : .fcm
    let seconds = random.chance(0.6) ? random.seconds(1...20) : random.seconds(20...200)
    let server = random.int(in: 0...servers - 1)
    switch random.int(in: 0...99) {
    case ..<45:
      let most = isCrowd ? users : 3
      let some = (0..<random.int(in: 1...most)).map { _ in random.int(in: 0...users - 1) }
      return .message(
        server: server, users: isCrowd && random.chance(0.5) ? Array(0..<users) : Array(Set(some)).sorted())
    case ..<50: return .open(phone)
    case ..<53: return .changeToken(phone)
    case ..<55: return .reinstall(phone)
    case ..<57: return .logOut(phone)
    case ..<59: return .logIn(phone)
    case ..<61: return .uninstall(phone)
    case ..<65: return .comeBack(phone)
    case ..<67: return .update(phone)
    case ..<83: return .trouble(provider, trouble(&random), seconds: seconds)
    case ..<90: return .kill(node, seconds: random.seconds(0...30))
    case ..<92: return .cut(node, seconds: seconds)
    case ..<94: return .clock(node, by: random.seconds(-7200...7200), seconds: seconds * 3)
    case ..<95: return .databaseAway(seconds: random.seconds(1...30))
    case ..<96: return .databaseFull(seconds: random.seconds(1...30))
    case ..<97: return .databaseSlow(seconds: seconds)
    case ..<98: return .databaseLosesAnswers(percent: random.int(in: 10...60), seconds: seconds)
    default: return .pass(seconds: random.seconds(60...900))
    }
  }

  static func trouble(_ random: inout WorldRandom) -> Trouble {
    switch random.int(in: 0...11) {
    case 0, 1: .unreachable
    case 2: .silent
    case 3: .slow
    case 4: .late
    case 5, 6: .losingAnswers
    case 7, 8: .failing(random.pick([500, 502, 503, 403, 404]))
    case 9: .overloaded(seconds: random.int(in: 1...120))
    case 10: random.chance(0.5) ? .lyingDead : .lyingSuspect
    default: .refusing("PayloadEmpty")
    }
  }
}
