import Foundation
import HTTPClient
import Providers
import Registrations
import SQL
import Sealing

/// The promises of the Web Push gateway.
extension World {
  /// Seconds after a message's time for which an answer may take, and for which its body waits longer.
  private static let (answering, grace) = (30.0, 300.0)
  private static let storageKey = StorageKey(bytes: Node.storageKey)

  /// Records a push that a provider accepted for one of its phones.
  func arrivedFromGateway(_ arrival: Arrival, at owner: Phone) {
    guard let gateway, let push = arrival.push.gateway else { return }
    guard let label = push.label ?? push.message.flatMap(waitingLabel), let message = gateway.messages[label]
    else {
      guard push.message == nil || !wasClockWrong(since: 0) else { return }
      return violate(
        "what waits can be fetched", "\(owner.name) gets a push without a body, which is not there")
    }
    note("\(owner.name): \(label)\(push.message == nil ? "" : ", whose body waits") (\(arrival.life.node))")
    guard message.subscription.phone.phone === owner, push.subscription == message.subscription.id else {
      return violate("readable to nobody else", "\(label) goes to \(owner.name)")
    }
    if push.size > 4096 { violate("what is too long waits", "\(label) has \(push.size) bytes") }
    checkTimeToLive(of: message, push)
    checkOnce(arrival, label, after: ledger.arrivals[message.key] ?? [])
    ledger.arrivals[message.key, default: []].append(arrival)
    if let id = push.message {
      if push.encoding != message.encoding { violate("what is sent is kept to", "\(label) is another") }
      Task { await message.subscription.phone.fetch(id, message) }
    } else {
      checkContents(
        of: message, push.body ?? [], encoding: push.encoding, cryptoKey: push.cryptoKey,
        encryption: push.encryption)
    }
  }

  /// The label in a body that waits at the gateway.
  private func waitingLabel(_ id: String) -> String? {
    if let known = gateway?.waiting[id] { return known }
    guard let bytes = ReceivedPush.decoded(id).map(Array.init),
      let row = server.rows("SELECT body FROM gateway_messages WHERE id = \(Self.blob(bytes))").first,
      let body = try? row.bytes("body"),
      let opened = Self.storageKey.open(body, at: SealedColumn.gatewayBody.place(.bytes(bytes)))
    else { return nil }
    let label = GatewayPush.label(opened)
    gateway?.waiting[id] = label
    return label
  }

  private static func blob(_ bytes: some Sequence<UInt8>) -> String {
    "x'" + bytes.map { String(format: "%02x", $0) }.joined() + "'"
  }

  /// "What is sent is kept to": byte for byte.
  func checkContents(
    of message: Gateway.Message, _ body: [UInt8], encoding: String?, cryptoKey: String?, encryption: String?
  ) {
    guard
      body != message.body || encoding != message.encoding || cryptoKey != message.cryptoKey
        || encryption != message.encryption
    else { return }
    violate("what is sent is kept to", "\(message.label) arrives as another")
  }

  /// "Nothing arrives after its time": the provider gets it before, and keeps it no longer.
  private func checkTimeToLive(of message: Gateway.Message, _ push: GatewayPush) {
    guard !wasClockWrong(since: message.postedAt) else { return }
    let end = message.postedAt + Double(message.plan.timeToLive) + Self.answering
    let kept = push.expiration.map { $0 - Self.epoch } ?? time + (push.timeToLive ?? 0)
    guard max(time, kept) > end else { return }
    violate(
      "nothing arrives after its time",
      "\(message.label) is sent \(Int(time - message.postedAt)) s after it was posted, to be kept until \(Int(kept)) s"
    )
  }

  /// Whether a clock that was wrong at or after this time may have a part in what happens now.
  private func wasClockWrong(since time: Double) -> Bool {
    ledger.clockTroubleAt > time - Self.clockMemory || nodes.contains { $0.life.skew != 0 }
  }

  /// "What waits can be fetched": its phone was told that it is not there.
  func checkWaited(_ message: Gateway.Message, _ id: String, askedAt time: Double, at node: Node) {
    let phone = message.subscription.phone.phone
    let end =
      min(
        message.postedAt + Double(message.plan.timeToLive), message.fetchedAt ?? .infinity) + Self.grace
    guard message.isAccepted, time < end, phone.lies == 0, isLive(phone.token), !isReplaced(message) else {
      return
    }
    let isThere = waitingRow(id)
    guard isThere ? isClockDoubted(by: node.life) : !wasClockWrong(since: message.postedAt) else { return }
    violate(
      "what waits can be fetched",
      "\(message.label) \(isThere ? "waits" : "is gone"), and \(phone.name) is told 404, \(Int(end - time)) s too soon"
    )
  }

  /// "What waits is listed": for its app alone, in the order in which it was sent, and all of it.
  ///
  /// - Returns: the messages, as far as they are known.
  func checkList(
    _ ids: [String], of subscription: Gateway.Subscription, askedAt time: Double, at node: Node
  ) -> [Gateway.Message] {
    guard let gateway else { return [] }
    let name = subscription.phone.phone.name
    let messages = ids.compactMap { id in waitingLabel(id).flatMap { gateway.messages[$0] } }
    for message in messages where message.subscription !== subscription {
      violate("what waits is listed", "\(message.label) is listed for \(name)")
    }
    for (earlier, later) in zip(messages, messages.dropFirst())
    where later.answeredAt ?? .infinity < earlier.postedAt {
      violate("what waits is listed", "\(earlier.label) is listed before \(later.label), which is older")
    }
    guard !isClockDoubted(by: node.life), !wasClockWrong(since: 0) else { return messages }
    let listed = Set(messages.map(\.label))
    for message in gateway.messages.values.sorted(by: { $0.label < $1.label })
    where message.subscription === subscription && message.body.count > Self.surelyTooLong {
      guard message.isAccepted, message.fetchedAt == nil, message.answeredAt ?? .infinity < time,
        self.time < message.postedAt + Double(message.plan.timeToLive), !isReplaced(message),
        !listed.contains(message.label)
      else { continue }
      violate("what waits is listed", "\(message.label) is not listed for \(name)")
    }
    return messages
  }

  /// Bytes of a body that fits into no push.
  private static let surelyTooLong = 3100

  private func waitingRow(_ id: String) -> Bool {
    let bytes = ReceivedPush.decoded(id) ?? Data()
    return !server.rows("SELECT id FROM gateway_messages WHERE id = \(Self.blob(bytes))").isEmpty
  }

  // MARK: Subscriptions

  /// The hash of the token that a subscription has; nil if it has ended.
  private func gatewayTokenHash(_ subscription: Gateway.Subscription) -> Int64? {
    let id = ReceivedPush.decoded(subscription.id) ?? Data()
    return try? server.rows(
      "SELECT token_hash FROM registrations WHERE wire = 5 AND device_identifier = \(Self.blob(id))"
    ).first?.int64("token_hash")
  }

  func gatewayHas(_ subscription: Gateway.Subscription) -> Bool { gatewayTokenHash(subscription) != nil }

  /// "No living registration ends": the gateway has each subscription that it has said yes to, with its token.
  func checkGatewayRows() {
    guard violation == nil, let gateway else { return }
    for phone in gateway.phones {
      guard let confirmed = phone.confirmed, phone.isConfirmed(confirmed),
        let token = try? PushToken(confirmed.token, kind: phone.phone.kind == .apns ? .apns : .fcm),
        gatewayTokenHash(confirmed.subscription) != Self.storageKey.tokenHash(of: token)
      else { continue }
      return violate(
        "no living registration ends",
        "the gateway has said yes to \(phone.phone.name), and has no subscription with its token")
    }
  }

  /// "What is promised arrives", to each phone that has renewed its subscription with its present token.
  func checkGatewayPromises() {
    guard violation == nil, let gateway, !ledger.isLoud else { return }
    let accepted = gateway.messages.values.filter { $0.isAccepted && isReachable($0) }
    let missing = Dictionary(
      grouping: accepted.filter { ledger.arrivals[$0.key] == nil && !isReplaced($0) }, by: \.subscription.id)
    for (_, messages) in missing.sorted(by: { $0.key < $1.key }) {
      let tokens = Set(messages[0].subscription.tokens)
      let told = tokens.reduce(ledger.backlogged) {
        $0 + ledger.losses(of: $1) - gateway.refusals[$1, default: 0]
      }
      guard messages.count > told, let message = messages.min(by: { $0.label < $1.label }) else { continue }
      noteOutbox()
      return violate(
        "what is promised arrives",
        "\(message.label) was promised to \(message.subscription.phone.phone.name); it has not arrived, and nobody was told"
      )
    }
  }

  /// Whether what was promised has to arrive: its subscription has not ended since.
  private func isReachable(_ message: Gateway.Message) -> Bool {
    let phone = message.subscription.phone
    return phone.subscription === message.subscription && phone.isConfirmed(phone.confirmed)
      && !message.subscription.tokens.contains { ledger.isOver($0, promisedAt: message.postedAt) }
  }

  /// Whether a message with the same topic may have taken its place.
  private func isReplaced(_ message: Gateway.Message) -> Bool {
    guard let topic = message.plan.topic, let gateway else { return false }
    return gateway.messages.values.contains {
      $0 !== message && $0.subscription === message.subscription && $0.plan.topic == topic
        && $0.answeredAt ?? .infinity > message.postedAt
    }
  }

  /// What the gateway has promised, and has to arrive at once where nothing is wrong.
  var promptMessages: [Gateway.Message] {
    (gateway?.messages.values.sorted { $0.label < $1.label } ?? []).filter {
      $0.isAccepted && isReachable($0) && !isReplaced($0) && $0.plan.timeToLive >= 60
        && $0.token == $0.subscription.phone.phone.token
    }
  }

  /// "No device is stranded."
  func checkGatewayReach(_ message: String) {
    guard violation == nil, let gateway else { return }
    for phone in gateway.phones where phone.phone.isWaiting {
      let label = Gateway.label(message, phone.phone)
      let isReached = gateway.messages.values.contains {
        $0.label.hasPrefix("\(label).") && $0.subscription === phone.subscription
          && ledger.arrivals[$0.key] != nil
      }
      guard !isReached else { continue }
      let isKnown = phone.subscription.map { gateway.endpoints[$0.id] != nil } ?? false
      return violate(
        "no device is stranded",
        "\(phone.phone.name) waits for messages of the sender, which \(isKnown ? "knows" : "has forgotten") it"
      )
    }
  }

  /// An endpoint that the sender has although its subscription has ended or its token is dead.
  var deadEndpoint: Gateway.Subscription? {
    guard let gateway else { return nil }
    return gateway.endpoints.keys.sorted().compactMap { gateway.subscriptions[$0] }.first { subscription in
      subscription.endedAt < time || !subscription.tokens.contains(where: isLive)
    }
  }

  /// "A dead registration ends."
  func checkGatewayDeaths() {
    guard violation == nil, let subscription = deadEndpoint else { return }
    violate(
      "a dead registration ends",
      "a subscription of \(subscription.phone.phone.name)'s is over, and its sender was never told")
  }

  /// "What nobody may read is readable to nobody": endpoints and secrets.
  func checkGatewaySecrets(in image: Data) {
    guard violation == nil, let gateway else { return }
    for subscription in gateway.subscriptions.values {
      let name = subscription.endpoint.split(separator: "/").last ?? ""
      for secret in [subscription.secret, String(name)] where image.range(of: Data(secret.utf8)) != nil {
        return violate("nothing secret in the database", "an endpoint or a secret stands there in clear")
      }
    }
  }
}
