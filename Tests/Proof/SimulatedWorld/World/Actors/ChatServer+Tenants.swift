import Foundation
import Providers

/// Chat servers among others.
extension ChatServer {
  /// A user's number at the server.
  func userID(_ user: Int) -> Int { numberOffset + (world.plan.tenants?.number(of: user) ?? user + 1) }

  /// Proves that a realm is the same, wherever it is.
  var ownerSecret: String { World.ownerSecret(world.plan.tenants?.server(of: number) ?? number) }

  func userUUID(_ user: Int) -> String {
    let number = world.plan.tenants.map { $0.sharesUUIDs ? $0.number(of: user) : user } ?? user
    return "00000000-0000-4000-8000-" + String(format: "%012d", number)
  }

  /// Names users by UUID from now on, in all realms of the server.
  func learnUUIDs() {
    for server in world.servers where server.uuid == uuid && !server.knowsUUIDs {
      (server.knowsUUIDs, server.renamedAt) = (true, world.time)
    }
  }

  /// Signs all old apps of a user out, as a new password does. A server tries this again until it succeeds. It keeps
  /// what it knows of the tokens until it is told that they are gone.
  func unregisterAll(_ user: Int) async {
    let phones = world.phones.filter { $0.server === self && $0.user == user }
    for attempt in 1...4 where !world.isOver {
      let began = phones.map { phone in
        phone.forgottenAt = world.time
        return certain.removes(phone, phone.token)
      }
      removalsOfAll[user, default: (0, -1)].open += 1
      let (node, answer) = await call("push/unregister/all", type: Self.form, form(identity(of: user)))
      world.note(
        "\(name): unregisters all old apps of user \(user): \(answer.map { "\($0.status)" } ?? "no answer")")
      let end = world.time + (answer == nil && node.isAlive ? 120 : 0)
      removalsOfAll[user] = removalsOfAll[user].map { ($0.open - 1, max($0.until, end)) }
      for call in began { certain.hasRemoved(call, answer, node, at: world.time) }
      if answer?.status == 200 { return }
      try? await Task.sleep(for: .seconds(attempt))
    }
  }

  /// Sends a test notification to an old app.
  func test(_ phone: Phone) async {
    guard phone.isLegacy, let token = legacy[phone.number], knowsUUIDs else { return }
    let label = world.nextMessage()
    let body = """
      {"token":"\(token)","token_kind":\(phone.kind == .apns ? 1 : 2),"user_id":\(userID(phone.user)),\
      "user_uuid":"\(userUUID(phone.user))","realm_uuid":"\(realm)",\
      "base_payload":{"server":"\(World.plaintext)\(label).s\(number).u\(phone.user)","realm_name":"Example",\
      "realm_url":"https://chat.example.org","user_id":\(userID(phone.user))}}
      """
    let began = world.time
    let (_, answer) = await call("push/test_notification", type: "application/json", body)
    world.note(
      "\(name): \(label), a test for \(phone.name): \(answer.map { "\($0.status)" } ?? "no answer")")
    if answer?.status == 200, phone.isLegacy { world.promised(label, to: token, of: phone, at: began) }
    if answer?.status == 400 { checkGone(phone, token, asked: began) }
  }
}

/// What a chat server knows for sure of its legacy registrations: calls whose answers were lost may have taken effect,
/// or still take effect.
struct CertainLegacy {
  private struct State {
    var registrations = Calls(), removals = Calls()
    /// Since when the bouncer is known to have it, or to have removed it.
    var presentSince: Double?, removedAt: Double?
    /// Whether it is under the user's UUID.
    var isUnderUUID = false
  }

  private struct Calls {
    var begun = 0
    var open = 0
    /// Until when one whose answer was lost may take effect.
    var doubtUntil = -1.0

    mutating func end(_ answer: Answer?, _ node: Node, at time: Double) {
      open -= 1
      if answer == nil, node.isAlive { doubtUntil = time + 120 }
    }

    func areOver(at time: Double) -> Bool { open == 0 && time > doubtUntil }
  }

  /// A call that has begun.
  struct Call {
    fileprivate let name: String
    /// The number of calls for the contrary until then.
    fileprivate let contraries: Int
    fileprivate var namesUUID = false
  }

  /// By phone and token.
  private var states: [String: State] = [:]

  private static func name(_ phone: Phone, _ token: String) -> String {
    "\(phone.number) \(token.canonicalToken)"
  }

  /// Since when the bouncer is known to have the registration.
  func presentSince(_ phone: Phone, _ token: String) -> Double? {
    states[Self.name(phone, token)]?.presentSince
  }

  /// When the bouncer confirmed that the registration is removed.
  func removedAt(_ phone: Phone, _ token: String) -> Double? { states[Self.name(phone, token)]?.removedAt }

  /// A registration begins.
  mutating func registers(_ phone: Phone, _ token: String, namesUUID: Bool) -> Call {
    let name = Self.name(phone, token)
    var state = states[name] ?? State()
    defer { states[name] = state }
    state.removedAt = nil
    (state.registrations.begun, state.registrations.open) =
      (state.registrations.begun + 1, state.registrations.open + 1)
    return Call(name: name, contraries: state.removals.begun, namesUUID: namesUUID)
  }

  mutating func hasRegistered(_ call: Call, _ answer: Answer?, _ node: Node, at time: Double) {
    guard var state = states[call.name] else { return }
    defer { states[call.name] = state }
    state.registrations.end(answer, node, at: time)
    guard answer?.status == 200, state.removals.begun == call.contraries, state.removals.areOver(at: time)
    else {
      return
    }
    if state.presentSince == nil { state.presentSince = time }
    state.isUnderUUID = call.namesUUID
  }

  /// A removal begins.
  mutating func removes(_ phone: Phone, _ token: String) -> Call {
    let name = Self.name(phone, token)
    var state = states[name] ?? State()
    defer { states[name] = state }
    state.presentSince = nil
    (state.removals.begun, state.removals.open) = (state.removals.begun + 1, state.removals.open + 1)
    return Call(name: name, contraries: state.registrations.begun)
  }

  mutating func hasRemoved(_ call: Call, _ answer: Answer?, _ node: Node, at time: Double) {
    guard var state = states[call.name] else { return }
    defer { states[call.name] = state }
    state.removals.end(answer, node, at: time)
    guard answer?.status == 200, state.registrations.begun == call.contraries,
      state.registrations.areOver(at: time)
    else { return }
    state.removedAt = time
  }

  /// The chat server is told that the registration is gone.
  mutating func isTold(_ phone: Phone, _ token: String) {
    states[Self.name(phone, token)]?.presentSince = nil
  }

  /// What is under users' numbers is not certain any more.
  mutating func forgetNumbers() {
    for name in states.keys where states[name]?.isUnderUUID == false { states[name]?.presentSince = nil }
  }
}

extension World {
  func perform(_ event: Event.Tenant) {
    switch event {
    case .respell(let number, let spelling):
      phones[number].respell(spelling)
      Task { [phones] in await phones[number].open() }
    case .learnUUIDs(let number): servers[number].learnUUIDs()
    case .unregisterAll(let number):
      Task { [phone = phones[number]] in await phone.server.unregisterAll(phone.user) }
    case .test(let number): Task { [phone = phones[number]] in await phone.server.test(phone) }
    case .rotateKey(let number, let seconds):
      Task { [self] in await tenancy?.rotateKey(servers[number], goesOnFor: seconds) }
    case .replaceKey(let number): Task { [self] in await tenancy?.replaceKey(servers[number]) }
    case .deactivate(let number, let byItself, let seconds):
      Task { [self] in await tenancy?.deactivate(servers[number], byItself: byItself, for: seconds) }
    case .move(let number, let other, let isSwitchedOff):
      Task { [self] in await tenancy?.move(servers[number], to: servers[other], isSwitchedOff: isSwitchedOff)
      }
    case .impostor(let act, let number):
      Task { [self] in await impostor?.act(act, on: phones[number]) }
    case .credential(let change, let seconds): Task { [self] in await tenancy?.change(change, for: seconds) }
    }
  }
}
