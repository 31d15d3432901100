import Foundation
import Providers

extension World {
  /// Starts an event. An event that takes time runs concurrently with the next ones.
  func perform(_ action: Event.Action) {
    switch action {
    case .message(let number, let users):
      let server = servers[number]
      let label = nextMessage()
      Task { await server.notify(label, users: users.filter { $0 % servers.count == number }) }
    case .open(let number): open(app(number))
    case .changeToken(let number):
      guard app(number).phone.isInstalled else { return }
      app(number).phone.changeToken()
      open(app(number))
    case .reinstall(let number):
      app(number).phone.changeToken()
      app(number).installAnew()
      open(app(number))
    case .logOut(let number): Task { [app = app(number)] in await app.logOut() }
    case .logIn(let number):
      app(number).phone.isLoggedIn = true
      open(app(number))
    case .uninstall(let number): app(number).phone.uninstall()
    case .comeBack(let number):
      // Its app has been away for a while.
      let app = app(number)
      if app.phone.isInstalled { app.phone.uninstall() }
      Task { [self] in
        try? await Task.sleep(for: .seconds(2))
        guard !isOver, !app.phone.isInstalled else { return }
        app.phone.comeBack()
        app.forget()
        await app.open()
      }
    case .update(let phone):
      guard phones[phone].isLegacy else { return }
      phones[phone].isLegacy = false
      open(phones[phone])
    case .trouble(let provider, let trouble, let seconds):
      providers[provider]?.troubles.append(trouble)
      later(seconds) { world in
        guard let provider = world.providers[provider],
          let index = provider.troubles.lastIndex(of: trouble)
        else { return }
        provider.troubles.remove(at: index)
        provider.mendedAt = world.time
        world.note("-- \(provider.kind) no longer \(trouble)")
      }
    case .kill(let number, let seconds):
      figures.kills += 1
      nodes[number].kill()
      later(seconds) { world in try? world.nodes[number].start() }
    case .cut(let number, let seconds):
      nodes[number].life.isCut = true
      ledger.databaseTroubleAt = time
      later(seconds) { world in
        world.nodes[number].life.isCut = false
        world.ledger.databaseTroubleAt = world.time
      }
    case .clock(let number, let by, let seconds):
      setClock(of: nodes[number], to: by)
      later(seconds) { world in world.setClock(of: world.nodes[number], to: 0) }
    case .databaseAway(let seconds): weather(seconds, \.isAway, true, false)
    case .databaseFull(let seconds): weather(seconds, \.isFull, true, false)
    case .databaseSlow(let seconds): weather(seconds, \.isSlow, true, false)
    case .databaseLosesAnswers(let percent, let seconds): weather(seconds, \.lostAnswers, percent, 0)
    case .nextcloudMessage(let users):
      let label = nextMessage()
      Task { [nextcloud] in await nextcloud?.notify(label, users: users) }
    case .newNextcloudKey(let user): nextcloud?.makeKey(of: user)
    case .chatMessage(let users):
      let label = nextMessage()
      for user in users { Task { [chat] in await chat?.notify(label, user: user) } }
    case .nextcloudChatMessage(let users): nextcloudChat?.notify(nextMessage(), users: users)
    case .takeBack(let user, let isByPhone):
      let label = nextMessage()
      Task { [nextcloudChat] in
        await nextcloudChat?.takeBack(label, user: user, isByPhone: isByPhone)
      }
    case .proxyTrouble(let trouble, let seconds):
      nextcloudChat?.wire.troubles.append(trouble)
      later(seconds) { world in
        guard let wire = world.nextcloudChat?.wire, let index = wire.troubles.lastIndex(of: trouble) else {
          return
        }
        wire.troubles.remove(at: index)
        world.note("-- the way to the proxy no longer \(trouble)")
      }
    case .webPush(let message, let users): gateway?.notify(nextMessage(), message, users: users)
    case .changePushKey(let number):
      chat?.phones[number - Chat.firstPhone].makeKey()
      open(app(number))
    case .hostile(let event): perform(event)
    case .tenant(let event): perform(event)
    case .report(let number): Task { [servers] in await servers[number].report() }
    case .upstreamTrouble(let trouble, let seconds):
      upstream?.troubles.append(trouble)
      later(seconds) { world in
        guard let upstream = world.upstream, let index = upstream.troubles.lastIndex(of: trouble) else {
          return
        }
        upstream.troubles.remove(at: index)
        world.note("-- the upstream bouncer no longer \(trouble)")
      }
    case .pass(let seconds): pass(until: time + seconds)
    }
  }

  private func open(_ app: any App) {
    Task { await app.open() }
  }

  /// The app on the phone of this number.
  private func app(_ number: Int) -> any App {
    if let gateway, number >= Gateway.firstPhone { return gateway.phones[number - Gateway.firstPhone] }
    if let nextcloudChat, number >= NextcloudChat.firstPhone {
      return nextcloudChat.phones[number - NextcloudChat.firstPhone]
    }
    if let chat, number >= Chat.firstPhone { return chat.phones[number - Chat.firstPhone] }
    if let nextcloud, number >= NextcloudServer.firstPhone {
      return nextcloud.phones[number - NextcloudServer.firstPhone]
    }
    return phones[number]
  }

  private func setClock(of node: Node, to skew: TimeInterval) {
    latestTime = max(latestTime, time + node.life.skew)
    // Another clock that agreed has ended the doubt, whatever either shows from now on.
    for one in nodes {
      let hasAgreed = nodes.contains {
        $0.life !== one.life && abs($0.life.skew - one.life.skew) <= 70
      }
      if hasAgreed { one.life.jumpedAt = nil }
    }
    if abs(skew - node.life.skew) > 70 { node.life.jumpedAt = time }
    node.life.skew = skew
    node.life.disturbances.append(time)
    ledger.clockTroubleAt = time
  }

  private func weather<Value: Sendable>(
    _ seconds: Double, _ property: any ReferenceWritableKeyPath<DatabaseWeather, Value> & Sendable,
    _ bad: Value,
    _ good: Value
  ) {
    database[keyPath: property] = bad
    ledger.databaseTroubleAt = time
    later(seconds) { world in
      world.database[keyPath: property] = good
      world.ledger.databaseTroubleAt = world.time
    }
  }

  private func later(_ seconds: Double, _ body: @escaping @Sendable (World) -> Void) {
    Task { [self] in
      try? await Task.sleep(for: .seconds(seconds))
      if !isOver { body(self) }
    }
  }

  /// Ends all faults, lets time pass, and checks that every promise is kept.
  func settle() {
    note("-- everything is mended")
    for provider in [Route.Provider.apns, .fcm, .webPush].compactMap({ providers[$0] }) {
      if !provider.troubles.isEmpty { provider.mendedAt = time }
      provider.troubles = []
    }
    upstream?.troubles = []
    if let nextcloudChat, !nextcloudChat.wire.troubles.isEmpty { nextcloudChat.wire.troubles = [] }
    (database.isAway, database.isFull, database.isSlow, database.lostAnswers) = (false, false, false, 0)
    ledger.databaseTroubleAt = time
    for node in nodes {
      if node.life.skew != 0 { setClock(of: node, to: 0) }
      node.life.isCut = false
      do { try node.start() } catch { violate("start", "\(node.name) does not start: \(error)") }
    }
    pass(until: time + 100)
    settleUpstream()
    // A message tells a server which registrations a false report, or a user's new password, has ended; their
    // apps register again when they are opened.
    if plan.tenants != nil || phones.contains(where: { $0.lies > 0 }) { _ = probe() }
    for _ in 0..<2 {
      for phone in phones { open(phone) }
      for phone in nextcloud?.phones ?? [] { open(phone) }
      for phone in chat?.phones ?? [] { open(phone) }
      for phone in nextcloudChat?.phones ?? [] { open(phone) }
      for phone in gateway?.phones ?? [] { open(phone) }
      pass(until: time + 30)
    }
    findUpdated()
    check()
    // What a provider may have already is repeated after an hour at most.
    pass(until: max(time, putOffUntil) + 4200, grain: settlingGrain)
    check()
    checkDelays()
    checkPromises()
    checkNextcloudPromises()
    checkChatRegistrations()
    checkNextcloudServerPromises()
    checkGatewayPromises()
    upstream?.isSettled = true
    note("-- a message for everybody")
    let label = probe()
    checkReach(label)
    checkNextcloudReach(label)
    checkChatReach(label)
    checkNextcloudServerReach(label)
    checkGatewayReach(label)
    guard violation == nil,
      hasDeadOnes || hasDeadNextcloudRows || hasDeadChatDevices || hasDeadNextcloudServerRows
        || deadEndpoint != nil
    else {
      return checkSecrets()
    }
    // Reports that were held back are accepted an hour later, as are those of a death before the
    // registration, by the clock with which it was made.
    pass(until: max(time, latestTime) + 3700, grain: 60)
    _ = probe()
    _ = probe()
    checkDeaths()
    checkNextcloudDeaths()
    checkChatDeaths()
    checkNextcloudServerDeaths()
    checkGatewayDeaths()
    checkSecrets()
  }

  /// How late timers may fire while everything settles, in seconds. With the upstream bouncer several calls follow each
  /// other in one try.
  var settlingGrain: Double { upstream == nil ? 5 : 0.3 }

  /// Sends a message from every server to all of its users.
  func probe() -> String {
    let label = nextMessage()
    if let nextcloud { Task { await nextcloud.notify(label, users: nil) } }
    if let chat { for user in 0..<Chat.users { Task { await chat.notify(label, user: user) } } }
    nextcloudChat?.notify(label, users: 0..<NextcloudChat.users)
    gateway?.notify(label, Plan.WebPushPlan(), users: nil)
    for server in servers {
      let users = Array(Set(phones.filter { $0.server === server }.map(\.user))).sorted()
      Task { await server.notify(label, users: users) }
    }
    pass(until: time + 40)
    pass(until: time + 360, grain: settlingGrain)
    check()
    return label
  }
}
