import Foundation
import HTTP
import HTTPTypes
import Providers
import Sealing

/// A phone with an app whose messages come through the Web Push gateway. At each start it renews its subscription, and it
/// tells its server the endpoint if that is new, or may have ended meanwhile.
///
/// Unchecked: the world has one thread.
final class GatewayPhone: App, @unchecked Sendable {
  /// Owns the token, and changes it.
  let phone: Phone
  let namesSender: Bool
  private let isSealed: Bool
  private(set) var subscription: Gateway.Subscription?
  /// What the gateway has said yes to, as far as the phone knows.
  private(set) var confirmed: Confirmation?
  private unowned let gateway: Gateway
  private var random: WorldRandom
  private var isRegistering = false
  /// Whether a call got no answer that may have made the subscription again, so that its server has to be told.
  private var hasToTell = false
  /// Until this time, a call whose caller has given up may still take effect.
  private var doubtUntil = -1.0

  struct Confirmation {
    let subscription: Gateway.Subscription
    let token: String
  }

  init(_ phone: Phone, _ plan: Plan.GatewayPhonePlan, gateway: Gateway, seed: UInt64) {
    (self.phone, self.gateway) = (phone, gateway)
    (namesSender, isSealed) = (plan.namesSender, plan.isSealed)
    random = WorldRandom(seed: seed, phone.name)
  }

  private var world: World { gateway.world }
  private var address: String { "192.0.2.\(1 + phone.number % 250)" }

  /// Whether this is what the gateway has said yes to all the time since, and the phone lives.
  func isConfirmed(_ since: Confirmation?) -> Bool {
    guard let since, let confirmed, phone.isWaiting, phone.lies == 0, world.isLive(phone.token) else {
      return false
    }
    return since.subscription === confirmed.subscription && since.token == confirmed.token
      && confirmed.token == phone.token
  }

  func open() async {
    guard phone.isWaiting, !isRegistering else { return }
    isRegistering = true
    defer { isRegistering = false }
    var told: (installed: Double, token: String)
    repeat {
      told = (phone.forgottenAt, phone.token)
      await register(told.token, subscription)
    } while phone.isWaiting && told != (phone.forgottenAt, phone.token)
  }

  private func register(_ token: String, _ known: Gateway.Subscription?) async {
    confirmed = nil
    known?.tokens.append(token)
    let installed = phone.forgottenAt
    let (node, answer) = await gateway.call(
      known == nil ? .post : .put, known.map { "subscriptions/\($0.id)" } ?? "subscriptions", from: address,
      headers: Self.headers(known), body: Array(registration(token).utf8))
    world.note(
      "\(phone.name): \(known == nil ? "subscribes" : "renews"): \(answer.map { "\($0.status)" } ?? "no answer")"
    )
    if answer == nil, known != nil, node.isAlive { doubtUntil = world.time + 120 }
    guard installed == phone.forgottenAt else { return }
    switch answer?.status {
    case 200, 201:
      guard let answer else { return }
      let present = known ?? Gateway.Subscription(answer.json, of: self, token: token)
      if known == nil {
        gateway.add(present)
        subscription = present
      }
      if answer.status == 201 || hasToTell { gateway.tell(present) }
      hasToTell = false
      if world.time > doubtUntil { confirmed = Confirmation(subscription: present, token: token) }
      if known != nil { await list(present) }
    case nil: hasToTell = known != nil
    case .some(429), .some(500..<600): break
    case let status?: world.violate("who may call is let in", "\(phone.name) subscribes: \(status)")
    }
  }

  private static func headers(_ subscription: Gateway.Subscription?) -> HTTPFields {
    var headers: HTTPFields = [.contentType: "application/json"]
    headers[.authorization] = subscription.map { "Bearer \($0.secret)" }
    return headers
  }

  private func registration(_ token: String) -> String {
    let kind = phone.kind == .apns ? "apns" : "fcm"
    let app = phone.kind == .apns ? #","ios_app_id":"\#(phone.topic)""# : ""
    let sender = namesSender ? #","application_server_key":"\#(Gateway.publicKey)""# : ""
    guard isSealed else { return #"{"token":"\#(token)","token_kind":"\#(kind)"\#(app)\#(sender)}"# }
    let sealed = Phone.sealedRegistration(
      token, phone.kind, topic: phone.topic, for: "webpush", at: world.time)
    return
      #"{"encrypted_push_registration":"\#(sealed)","bouncer_public_key":"\#(Node.keyPair.publicKeyBase64)"\#(sender)}"#
  }

  /// Ends the subscription, with one try. Whoever logs in again has another one.
  func logOut() async {
    guard phone.isWaiting else { return }
    phone.isLoggedIn = false
    let former = subscription
    let isSure = !isRegistering && world.time > doubtUntil
    forget()
    guard let former else { return }
    let (_, answer) = await gateway.call(
      .delete, "subscriptions/\(former.id)", from: address, headers: Self.headers(former))
    world.note("\(phone.name): ends its subscription: \(answer.map { "\($0.status)" } ?? "no answer")")
    if answer?.status == 204, isSure { former.endedAt = world.time }
  }

  func installAnew() {
    forget()
    (phone.isInstalled, phone.isLoggedIn) = (true, true)
  }

  func forget() {
    phone.forgottenAt = world.time
    (confirmed, subscription, hasToTell) = (nil, nil, false)
  }

  // MARK: Bodies that wait

  /// Asks for what waits, as an app does at its start, and fetches some of it.
  private func list(_ subscription: Gateway.Subscription) async {
    let began = world.time
    let (node, answer) = await gateway.call(
      .get, "subscriptions/\(subscription.id)/messages", from: address, headers: Self.headers(subscription))
    guard let answer, answer.status == 200, self.subscription === subscription else { return }
    let ids = (answer.json["messages"]?.elements ?? []).compactMap { $0["id"]?.string }
    world.note("\(phone.name): \(ids.count) bodies wait for it")
    let messages = world.checkList(ids, of: subscription, askedAt: began, at: node)
    for (id, message) in zip(ids, messages) where random.chance(0.5) {
      Task { await fetch(id, message) }
    }
  }

  /// Fetches a body that did not fit into its push: at once, or when the phone is next used.
  func fetch(_ id: String, _ message: Gateway.Message) async {
    let left = message.postedAt + Double(message.plan.timeToLive) + 290 - world.time
    if random.chance(0.3) {
      try? await Task.sleep(for: .seconds(random.seconds(0...min(1800, max(0, left)))))
    }
    for _ in 0..<8 {
      guard !world.isOver, phone.isWaiting, subscription === message.subscription else { return }
      if random.chance(0.1) { await trespass(id, message) }
      let began = world.time
      message.fetchedAt = message.fetchedAt ?? began
      let (node, answer) = await gateway.call(
        .get, "messages/\(id)", from: address, headers: Self.headers(message.subscription))
      world.note("\(phone.name): fetches \(message.label): \(answer.map { "\($0.status)" } ?? "no answer")")
      switch answer?.status {
      case 200:
        guard let answer else { return }
        world.checkContents(
          of: message, answer.body, encoding: answer.headers[.contentEncoding],
          cryptoKey: answer.headers[.init("Crypto-Key")!], encryption: answer.headers[.init("Encryption")!])
        guard random.chance(0.2) else { return }
        try? await Task.sleep(for: .seconds(random.seconds(0...280)))
      case 404:
        return world.checkWaited(message, id, askedAt: began, at: node)
      default: try? await Task.sleep(for: .seconds(random.seconds(5...60)))
      }
    }
  }

  /// Another phone asks for the body with its own secret, and for the subscription.
  private func trespass(_ id: String, _ message: Gateway.Message) async {
    guard let other = gateway.phones.first(where: { $0 !== self && $0.subscription != nil })?.subscription
    else { return }
    for (method, path) in [
      (HTTPRequest.Method.get, "messages/\(id)"), (.put, "subscriptions/\(message.subscription.id)"),
      (.delete, "subscriptions/\(message.subscription.id)"),
    ] {
      let (_, answer) = await gateway.call(
        method, path, from: address, headers: Self.headers(other), body: Array(registration(phone.token).utf8)
      )
      guard let answer, 200..<300 ~= answer.status else { continue }
      world.violate(
        "nobody calls for others", "\(method) \(path) is answered \(answer.status) to another phone")
    }
  }
}
