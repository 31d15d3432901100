import Providers

extension Plan {
  struct UpstreamPlan: Sendable {
    /// Whether the upstream bouncer knows the servers' realms from the beginning; else when they are reported.
    let knowsRealms: Bool
    /// How it answers the calls of strangers' chat servers, whose contents may be what brings that about; nil: as those of others.
    var toStrangers: UpstreamTrouble?
    /// Whether it has no faults but that.
    var isCalm = false
  }

  /// Adds the upstream bouncer and its bad days, and gives some phones the store's app; everything else stays as it was.
  /// In some of these worlds nothing else goes wrong, so that nothing but that bouncer could make a notification late.
  mutating func addUpstream() {
    var random = WorldRandom(seed: seed, "upstream")
    upstream = UpstreamPlan(knowsRealms: random.chance(0.7))
    if random.chance(0.3) {
      isCalm = true
      events.removeAll { $0.action.isTrouble }
    }
    for phone in phones.indices {
      phones[phone].isOfStore = random.chance(0.5)
      // More old apps than elsewhere, and of one user: what goes to them is one call.
      if random.chance(0.3) { phones[phone].isLegacy = true }
      if phone > 0, phones[phone].user == phones[phone - 1].user, random.chance(0.7) {
        phones[phone].isOfStore = phones[phone - 1].isOfStore
        phones[phone].isLegacy = phones[phone - 1].isLegacy
      }
    }
    guard !phones.isEmpty else { return }
    let end = min(max(events.last?.time ?? 0, 60), 900)
    let users = (phones.map(\.user).max() ?? 0) + 1
    var more: [(Double, Event.Action)] = (0..<servers).map { (random.seconds(0...300), .report(server: $0)) }
    for phone in phones.indices where phones[phone].isLegacy && phones[phone].isOfStore {
      if random.chance(0.3) { more.append((5 + random.unit() * end, .update(phone))) }
    }
    for _ in 0..<random.int(in: 1...6) {
      let time = 3 + random.unit() * end
      let seconds = random.chance(0.6) ? random.seconds(1...20) : random.seconds(20...200)
      more.append((time, .upstreamTrouble(UpstreamTrouble(&random), seconds: seconds)))
      for _ in 0..<random.int(in: 1...4) {
        let phone = random.int(in: 0...phones.count - 1)
        let event: Event.Action =
          switch random.int(in: 0...19) {
          case ..<10:
            .message(
              server: random.int(in: 0...servers - 1),
              users: (0..<users).filter { _ in random.chance(0.7) })
          case ..<12: .open(phone)
          case ..<14: .changeToken(phone)
          case ..<15: .reinstall(phone)
          case ..<16: .logOut(phone)
          case ..<17: .logIn(phone)
          default: .update(phone)
          }
        more.append((time + random.seconds(0...seconds + 5), event))
      }
    }
    upstream?.isCalm = isCalm && !strangers.isEmpty && random.chance(0.7)
    if upstream?.isCalm == true { more.removeAll { if case .upstreamTrouble = $0.1 { true } else { false } } }
    add(more)
    addClaims()
  }

  /// Has strangers' chat servers name others' tokens as devices of their own users, of the store's app.
  private mutating func addClaims() {
    var random = WorldRandom(seed: seed, "claims")
    let claimants = strangers.indices.filter { strangers[$0].chatServer != nil }
    guard !claimants.isEmpty else { return }
    upstream?.toStrangers = random.pick([nil, nil, .failing(500), .failing(502), .nonsense, .silent, .late])
    let end = max(events.last?.time ?? 0, 60)
    add(
      claimants.flatMap { stranger in
        (0..<random.int(in: 1...10)).map { _ in (10 + random.unit() * end, .hostile(.claim(stranger))) }
      })
  }
}

/// A fault of the upstream bouncer.
enum UpstreamTrouble: Hashable, Sendable, CustomStringConvertible {
  case unreachable
  /// Accepts connections and never answers.
  case silent
  case slow
  /// Answers so slowly that nearly every call times out.
  case late
  /// Half of the answers are lost; most of their calls have taken effect.
  case losingAnswers
  /// Half of the calls that are answered 502 have taken effect.
  case failing(Int)
  /// 401: accepts nobody's key.
  case refusingKeys
  case overloaded(seconds: Int)
  /// Says of every device that it does not know it.
  case lyingDead
  /// Does what it is asked, and also names devices that it was not asked about as gone.
  case namingOthers
  /// 200, and no answer that a bouncer gives. Half of the calls have taken effect.
  case nonsense

  init(_ random: inout WorldRandom) {
    self =
      switch random.int(in: 0...16) {
      case 0, 1: .unreachable
      case 2: .silent
      case 3: .slow
      case 4: .late
      case 5, 6: .losingAnswers
      case 7, 8: .failing(random.pick([500, 502, 503]))
      case 9: .refusingKeys
      case 10: .overloaded(seconds: random.int(in: 1...120))
      case 11, 12: .lyingDead
      case 13...15: .namingOthers
      default: .nonsense
      }
  }

  var description: String {
    switch self {
    case .unreachable: "cannot be reached"
    case .silent: "answers nothing"
    case .slow: "is slow"
    case .late: "takes about a minute for an answer"
    case .losingAnswers: "loses answers"
    case .failing(let status): "answers \(status)"
    case .refusingKeys: "refuses every server's key"
    case .overloaded(let seconds): "answers 429, Retry-After \(seconds)"
    case .lyingDead: "calls every device gone"
    case .namingOthers: "calls devices gone that it was not asked about"
    case .nonsense: "answers nonsense"
    }
  }
}
