import Providers

/// How a provider answers everything that is sent to a device.
enum Refusal: Hashable, Sendable {
  /// 401, on account of the device's own app: `THIRD_PARTY_AUTH_ERROR`.
  case thirdPartyAuth
  /// 403: the token is of another project.
  case senderMismatch
  /// 429, with `Retry-After` or without.
  case tooMany(retryAfter: Int?)
  /// No answer at all.
  case silent
}

extension Plan {
  struct StrangerPlan: Sendable {
    enum Place: Sendable {
      /// One of the strangers' chat servers.
      case chatServer(Int)
      /// Devices at the push proxy.
      case proxy
      case gateway
    }

    let place: Place
    let kind: Route.Provider
    let devices: Int
    let refusal: Refusal

    var chatServer: Int? { if case .chatServer(let number) = place { number } else { nil } }
  }

  /// Adds strangers, and messages for those who belong here. Most of these worlds are calm: nothing else goes wrong, so
  /// that nothing but the strangers could make a notification late.
  mutating func addHostile() {
    var random = WorldRandom(seed: seed, "hostile")
    isCalm = random.chance(0.75)
    if isCalm { events.removeAll { $0.action.isTrouble } }
    let places: [StrangerPlan.Place] =
      (0..<random.int(in: 1...Stranger.chatServers)).map { .chatServer($0) }
      + (nextcloud.isEmpty ? [] : [.proxy]) + (gateway.isEmpty ? [] : [.gateway])
    strangers = places.map { place in
      let kind: Route.Provider = random.chance(0.3) ? .apns : .fcm
      let retryAfter = random.pick([nil, nil, 30, 3600])
      let refusals: [Refusal] =
        [.tooMany(retryAfter: retryAfter), .silent]
        + (kind == .fcm ? [.thirdPartyAuth, .senderMismatch] : [])
      // A message to the gateway is a call of its own.
      let most = if case .gateway = place { 4 } else { 30 }
      return StrangerPlan(
        place: place, kind: kind, devices: random.chance(0.2) ? 1 : random.int(in: 2...most),
        refusal: random.pick(refusals))
    }
    let end = min(max(events.last?.time ?? 0, 60), 900)
    var more: [(Double, Event.Action)] = strangers.indices.map {
      (random.seconds(0...5), .hostile(.come($0)))
    }
    let users = (phones.map(\.user).max() ?? 0) + 1
    for stranger in strangers.indices {
      for _ in 0..<random.int(in: 1...6) {
        let time = 5 + random.unit() * end
        let each = random.chance(0.2) ? 100 / max(1, strangers[stranger].devices / 5) : random.int(in: 1...20)
        more.append((time, .hostile(.burst(stranger, each: each))))
        for delay in [random.seconds(0.1...5), random.seconds(5...60)] {
          let some = Set((0..<random.int(in: 1...3)).map { _ in random.int(in: 0...users - 1) })
          more.append(
            (time + delay, .message(server: random.int(in: 0...self.servers - 1), users: some.sorted())))
          if !gateway.isEmpty, random.chance(0.5) {
            more.append((time + delay, .webPush(WebPushPlan(&random), users: [random.pick(gateway).user])))
          }
          guard !nextcloud.isEmpty, random.chance(0.5) else { continue }
          more.append((time + delay, .nextcloudMessage([random.pick(nextcloud).user])))
        }
      }
    }
    add(more)
  }
}

extension Event.Action {
  /// Whether it may keep a notification that was promised from arriving at once.
  var isTrouble: Bool {
    switch self {
    case .trouble, .kill, .cut, .clock, .databaseAway, .databaseFull, .databaseSlow, .databaseLosesAnswers,
      .comeBack, .proxyTrouble:
      true
    default: false
    }
  }
}
