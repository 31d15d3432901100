import Providers

extension Plan {
  struct GatewayPhonePlan: Sendable {
    let kind: Route.Provider
    let user: Int
    /// Whether its app seals its token to the bouncer's key.
    let isSealed: Bool
    /// Whether its app names the key of the sender, which alone may send then.
    let namesSender: Bool
  }

  /// A message as a Web Push sender posts it.
  struct WebPushPlan: Sendable, CustomStringConvertible {
    /// Seconds.
    var timeToLive = 600
    var urgency: String?
    var topic: String?
    /// Of the body.
    var bytes = 400
    /// Whether it is encrypted as the draft had it: `aesgcm`.
    var isOfDraft = false
    /// Whether the sender tries again after 429, 5xx or no answer.
    var isRetried = false

    init() {}

    init(_ random: inout WorldRandom) {
      timeToLive =
        random.chance(0.2) ? 0 : random.pick([random.int(in: 1...60), random.int(in: 60...900), 86_400])
      urgency = random.pick([nil, "very-low", "low", "normal", "high"])
      topic = random.chance(0.4) ? random.pick(["a", "conversation_1"]) : nil
      bytes = random.pick([
        random.int(in: 103...1500), random.int(in: 2900...3100), random.int(in: 3100...4096), 4096,
      ])
      isOfDraft = random.chance(0.2)
      isRetried = random.chance(0.5)
    }

    var description: String {
      "\(bytes) bytes for \(timeToLive) s\(urgency.map { ", \($0)" } ?? "")\(topic.map { ", topic \($0)" } ?? "")"
    }
  }

  /// Adds phones whose messages come through the Web Push gateway, and what they and their sender do; everything else stays
  /// as it was.
  mutating func addGateway() {
    var random = WorldRandom(seed: seed, "gateway")
    let users = random.int(in: 1...4)
    gateway = (0..<users).flatMap { user in
      (0..<(random.chance(0.3) ? 2 : 1)).map { _ in
        GatewayPhonePlan(
          kind: random.chance(0.5) ? .apns : .fcm, user: user, isSealed: random.chance(0.5),
          namesSender: random.chance(0.3))
      }
    }
    let end = max(events.last?.time ?? 0, 30)
    var more: [(Double, Event.Action)] = gateway.indices.map {
      (random.seconds(0...5), .open(Gateway.firstPhone + $0))
    }
    for _ in 0..<random.int(in: 10...40) {
      let phone = Gateway.firstPhone + random.int(in: 0...gateway.count - 1)
      let event: Event.Action =
        switch random.int(in: 0...99) {
        case ..<60: .webPush(WebPushPlan(&random), users: (0..<users).filter { _ in random.chance(0.6) })
        case ..<66: .open(phone)
        case ..<76: .changeToken(phone)
        case ..<80: .reinstall(phone)
        case ..<85: .logOut(phone)
        case ..<90: .logIn(phone)
        case ..<94: .uninstall(phone)
        default: .comeBack(phone)
        }
      more.append((5 + random.unit() * end, event))
    }
    add(more)
  }
}
