import Providers

/// Stories of troubles that last, which random plans do not have or have too rarely.
extension Plan {
  static let slowStories: [String: @Sendable (UInt64) -> Plan] = [
    "slow-deaths": { Plan(slowDeaths: $0) }, "long-outage": { Plan(longOutage: $0) },
    "stale-lease": { Plan(staleLease: $0) }, "clock-set-back": { Plan(clockSetBack: $0) },
    "doubted-clock": { Plan(doubtedClock: $0) }, "unproven-route": { Plan(unprovenRoute: $0) },
    "many-leave": { Plan(manyLeave: $0) }, "many-wait": { Plan(manyWait: $0) },
    "odd-answers": { Plan(oddAnswers: $0) }, "asked-to-wait": { Plan(askedToWait: $0) },
  ]

  /// Has some providers name a time with their 503; everything else stays as it was.
  mutating func nameTimes() {
    var random = WorldRandom(seed: seed, "named times")
    events = events.map { event in
      guard case .trouble(let provider, .failing(503), let seconds) = event.action, random.chance(0.5) else {
        return event
      }
      let busy = Trouble.busy(seconds: random.int(in: 1...300))
      return Event(
        number: event.number, time: event.time, action: .trouble(provider, busy, seconds: seconds))
    }
  }

  /// Phones that register within the first seconds, each of another user, every other one Apple's.
  private init(story seed: UInt64, nodes: Int, phones count: Int, _ actions: [(Double, Event.Action)]) {
    self.seed = seed
    (self.nodes, servers, events) = (nodes, 1, [])
    phones = (0..<count).map {
      PhonePlan(kind: $0.isMultiple(of: 2) ? .apns : .fcm, server: 0, user: $0, isLegacy: false)
    }
    add(phones.indices.map { (Double($0) / 20, .open($0)) } + actions)
  }

  private static func message(_ users: some Sequence<Int>) -> Event.Action {
    .message(server: 0, users: Array(users))
  }

  /// Apple calls tokens dead for ten minutes, one every few seconds.
  private init(slowDeaths seed: UInt64) {
    let users = 0..<80
    self.init(
      story: seed, nodes: 1, phones: users.count,
      [(10, Self.message(users)), (20, .trouble(.apns, .lyingDead, seconds: 640))]
        + users.map { (30 + Double($0) * 7, Self.message([$0])) })
  }

  /// Google cannot be reached for five hours, while Apple answers 503. Messages are written before, meanwhile and
  /// afterwards.
  private init(longOutage seed: UInt64) {
    let (start, hours) = (60.0, 5 * 3600.0)
    let times = stride(from: start + 10, to: start + hours + 3600, by: 200)
    self.init(
      story: seed, nodes: 2, phones: 6,
      [
        (10, Self.message(0..<6)), (start, .trouble(.fcm, .unreachable, seconds: hours)),
        (start, .trouble(.apns, .failing(503), seconds: hours)),
      ] + times.enumerated().map { ($1, Self.message([$0 % 6, ($0 + 3) % 6])) })
  }

  /// A node does not reach the database when its requests have failed. When it is back, another node has taken its
  /// entries over and waits for its provider.
  private init(staleLease seed: UInt64) {
    let users = 0..<24
    self.init(
      story: seed, nodes: 2, phones: users.count,
      [
        (10, .trouble(.fcm, .unreachable, seconds: 10)), (10, .trouble(.apns, .unreachable, seconds: 10)),
        (12, Self.message(users)), (14, Self.message(users)),
        (20, .trouble(.fcm, .silent, seconds: 70)), (20, .trouble(.apns, .silent, seconds: 70)),
        (40, .cut(0, seconds: 72)),
        (90, .trouble(.fcm, .slow, seconds: 200)), (90, .trouble(.apns, .slow, seconds: 200)),
      ] + (0..<10).map { (100 + Double($0) * 4, Self.message(users)) })
  }

  /// A node postpones notifications while its clock is ahead by less than the longest pause.
  private init(clockSetBack seed: UInt64) {
    self.init(
      story: seed, nodes: 1, phones: 8,
      [
        (10, .trouble(.fcm, .unreachable, seconds: 300)), (10, .trouble(.apns, .failing(500), seconds: 300)),
        (12, Self.message(0..<8)), (20, .clock(0, by: 5400, seconds: 200)), (60, Self.message(0..<8)),
      ])
  }

  /// Notifications wait, and tokens die, while the node's clock is ahead.
  private init(doubtedClock seed: UInt64) {
    self.init(
      story: seed, nodes: 1, phones: 8,
      [
        (10, .trouble(.fcm, .unreachable, seconds: 400)), (12, Self.message(0..<8)),
        (20, .trouble(.apns, .lyingDead, seconds: 200)),
        (40, .clock(0, by: 7000, seconds: 300)), (60, Self.message(0..<8)), (500, Self.message(0..<8)),
      ])
  }

  /// A node that has delivered nothing yet is told that all tokens are wrong.
  private init(unprovenRoute seed: UInt64) {
    self.init(
      story: seed, nodes: 1, phones: 8,
      [
        (8, .trouble(.apns, .lyingSuspect, seconds: 60)), (8, .trouble(.fcm, .lyingSuspect, seconds: 60)),
        (10, Self.message(0..<8)), (30, Self.message(0..<8)),
      ])
  }

  /// Most phones remove their app at once, so that their deaths are held back until they are said again an hour later.
  private init(manyLeave seed: UInt64) {
    let users = 0..<120
    self.init(
      story: seed, nodes: 1, phones: users.count,
      [(10, Self.message(users))] + users.dropLast(6).map { (20 + Double($0) / 10, .uninstall($0)) }
        + [(40, Self.message(users)), (50, Self.message(users))])
  }

  /// More notifications wait for two phones than may wait for one.
  private init(manyWait seed: UInt64) {
    self.init(
      story: seed, nodes: 1, phones: 2,
      [(10, .trouble(.apns, .unreachable, seconds: 60)), (10, .trouble(.fcm, .unreachable, seconds: 60))]
        + (0..<110).map { (12 + Double($0) / 4, Self.message(0..<2)) })
  }

  /// Each provider gives each of its odd answers for some seconds. In between what has ended is registered again.
  private init(oddAnswers seed: UInt64) {
    var actions: [(Double, Event.Action)] = [(5, Self.message(0..<6))]
    for (provider, answers) in [(Route.Provider.apns, OddAnswer.apns), (.fcm, OddAnswer.fcm)] {
      for number in answers.indices {
        let start = 10 + Double(number) * 60
        actions += [
          (start, .trouble(provider, .odd(number), seconds: 8)), (start + 1, Self.message(0..<6)),
          (start + 9, Self.message(0..<6)),
        ]
        actions += (0..<6).map { (start + 15 + Double($0) / 10, .open($0)) }
        actions += [(start + 50, Self.message(0..<6))]
      }
    }
    self.init(story: seed, nodes: 1, phones: 6, actions)
  }

  /// Providers name times, in answers about a token and about themselves. The last messages find everything well again.
  private init(askedToWait seed: UInt64) {
    let troubles: [(Double, Event.Action)] = [
      (20, .trouble(.apns, .overloaded(seconds: 90), seconds: 20)),
      (20, .trouble(.fcm, .busy(seconds: 40), seconds: 30)),
      (300, .trouble(.fcm, .overloaded(seconds: 121), seconds: 20)),
      (300, .trouble(.apns, .busy(seconds: 61), seconds: 30)),
    ]
    let times =
      Array(stride(from: 10, to: 130, by: 6)) + Array(stride(from: 290, to: 450, by: 6)) + [520, 540]
    self.init(
      story: seed, nodes: 2, phones: 8,
      troubles + times.map { (Double($0), Self.message(0..<8)) }
        + [(545, .pass(seconds: 600))])
  }
}
