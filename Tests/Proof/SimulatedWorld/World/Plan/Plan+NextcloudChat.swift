import Providers

extension Plan {
  struct NextcloudChatPhonePlan: Sendable {
    let kind: Route.Provider
    let user: Int
    /// Whether it names the proxy as the server does, which then calls it in its own process.
    let namesOwnProxy: Bool
  }

  /// Adds phones of the built-in Nextcloud server and what they do; everything else stays as it was.
  mutating func addNextcloudServer() {
    var random = WorldRandom(seed: seed, "built-in nextcloud")
    let users = random.int(in: 1...NextcloudChat.users)
    nextcloudChat = Array(
      (0..<users).flatMap { user in
        (0..<(random.chance(0.4) ? 2 : 1)).map { _ in
          NextcloudChatPhonePlan(
            kind: random.chance(0.5) ? .apns : .fcm, user: user, namesOwnProxy: random.chance(0.3))
        }
      }.prefix(NextcloudChat.mostPhones))
    let end = max(events.last?.time ?? 0, 30)
    var more: [(Double, Event.Action)] = nextcloudChat.indices.map {
      (random.seconds(0...5), .open(NextcloudChat.firstPhone + $0))
    }
    func event(_ random: inout WorldRandom) -> Event.Action {
      let phone = NextcloudChat.firstPhone + random.int(in: 0...nextcloudChat.count - 1)
      return switch random.int(in: 0...99) {
      case ..<45: .nextcloudChatMessage((0..<users).filter { _ in random.chance(0.6) })
      case ..<60: .takeBack(user: random.int(in: 0...users - 1), isByPhone: random.chance(0.5))
      case ..<67: .open(phone)
      case ..<75: .changeToken(phone)
      case ..<80: .reinstall(phone)
      case ..<86: .logOut(phone)
      case ..<91: .logIn(phone)
      case ..<95: .uninstall(phone)
      default: .comeBack(phone)
      }
    }
    for _ in 0..<random.int(in: 6...20) { more.append((5 + random.unit() * end, event(&random))) }
    for _ in 0..<random.int(in: 0...4) {
      let time = 3 + random.unit() * end
      let seconds = random.chance(0.6) ? random.seconds(1...20) : random.seconds(20...200)
      more.append((time, .proxyTrouble(Self.proxyTrouble(&random), seconds: seconds)))
      // What waits for the proxy is what the server has to keep.
      for _ in 0..<random.int(in: 1...5) {
        more.append((time + random.seconds(0...seconds + 5), event(&random)))
      }
    }
    add(more)
  }

  private static func proxyTrouble(_ random: inout WorldRandom) -> Trouble {
    switch random.int(in: 0...9) {
    case 0, 1: .unreachable
    case 2: .silent
    case 3: .slow
    case 4, 5: .late
    case 6, 7: .losingAnswers
    default: .failing(random.pick([500, 502, 503, 503, 404]))
    }
  }
}
