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

/// The third part: a phone whose app is still an old one, and then no longer.
extension Story {
  func playLegacy(_ hero: Hero) async throws {
    tell("\nNow a user whose app is an old one.\n")
    let host = HostApplication(
      service: bouncer, token: backendToken, realm: hero.realm, client: home.client)
    let (id, email): (Int64, String) = (11, "horatio@example.org")
    let chat = ChatClient(
      server: bouncer, email: email, apiKey: try await host.putUser(id, email: email), client: home.client)
    let phone = VirtualPhone(.apns, appID: "org.example.chat")
    try await chat.registerLegacy(apns: phone.token, appID: "org.example.chat")
    step("\(phone.name) of \(email) has an app that registers its token in clear.")

    var seen = try await home.next()
    let first = try await send("Who's there?", from: host, to: id, &seen)
    try expect(first["payload"]?["aps"]?["alert"] == "Who's there?", "the old app can read it")
    step("The host application sends \"Who's there?\" both ways: it arrives once, in clear.")

    let updated = VirtualPhone(.apns, appID: "org.example.chat", token: phone.token.uppercased())
    let signedIn = try await SignedInPhone(updated, at: chat, bouncerKey: publicKey)
    try await signedIn.register()
    let second = try await send("Nay, answer me.", from: host, to: id, &seen)
    let opened = second["payload"].flatMap(updated.open).flatMap { try? JSON.parse($0) }
    try expect(opened?["content"] == "Nay, answer me.", "the new app decrypts it")
    step(
      """
      The app is updated, and registers the same token for encryption, in capitals as it spells it. The old \
      registration goes,
          here and at the bouncer: \"Nay, answer me.\" arrives once, and only the phone can read it.
      """)
  }

  /// Sends a text both ways; what has arrived, which is one.
  private func send(
    _ text: String, from host: HostApplication, to user: Int64, _ seen: inout Int64
  ) async throws -> JSON {
    _ = try await host.notify(
      user,
      parts: [
        "zulip": ["type": "message", "content": .string(text)],
        "legacy": [
          "apns_payload": ["alert": .string(text), "custom": ["zulip": ["event": "message"]]],
          "gcm_payload": ["event": "message", "content": .string(text)],
        ],
      ])
    return try await arrival(of: "\"\(text)\"", after: &seen)
  }
}

/// In between: a phone without Google's services, at the same stock server.
extension Story {
  func playWithoutGoogle(at server: ChatServer) async throws {
    tell("\nNow a phone without Google.\n")
    let first = try await pushService.subscribe(for: bouncer)
    step(
      """
      It asks the bouncer for its VAPID key, and with that key a push service of its user's choice for an endpoint:
          \(first.endpoint)
      """)
    var phone = VirtualPhone(first)
    try await register(phone, at: server)
    try await send("Lunch at noon?", to: phone, at: first, from: server, showWire: true)

    try await pushService.end(first)
    let answer = try await server.notify([phone], plaintext("Are you coming?"))
    try expect(answer["delete_token_ids"] == [.string(phone.tokenID.base64)], "the dead endpoint is named")
    step(
      """
      The user removes the distributor: the endpoint answers 410 Gone, the bouncer ends the registration and tells \
      the server to forget it.
      """)

    let second = try await pushService.subscribe(for: bouncer)
    phone.move(to: second)
    step("It is back with another distributor and another endpoint.")
    try await register(phone, at: server)
    try await send("There you are!", to: phone, at: second, from: server)
  }

  private func send(
    _ text: String, to phone: VirtualPhone, at subscription: PushSubscription, from server: ChatServer,
    showWire: Bool = false
  ) async throws {
    let answer = try await server.notify([phone], plaintext(text))
    try expect(
      answer["android_successfully_sent_count"] == 1 && answer["delete_token_ids"] == [],
      "the phone is reached")
    step(
      "The chat server seals \"\(text)\" under its push key; the bouncer encrypts that for the endpoint once more."
    )
    var seen: Int64 = 0
    let messages = try await pushService.messages(for: subscription, after: &seen)
    try expect(messages.count == 1, "one message arrives")
    guard let message = messages.first, let opened = phone.receive(message) else {
      throw DemoError("\(phone.name) got nothing that it can open")
    }
    try expect(opened == plaintext(text).text, "what arrives is what was sent")
    if showWire { tell("      Its push service sees \(message["payload"]?.string?.prefix(120) ?? "")...") }
    tell("      \(phone.name) decrypts \(opened)")
  }
}
