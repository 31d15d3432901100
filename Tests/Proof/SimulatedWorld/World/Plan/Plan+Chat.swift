import Providers

extension Plan {
  struct ChatPhonePlan: Sendable {
    let kind: Route.Provider
    let user: Int
  }

  /// Adds phones of the built-in chat server and what they do; everything else stays as it was.
  mutating func addChat() {
    var random = WorldRandom(seed: seed, "chat")
    let users = random.int(in: 1...Chat.users)
    chat = (0..<users).flatMap { user in
      (0..<(random.chance(0.3) ? 2 : 1)).map { _ in
        ChatPhonePlan(kind: random.chance(0.5) ? .apns : .fcm, user: user)
      }
    }
    let end = max(events.last?.time ?? 0, 30)
    var more: [(Double, Event.Action)] = chat.indices.map {
      (random.seconds(0...5), .open(Chat.firstPhone + $0))
    }
    for _ in 0..<random.int(in: 8...30) {
      let phone = Chat.firstPhone + random.int(in: 0...chat.count - 1)
      let event: Event.Action =
        switch random.int(in: 0...99) {
        case ..<50: .chatMessage((0..<users).filter { _ in random.chance(0.6) })
        case ..<56: .open(phone)
        case ..<64: .changeToken(phone)
        case ..<74: .changePushKey(phone)
        case ..<79: .reinstall(phone)
        case ..<84: .logOut(phone)
        case ..<89: .logIn(phone)
        case ..<93: .uninstall(phone)
        default: .comeBack(phone)
        }
      more.append((5 + random.unit() * end, event))
    }
    add(more)
  }
}
