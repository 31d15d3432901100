import Providers

extension Plan {
  /// Chat servers with several realms. Users of several servers have the same numbers, phones have accounts at several
  /// servers, and there are two apps.
  struct TenantsPlan: Sendable {
    /// The number of chat servers, and of each one's realms.
    let servers, realms: Int
    /// The chat servers that name users by number alone at first.
    let numbered: Set<Int>
    /// Whether a user's UUID is also one of another server's users, as on a copy of a server.
    let sharesUUIDs: Bool

    /// The chat server of a realm. Realms are what ``ChatServer`` stands for.
    func server(of realm: Int) -> Int { realm % servers }

    func identity(_ realm: Int) -> World.Identity { World.tenants[server(of: realm)][realm / servers] }

    func startsWithNumbers(_ realm: Int) -> Bool { numbered.contains(server(of: realm)) }

    /// A user's number at the chat server.
    func number(of user: Int) -> Int { user / servers + 1 }
  }

  /// Replaces the chat servers. In half of these worlds nothing but their doings happens.
  mutating func addTenants() {
    // A story may have some.
    guard tenants == nil else { return }
    var random = WorldRandom(seed: seed, "tenants")
    if random.chance(0.5) { events.removeAll { $0.action.isTrouble } }
    let count = random.int(in: 2...World.tenantServers)
    let tenants = TenantsPlan(
      servers: count, realms: random.int(in: 1...2),
      numbered: random.chance(0.6) ? [random.int(in: 0...count - 1)] : [], sharesUUIDs: random.chance(0.5))
    self.tenants = tenants
    // Credentials go and come back.
    isCalm = false
    servers = count * tenants.realms
    let users = max((phones.map(\.user).max() ?? 0) + 1, servers * random.int(in: 1...2) + 1)
    let more = Set(0..<users).subtracting(phones.map(\.user)).sorted()
    let all =
      phones.map { ($0.kind, $0.user) } + more.map { (random.chance(0.6) ? .apns : .fcm, $0) }
    phones = all.map { kind, user in
      PhonePlan(
        kind: kind, server: user % servers, user: user,
        isLegacy: tenants.startsWithNumbers(user % servers) || random.chance(0.5),
        hasSecondApp: random.chance(0.4))
    }
    addSubscriptions()
    let firstAccounts = phones.count
    for phone in phones.indices where random.chance(0.5) { addAccount(on: phone, tenants, &random) }
    let end = min(max(events.last?.time ?? 0, 60), 600)
    add((firstAccounts..<phones.count).map { (random.seconds(0...8), .open($0)) })
    add(
      (more.isEmpty ? 0..<0 : firstAccounts - more.count..<firstAccounts).map {
        (random.seconds(0...5), .open($0))
      })
    add(
      (0..<random.int(in: 8...30)).map { _ in
        (6 + random.unit() * end, action(tenants, users, &random))
      })
    addAdministration(until: end, tenants)
    addImpostor(until: end)
  }

  /// Takes Google's services from some phones, which have a push service of their own instead.
  private mutating func addSubscriptions() {
    var random = WorldRandom(seed: seed, "subscriptions")
    guard random.chance(0.5) else { return }
    for phone in phones.indices where phones[phone].kind == .fcm && random.chance(0.5) {
      phones[phone].kind = .webPush
    }
    guard events.contains(where: { $0.action.isTrouble }), random.chance(0.6) else { return }
    let trouble = random.pick([
      Trouble.unreachable, .silent, .slow, .late, .losingAnswers, .failing(503), .lyingDead,
      .overloaded(seconds: random.int(in: 1...120)),
    ])
    add([(10 + random.seconds(0...100), .trouble(.webPush, trouble, seconds: random.seconds(5...100)))])
  }

  /// Adds a hostile chat server.
  private mutating func addImpostor(until end: Double) {
    var random = WorldRandom(seed: seed, "impostor's plan")
    guard random.chance(0.6) else { return }
    let count = phones.count
    add(
      (0..<random.int(in: 5...40)).map { _ in
        let time = 8 + random.unit() * end
        return (time, .tenant(.impostor(random.pick(Impostor.Act.allCases), random.int(in: 0...count - 1))))
      })
  }

  /// Adds changes of who may call and of what is sent with.
  private mutating func addAdministration(until end: Double, _ tenants: TenantsPlan) {
    var random = WorldRandom(seed: seed, "administration")
    guard random.chance(0.7) else { return }
    let servers = servers
    add(
      (0..<random.int(in: 1...6)).map { _ in
        let server = random.int(in: 0...servers - 1)
        let other = (server + random.int(in: 1...tenants.servers - 1)) % servers
        let seconds = random.seconds(2...60)
        let event: Event.Tenant
        switch random.int(in: 0...10) {
        case ..<2: event = .rotateKey(server, goesOnFor: seconds)
        case ..<3: event = .replaceKey(server)
        case ..<5: event = .deactivate(server, byItself: random.chance(0.4), seconds: seconds)
        case ..<9 where !tenants.sharesUUIDs:
          event = .move(server, to: other, isSwitchedOff: random.chance(0.4))
        case ..<10:
          event = .credential(.apple(random.int(in: 0...1), isReplaced: random.chance(0.6)), seconds: seconds)
        default: event = .credential(.google, seconds: seconds)
        }
        return (8 + random.unit() * end, .tenant(event))
      })
  }

  /// Adds an account of another server to an app, preferably of a user with the same number.
  private mutating func addAccount(on phone: Int, _ tenants: TenantsPlan, _ random: inout WorldRandom) {
    let first = phones[phone]
    let user: Int
    if tenants.realms == 1 || random.chance(0.7) {
      let server = (first.user + random.int(in: 1...tenants.servers - 1)) % tenants.servers
      user = first.user / tenants.servers * tenants.servers + server
    } else {
      user = first.user + tenants.servers
    }
    var account = PhonePlan(
      kind: first.kind, server: user % servers, user: user, isLegacy: false,
      hasSecondApp: first.hasSecondApp)
    account.shares = phone
    phones.append(account)
    if tenants.startsWithNumbers(account.server) { phones[phone].isLegacy = true }
  }

  private func action(
    _ tenants: TenantsPlan, _ users: Int, _ random: inout WorldRandom
  ) -> Event.Action {
    let phone = random.int(in: 0...phones.count - 1)
    return switch random.int(in: 0...99) {
    case ..<40:
      .message(
        server: random.int(in: 0...servers - 1),
        users: (0..<users + servers).filter { _ in random.chance(0.6) })
    case ..<48: .open(phone)
    case ..<52: .changeToken(phone)
    case ..<60: .logOut(phone)
    case ..<68: .logIn(phone)
    case ..<74: .update(phone)
    case ..<84: .tenant(.respell(phone, random.pick(Spelling.allCases)))
    case ..<88: .tenant(.learnUUIDs(random.int(in: 0...servers - 1)))
    case ..<94: .tenant(.unregisterAll(phone))
    default: .tenant(.test(phone))
    }
  }
}

extension Event {
  /// What happens where there are several tenants.
  enum Tenant: Sendable {
    /// A phone's app spells its token in another way.
    case respell(Int, Spelling)
    /// A chat server names its users by UUID, too.
    case learnUUIDs(Int)
    /// All of a phone's user's old apps are signed out.
    case unregisterAll(Int)
    /// A test notification for a phone.
    case test(Int)
    /// A chat server changes its key, and goes on with the former one for a while.
    case rotateKey(Int, goesOnFor: Double)
    /// The operator gives a chat server another key.
    case replaceKey(Int)
    case deactivate(Int, byItself: Bool, seconds: Double)
    /// A realm moves to the chat server of another one.
    case move(Int, to: Int, isSwitchedOff: Bool)
    case credential(CredentialChange, seconds: Double)
    /// A hostile chat server uses what belongs to a phone's user.
    case impostor(Impostor.Act, Int)
  }

  enum CredentialChange: Sendable {
    /// One of Apple's keys is replaced, or taken away for a while.
    case apple(Int, isReplaced: Bool)
    /// Google's is taken away for a while.
    case google
  }
}

extension Event.Tenant: CustomStringConvertible {
  var description: String {
    switch self {
    case .respell(let phone, let spelling): "phone \(phone) spells its token in \(spelling) case"
    case .learnUUIDs(let server): "server \(server) names its users by UUID"
    case .unregisterAll(let phone): "all old apps of the user of phone \(phone) are signed out"
    case .test(let phone): "phone \(phone) asks for a test notification"
    case .rotateKey(let server, let seconds):
      "server \(server) changes its key, and goes on with the old one for \(Int(seconds)) s"
    case .replaceKey(let server): "the operator replaces the key of server \(server)"
    case .deactivate(let server, let byItself, let seconds):
      "server \(server) is switched off by \(byItself ? "itself" : "the operator") for \(Int(seconds)) s"
    case .move(let realm, let other, let isSwitchedOff):
      "server \(realm) moves to the one of server \(other)\(isSwitchedOff ? ", as its own is switched off" : "")"
    case .impostor(let act, let phone): "an impostor tries to \(act) what is of phone \(phone)"
    case .credential(.apple(let number, let isReplaced), let seconds):
      "Apple's key \(number) is \(isReplaced ? "replaced" : "taken away for \(Int(seconds)) s")"
    case .credential(.google, let seconds): "Google's key is taken away for \(Int(seconds)) s"
    }
  }
}
