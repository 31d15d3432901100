import Crypto
import Foundation
import HTTP
import HTTPTypes
import Providers

/// The Web Push gateway as it is called from outside: by its phones, and by a stock Web Push sender, which forgets an
/// endpoint when it is told 404 or 410. Ciphertexts are simulated, signatures are real.
///
/// Unchecked: the world has one thread.
final class Gateway: @unchecked Sendable {
  /// The number of the first phone.
  static let firstPhone = 40_000
  static let address = "https://push.example.org"
  /// The sender's. Made once for all worlds.
  static let key = P256.Signing.PrivateKey()
  private static let authorizationLasts = 12 * 3600.0

  /// What an app has by its `POST`. Unchecked: the world has one thread.
  final class Subscription: @unchecked Sendable {
    let id, endpoint, secret: String
    unowned let phone: GatewayPhone
    /// All that its app has sent, the latest last.
    var tokens: [String]
    /// When the end was confirmed that its app has asked for.
    var endedAt = Double.infinity

    init(_ answer: JSON, of phone: GatewayPhone, token: String) {
      (self.phone, tokens) = (phone, [token])
      id = answer["id"]?.string ?? ""
      endpoint = answer["endpoint"]?.string ?? ""
      secret = answer["secret"]?.string ?? ""
    }
  }

  /// A message as it was posted. Unchecked: the world has one thread.
  final class Message: @unchecked Sendable {
    let label: String
    let subscription: Subscription
    let plan: Plan.WebPushPlan
    let body: [UInt8]
    let postedAt: Double
    /// When it was answered, if it was.
    var answeredAt: Double?
    /// Whether it was answered 201.
    var isAccepted = false
    /// The token that the subscription had all the while, as its phone knows.
    var token: String?
    /// When its app first asked for its body.
    var fetchedAt: Double?

    init(
      _ label: String, to subscription: Subscription, _ plan: Plan.WebPushPlan, body: [UInt8], at time: Double
    ) {
      (self.label, self.subscription, self.plan, self.body, postedAt) = (
        label, subscription, plan, body, time
      )
    }

    var encoding: String { plan.isOfDraft ? "aesgcm" : "aes128gcm" }
    /// What belongs to the encryption of the draft.
    var cryptoKey: String? { plan.isOfDraft ? "dh=BEl6\(label.utf8.count)" : nil }
    var encryption: String? { plan.isOfDraft ? "salt=AAAA" : nil }
    /// The key by which the ledger knows its arrivals.
    var key: String { "\(label) \(subscription.phone.phone.number)" }
  }

  unowned let world: World
  private(set) var phones: [GatewayPhone] = []
  /// All that were ever made, by id.
  private(set) var subscriptions: [String: Subscription] = [:]
  /// The endpoints that the sender has, by subscription, with the number of their rows.
  private(set) var endpoints: [String: Int] = [:]
  private var rows = 0
  /// By label.
  private(set) var messages: [String: Message] = [:]
  /// The labels of bodies that wait at the gateway, by the messages' ids.
  var waiting: [String: String] = [:]
  /// How often a post was refused by the provider, which the log has told, by token.
  private(set) var refusals: [String: Int] = [:]
  private var authorization: (text: String, until: Double) = ("", 0)
  private var random: WorldRandom

  init(_ plans: [Plan.GatewayPhonePlan], world: World, seed: UInt64) {
    self.world = world
    random = WorldRandom(seed: seed, "gateway's sender")
    phones = plans.enumerated().map { number, plan in
      let phone = Phone(
        Self.firstPhone + number, plan.kind, server: world.servers[0], user: plan.user, isLegacy: false,
        world: world)
      return GatewayPhone(phone, plan, gateway: self, seed: seed)
    }
  }

  /// Calls any node. `path` is below `/webpush/v1/`.
  func call(
    _ method: HTTPRequest.Method, _ path: String, from address: String, headers more: HTTPFields,
    body: [UInt8] = [], mayBeRefused: (Answer) -> Bool = { _ in false }
  ) async -> (node: Node, answer: Answer?) {
    let node = world.balanced(&random)
    let name = "gateway/\(path.prefix { $0 != "/" })"
    var headers = more
    headers[.forwardedFor] = address
    let began = world.time
    let answer = world.standIn.answer(
      to: name, await node.call("/webpush/v1/\(path)", method: method, headers: headers, body: body))
    if let answer, answer.status >= 500, mayBeRefused(answer) {
      world.figures.calls += 1
    } else {
      world.answered(name, answer, by: node, since: began)
    }
    return (node, answer)
  }

  func add(_ subscription: Subscription) { subscriptions[subscription.id] = subscription }

  // MARK: The sender

  /// An app tells the sender its endpoint. A sender makes a new row, as Mastodon does: an answer about the former one does
  /// not end it.
  func tell(_ subscription: Subscription) {
    rows += 1
    endpoints[subscription.id] = rows
  }

  static func label(_ message: String, _ phone: Phone) -> String { "\(message).gateway.\(phone.number)" }

  /// Posts a message to all endpoints of these users; nil: of all.
  func notify(_ message: String, _ plan: Plan.WebPushPlan, users: [Int]?) {
    for (number, id) in endpoints.keys.sorted().enumerated() {
      guard let subscription = subscriptions[id], let row = endpoints[id],
        users?.contains(subscription.phone.phone.user) ?? true
      else { continue }
      let label = Self.label(message, subscription.phone.phone) + ".\(number)"
      Task { await post(label, plan, to: subscription, row) }
    }
  }

  private func post(
    _ label: String, _ plan: Plan.WebPushPlan, to subscription: Subscription, _ row: Int
  ) async {
    let message = Message(label, to: subscription, plan, body: body(label, plan.bytes), at: world.time)
    messages[label] = message
    let confirmed = subscription.phone.confirmed
    let hadEnded = subscription.endedAt < world.time
    let (node, answer) = await call(
      .post, "push/\(subscription.endpoint.split(separator: "/").last ?? "")", from: "198.51.100.2",
      headers: headers(of: message), body: message.body
    ) { answer in
      // What has ended may be lost instead.
      guard answer.text.contains("provider does not take") else { return !world.gatewayHas(subscription) }
      if let confirmed, confirmed.subscription === subscription {
        refusals[confirmed.token, default: 0] += 1
      }
      return true
    }
    let phone = subscription.phone
    world.note("sender: \(label) (\(plan)): \(answer.map { "\($0.status)" } ?? "no answer") (\(node.name))")
    message.answeredAt = answer == nil ? nil : world.time
    switch answer?.status {
    case 201:
      message.isAccepted = true
      if phone.isConfirmed(confirmed), confirmed?.subscription === subscription {
        message.token = confirmed?.token
      }
      world.figures.promises += 1
      if hadEnded {
        world.violate("what has ended is refused", "\(label) to \(phone.phone.name) is answered 201")
      }
      if let shown = answer?.headers[.init("TTL")!], shown != "\(plan.timeToLive)" {
        world.violate("what is sent is kept to", "\(label) gets another TTL, \(shown) s")
      }
    case 410:
      if phone.isConfirmed(confirmed), confirmed?.subscription === subscription {
        world.violate("no living registration ends", "the sender is told that \(phone.phone.name) is gone")
      }
      if endpoints[subscription.id] == row { endpoints[subscription.id] = nil }
    case nil, .some(429), .some(500..<600):
      guard plan.isRetried else { return }
      try? await Task.sleep(for: .seconds(random.seconds(5...60)))
      guard !world.isOver, endpoints[subscription.id] == row else { return }
      var last = plan
      last.isRetried = false
      await post(Self.label(world.nextMessage(), phone.phone), last, to: subscription, row)
    case let status?:
      world.violate("nothing is refused that can be kept", "\(label): \(status) \(answer?.text ?? "")")
    }
  }

  private func headers(of message: Message) -> HTTPFields {
    var headers: HTTPFields = [.contentEncoding: message.encoding]
    headers[.init("TTL")!] = "\(message.plan.timeToLive)"
    headers[.init("Urgency")!] = message.plan.urgency
    headers[.init("Topic")!] = message.plan.topic
    headers[.init("Crypto-Key")!] = message.cryptoKey
    headers[.init("Encryption")!] = message.encryption
    if message.subscription.phone.namesSender { headers[.authorization] = authorized() }
    return headers
  }

  /// The sender's VAPID token and key (RFC 8292).
  private func authorized() -> String {
    if authorization.until - Self.authorizationLasts / 2 < world.time {
      let end = world.time + Self.authorizationLasts
      let claims =
        #"{"aud":"\#(Self.address)","exp":\#(Int(World.epoch + end)),"sub":"mailto:a@example.org"}"#
      let parts = [#"{"typ":"JWT","alg":"ES256"}"#, claims].map { Base64URL.encode($0.utf8) }
      let signed = parts.joined(separator: ".")
      let signature = try? Self.key.signature(for: Data(signed.utf8)).rawRepresentation
      let token = "\(signed).\(Base64URL.encode(signature ?? Data()))"
      authorization = ("vapid t=\(token), k=\(Self.publicKey)", end)
    }
    return authorization.text
  }

  static let publicKey = Base64URL.encode(key.publicKey.x963Representation)

  /// Stands for what only the phone can decrypt.
  private func body(_ label: String, _ bytes: Int) -> [UInt8] {
    // A combining mark must not follow the quotation mark.
    let text = Array("\(World.plaintext)\(label)\".".utf8)
    return text + (0..<max(0, bytes - text.count)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
  }
}
