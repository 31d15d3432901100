import Foundation
import Providers

extension Plan {
  /// A large world for some days: people write by day and sleep by night, phones come and go, and every day has its
  /// outages.
  init(days: Int, seed: UInt64, users: Int = 1500) {
    var random = WorldRandom(seed: seed, "days")
    self.seed = seed
    (nodes, servers) = (2, 2)
    phones = (0..<users).flatMap { user in
      (0..<(random.chance(0.25) ? 2 : 1)).map { _ in
        PhonePlan(
          kind: random.chance(0.5) ? .apns : .fcm, server: user % 2, user: user, isLegacy: random.chance(0.2))
      }
    }
    var actions: [(Double, Event.Action)] = phones.indices.map { (random.seconds(0...3600), .open($0)) }
    for hour in 0..<days * 24 {
      // From hardly anything at four in the morning to the most at four in the afternoon.
      let busy = 0.5 - 0.48 * cos(Double(hour % 24 - 4) / 24 * 2 * .pi)
      func time() -> Double { (Double(hour) + random.unit()) * 3600 }
      func times(_ perHour: Double) -> Int { Int(perHour * busy + random.unit()) }
      for _ in 0..<times(Double(users) * 0.8) {
        let user = random.int(in: 0...users - 1)
        actions.append((time(), .message(server: user % 2, users: [user])))
      }
      for _ in 0..<times(Double(users) * 0.02) {
        let some = Set((0..<random.int(in: 2...60)).map { _ in random.int(in: 0...users - 1) })
        actions.append((time(), .message(server: random.int(in: 0...1), users: some.sorted())))
      }
      for _ in 0..<times(Double(phones.count) * 0.1) {
        actions.append((time(), .open(random.int(in: 0...phones.count - 1))))
      }
      for _ in 0..<times(Double(phones.count) * 0.003) {
        let phone = random.int(in: 0...phones.count - 1)
        let change: Event.Action =
          switch random.int(in: 0...6) {
          case 0, 1: .changeToken(phone)
          case 2: .reinstall(phone)
          case 3: .logOut(phone)
          case 4: .logIn(phone)
          case 5: .uninstall(phone)
          default: .update(phone)
          }
        actions.append((time(), change))
      }
      for _ in 0..<(random.chance(0.4) ? 1 : 0) {
        actions.append((time(), Self.fault(&random)))
      }
    }
    actions.sort { $0.0 < $1.0 }
    events = actions.enumerated().map { Event(number: $0, time: $1.0, action: $1.1) }
  }

  private static func fault(_ random: inout WorldRandom) -> Event.Action {
    let provider: Route.Provider = random.chance(0.5) ? .apns : .fcm
    let seconds = random.chance(0.7) ? random.seconds(5...600) : random.seconds(600...5400)
    return switch random.int(in: 0...9) {
    // Shorter than an hour, because a report that is repeated after an hour is accepted.
    case 0...4: .trouble(provider, trouble(&random), seconds: min(seconds, 3000))
    case 5, 6: .kill(random.int(in: 0...1), seconds: random.seconds(0...120))
    case 7: .cut(random.int(in: 0...1), seconds: min(seconds, 900))
    case 8: .databaseAway(seconds: random.seconds(1...60))
    default: .clock(random.int(in: 0...1), by: random.seconds(-86_400...86_400), seconds: seconds)
    }
  }
}
