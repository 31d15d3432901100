import Foundation
import HTTP
import NIOCore
import NIOHTTP1
import Providers
import Sealing

/// The story that `demo` plays: chat servers, phones, and notifications that nobody between them can read.
package struct Story {
  static let hostname = "chat.example.org"

  /// The service's address.
  let bouncer: String
  /// The address of the operator's listener.
  let admin: String
  /// `backend.token`
  let backendToken: String
  /// The bouncer's public key, in base64.
  let publicKey: String
  let home: PhoneHome
  let pushService: PushService
  /// Takes the story's text, line by line.
  let print: @Sendable (String) -> Void

  /// Plays the story and reports each step; throws if one fails. Returns a user with whom one can go on by
  /// hand.
  func play() async throws -> Hero {
    try await playWithoutGoogle(at: playStockServer())
    let hero = try await playBuiltInServer()
    try await playLegacy(hero.host)
    try await playNextcloud(hero.host)
    try await playGateway()
    try await showOperatorsView()
    print("\nEvery step happened.")
    return hero
  }

  /// Shows that the operator's `/readyz` reports no fault.
  private func showOperatorsView() async throws {
    let ready = try await JSONService(url: admin, client: home.client).call(.GET, "readyz")
    guard ready["status"] == "ready", case .object(let checks)? = ready["checks"] else {
      throw DemoError("expected that the operator sees nothing to do: \(ready.text)")
    }
    let summary = checks.members.map { "\($0.name) \($0.value["status"]?.string ?? "")" }
    step("The operator's /readyz says that it is ready: \(summary.joined(separator: ", ")).")
  }

  func step(_ text: String) {
    print("  *  \(text)")
  }

  func expect(_ happened: Bool, _ what: String) throws {
    guard happened else { throw DemoError("expected that \(what)") }
  }

  /// Waits for exactly one delivery.
  func arrival(of what: String, after seen: inout Int64) async throws -> JSON {
    let deliveries = try await home.deliveries(1, after: &seen)
    try expect(deliveries.count == 1, "\(what) arrives once: \(deliveries.count) times")
    return deliveries[0]
  }
}

extension JSON {
  /// How many notifications Apple and Google have accepted, of an answer about notifications.
  var sentCount: Int64 {
    ["apple_successfully_sent_count", "android_successfully_sent_count"].reduce(0) {
      $0 + (self[$1]?.integer ?? 0)
    }
  }
}

extension VirtualPhone {
  var name: String {
    switch kind {
    case .apns: "The iPhone"
    case .fcm: subscriptions.isEmpty ? "The Android phone" : "The phone without Google"
    }
  }

  fileprivate var provider: String {
    switch kind {
    case .apns: "Apple"
    case .fcm: subscriptions.isEmpty ? "Google" : "Its push service"
    }
  }
}

/// The first part: a stock Zulip server with a bouncer of its own choice.
extension Story {
  private func playStockServer() async throws -> ChatServer {
    let server = ChatServer(
      bouncer: bouncer, id: UUID().uuidString.lowercased(), key: RandomText.alphanumeric(64),
      realm: UUID().uuidString.lowercased(), client: home.client)
    step(
      "Apple, Google and a push service of Web Push are played by a simulator; the bouncer listens on \(bouncer)."
    )
    step("Its public key, which an app is shipped with: \(publicKey)")

    try expect(try await server.register(hostname: Self.hostname)["created"] == true, "the server is new")
    step("A stock Zulip server, \(Self.hostname), registers as manage.py register_server does.")
    let realms = try await server.uploadRealm(hostname: Self.hostname)["realms"]
    try expect(realms?[server.realm]?["can_push"] == true, "the realm may push")
    step("It uploads its realm \(server.realm), which may push.")

    var android = VirtualPhone(.fcm, appID: nil)
    let iPhone = VirtualPhone(.apns, appID: "org.example.chat")
    for phone in [android, iPhone] { try await register(phone, at: server) }

    var seen: [Substring: Int64] = ["": try await home.next()]
    try await send("Lunch at noon?", to: [android, iPhone], from: server, &seen, showsWire: true)

    let oldKey = android.keyID
    android.rotateKey()
    step("The Android phone makes a new push key, as every 30 days: \(oldKey) gives way to \(android.keyID).")
    try await send("Still lunch?", to: [android, iPhone], from: server, &seen)

    let oldPhone = android
    android.rotateToken()
    step("Google gives it a new token: \(oldPhone.tokenID.base64) gives way to \(android.tokenID.base64).")
    try await register(android, at: server)
    try await send("At one, then.", to: [android], from: server, &seen)

    try await home.set(token: oldPhone.token, ["status": 404, "reason": "UNREGISTERED"])
    let answer = try await server.notify([oldPhone, android], plaintext("Are you coming?"))
    try expect(answer["delete_token_ids"] == [.string(oldPhone.tokenID.base64)], "the dead token is named")
    try expect(answer["android_successfully_sent_count"] == 1, "the living one is reached")
    _ = try await home.deliveries(1, after: &seen["", default: 0])
    step("Google says that the old token is dead: the bouncer ends it and tells the server to forget it.")

    try await home.set(token: oldPhone.token, ["status": 200])
    try await register(oldPhone, at: server)
    try await send("There you are!", to: [oldPhone], from: server, &seen)
    step("The phone registers the same token again, and its registration is valid again.")
    return server
  }

  private func playWithoutGoogle(at server: ChatServer) async throws {
    print("\nNow a phone without Google.\n")
    let first = try await pushService.subscribe(for: bouncer)
    step(
      """
      It asks the bouncer for its VAPID key, and with that key a push service of its user's choice for an endpoint:
          \(first.endpoint)
      """)
    var phone = VirtualPhone(first)
    var seen: [Substring: Int64] = [:]
    try await register(phone, at: server)
    try await send("Lunch at noon?", to: [phone], from: server, &seen, showsWire: true)

    try await pushService.delete(first)
    let answer = try await server.notify([phone], plaintext("Are you coming?"))
    try expect(answer["delete_token_ids"] == [.string(phone.tokenID.base64)], "the dead endpoint is named")
    step(
      """
      The user removes the distributor: the endpoint answers 410 Gone, the bouncer ends the registration and tells \
      the server to forget it.
      """)

    phone.move(to: try await pushService.subscribe(for: bouncer))
    step("It is back with another distributor and another endpoint.")
    try await register(phone, at: server)
    try await send("There you are!", to: [phone], from: server, &seen)
  }

  private func register(_ phone: VirtualPhone, at server: ChatServer) async throws {
    let sealed = try await server.register(phone, bouncerKey: publicKey)
    step(
      """
      \(phone.name) seals its token to the bouncer. All that the chat server sees and passes on:
          token id \(phone.tokenID.base64), registration \(sealed.prefix(48))...
      """)
  }

  private func send(
    _ text: String, to phones: [VirtualPhone], from server: ChatServer, _ seen: inout [Substring: Int64],
    showsWire: Bool = false
  ) async throws {
    let answer = try await server.notify(phones, plaintext(text))
    try expect(
      answer.sentCount == phones.count && answer["delete_token_ids"] == [], "every phone is reached")
    let isEncryptedAgain = phones.allSatisfy { !$0.subscriptions.isEmpty }
    step(
      """
      The chat server seals "\(text)" under each phone's push key and hands it to the bouncer\
      \(isEncryptedAgain ? ", which encrypts it once more for the endpoint" : "").
      """)
    var deliveries: [JSON] = []
    for phone in phones + phones where deliveries.count < phones.count {
      deliveries += try await home.deliveries(to: phone, at: pushService, after: &seen)
    }
    for phone in phones {
      let delivery = deliveries.first { phone.token(of: $0) == phone.token }
      guard let payload = delivery?["payload"] else { throw DemoError("\(phone.name) got nothing") }
      let opened = try phone.open(payload)
      try expect(opened == plaintext(text).text, "what arrives is what was sent")
      if showsWire { print("      \(phone.provider) sees \(payload.text.prefix(120))...") }
      print("      \(phone.name) decrypts \(opened)")
      guard showsWire else { continue }
      let service = JSONService(url: admin, credentials: .none, client: home.client)
      var times = DeliveryTimes { try? await service.call(.GET, "deliveries?q=\($0)", timeout: .seconds(2)) }
      guard let legs = await times.next(to: phone.tokenID) else {
        throw DemoError("the operator's listener does not know of what \(phone.name) got")
      }
      print("      \(DeliveryTimes.sentence(legs))")
    }
  }

  private func plaintext(_ text: String) -> JSON {
    [
      "type": "message", "recipient_type": "direct", "content": .string(text), "sender_full_name": "Iago",
      "realm_url": .string("https://\(Self.hostname)"), "realm_name": "Example", "user_id": 10,
    ]
  }
}
