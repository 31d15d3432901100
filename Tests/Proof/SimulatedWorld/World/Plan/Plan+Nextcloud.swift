import Providers

extension Plan {
  struct NextcloudPhonePlan: Sendable {
    let kind: Route.Provider
    let user: Int
  }

  /// Adds a Nextcloud server, its phones and what they do; everything else stays as it was.
  mutating func addNextcloud() {
    var random = WorldRandom(seed: seed, "nextcloud")
    let users = random.int(in: 1...4)
    nextcloud = (0..<users).flatMap { user in
      (0..<(random.chance(0.3) ? 2 : 1)).map { _ in
        NextcloudPhonePlan(kind: random.chance(0.5) ? .apns : .fcm, user: user)
      }
    }
    let end = max(events.last?.time ?? 0, 30)
    var more: [(Double, Event.Action)] = nextcloud.indices.map {
      (random.seconds(0...5), .open(NextcloudServer.firstPhone + $0))
    }
    for _ in 0..<random.int(in: 8...30) {
      let phone = NextcloudServer.firstPhone + random.int(in: 0...nextcloud.count - 1)
      let event: Event.Action =
        switch random.int(in: 0...99) {
        case ..<55: .nextcloudMessage((0..<users).filter { _ in random.chance(0.6) })
        case ..<62: .open(phone)
        case ..<70: .changeToken(phone)
        case ..<75: .reinstall(phone)
        case ..<80: .logOut(phone)
        case ..<85: .logIn(phone)
        case ..<88: .uninstall(phone)
        case ..<96: .comeBack(phone)
        default: .newNextcloudKey(user: random.int(in: 0...users - 1))
        }
      more.append((5 + random.unit() * end, event))
    }
    add(more)
  }
}
