import Foundation
import HTTP
import Sealing

/// The story that `demo` plays and that everything here is for: a chat server, an Android phone and
/// an iPhone, and notifications that nobody on the way can read.
package struct Story {
  static let hostname = "chat.example.org"

  /// The service's address.
  let bouncer: String
  /// The operator's listener's.
  let admin: String
  /// `backend.token`
  let backendToken: String
  /// The bouncer's public key, in base64.
  let publicKey: String
  let home: PhoneHome
  let pushService: PushService
  /// Takes what there is to tell, line by line.
  let tell: @Sendable (String) -> Void

  /// Plays it, telling each step; throws where one does not happen. A user to go on with.
  func play() async throws -> Hero {
    try await playWithoutGoogle(at: playStockServer())
    let hero = try await playBuiltInServer()
    try await playLegacy(hero)
    try await playNextcloud(hero)
    try await showOperatorsView()
    tell("\nEvery step happened.")
    return hero
  }

  /// A stock Zulip server with a bouncer of its own choice.
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

    var seen = try await home.next()
    try await send("Lunch at noon?", to: [android, iPhone], from: server, &seen, showWire: true)

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
    _ = try await home.deliveries(1, after: &seen)
    step("Google says that the old token is dead: the bouncer ends it and tells the server to forget it.")

    try await home.set(token: oldPhone.token, ["status": 200])
    try await register(oldPhone, at: server)
    try await send("There you are!", to: [oldPhone], from: server, &seen)
    step("The phone registers the same token again, and its registration is valid again.")
    return server
  }

  func register(_ phone: VirtualPhone, at server: ChatServer) async throws {
    guard let sealed = phone.sealedRegistration(to: publicKey, at: Date()) else {
      throw DemoError("the registration could not be sealed")
    }
    _ = try await server.register(tokenID: phone.tokenID, sealed: sealed, bouncerKey: publicKey)
    step(
      """
      \(phone.name) seals its token to the bouncer. All that the chat server sees and passes on:
          token id \(phone.tokenID.base64), registration \(sealed.prefix(48))...
      """)
  }

  private func send(
    _ text: String, to phones: [VirtualPhone], from server: ChatServer, _ seen: inout Int64,
    showWire: Bool = false
  ) async throws {
    let answer = try await server.notify(phones, plaintext(text))
    let sent =
      (answer["apple_successfully_sent_count"]?.integer ?? 0)
      + (answer["android_successfully_sent_count"]?.integer ?? 0)
    try expect(sent == phones.count && answer["delete_token_ids"] == [], "every phone is reached")
    step("The chat server seals \"\(text)\" under each phone's push key and hands it to the bouncer.")
    let deliveries = try await home.deliveries(phones.count, after: &seen)
    for phone in phones {
      let delivery = deliveries.first { $0["token"]?.string == phone.token }
      guard let payload = delivery?["payload"], let opened = phone.open(payload) else {
        throw DemoError("\(phone.name) got nothing that it can open")
      }
      try expect(opened == plaintext(text).text, "what arrives is what was sent")
      if showWire { tell("      \(phone.provider) sees \(payload.text.prefix(120))...") }
      tell("      \(phone.name) decrypts \(opened)")
    }
  }

  func plaintext(_ text: String) -> JSON {
    [
      "type": "message", "recipient_type": "direct", "content": .string(text), "sender_full_name": "Iago",
      "realm_url": .string("https://\(Self.hostname)"), "realm_name": "Example", "user_id": 10,
    ]
  }

  /// Waits for what was sent: one delivery, and no second one.
  func arrival(of what: String, after seen: inout Int64) async throws -> JSON {
    let deliveries = try await home.deliveries(1, after: &seen)
    guard deliveries.count == 1 else {
      throw DemoError("it is not so that \(what) arrives once: \(deliveries.count) times")
    }
    return deliveries[0]
  }

  func step(_ text: String) {
    tell("  *  \(text)")
  }

  func expect(_ happened: Bool, _ what: String) throws {
    guard happened else { throw DemoError("it is not so that \(what)") }
  }
}

extension VirtualPhone {
  var name: String {
    switch kind {
    case .apns: "The iPhone"
    case .fcm: subscriptions.isEmpty ? "The Android phone" : "The phone without Google"
    }
  }
  fileprivate var provider: String { kind == .apns ? "Apple" : "Google" }
}
