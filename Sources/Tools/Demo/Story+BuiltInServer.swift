import Foundation
import HTTP
import Providers
import Sealing

/// The second part: a chat that has no push code of its own, and the chat-server side built in here.
extension Story {
  /// The user who receives the notifications.
  struct Hero {
    let host: HostApplication
    let id: Int64
    let email: String
    /// The API key with which the user's apps sign in.
    let apiKey: String
  }

  /// Plays this part. Returns its user, who still has an Android phone.
  func playBuiltInServer() async throws -> Hero {
    print("\nNow a chat that has no push code of its own.\n")
    let host = HostApplication(
      service: bouncer, token: backendToken, realm: UUID().uuidString.lowercased(), client: home.client)
    try await host.putRealm()
    let (id, email): (Int64, String) = (10, "hamlet@example.org")
    let hero = Hero(host: host, id: id, email: email, apiKey: try await host.putUser(id, email: email))
    step("Its host application creates its realm and a user, \(email), over the backend API.")
    let iPhone = try await signIn(VirtualPhone(.apns, appID: "org.example.chat"), as: hero)
    let android = try await signIn(VirtualPhone(.fcm, appID: nil), as: hero)

    var seen = try await home.next()
    try await send("Dinner at eight?", to: hero, devices: 2)
    step("The host application sends \"Dinner at eight?\" to the user: one call, sealed for each phone here.")
    for delivery in try await arrive(["Dinner at eight?"], at: [iPhone, android], &seen) {
      for phone in [await iPhone.phone, await android.phone] {
        if let text = phone.receive(delivery) { print("      \(phone.name) decrypts \(text)") }
      }
    }

    try await rotate(iPhone, of: hero, with: android, &seen)

    try await iPhone.logOut()
    try await send("Where are you?", to: hero, devices: 1)
    try await arrive(["Where are you?"], at: [android], &seen)
    step("The iPhone logs out: the next notification reaches the Android phone and nobody else.")
    return hero
  }

  private func signIn(_ phone: VirtualPhone, as hero: Hero) async throws -> SignedInPhone {
    let chat = ChatClient(server: bouncer, email: hero.email, apiKey: hero.apiKey, client: home.client)
    let signedIn = try await SignedInPhone(phone, at: chat, bouncerKey: publicKey)
    try await signedIn.register()
    step(
      """
      \(phone.name) signs in and becomes device \(signedIn.device). It hands over its push key and its token, \
      sealed to the bouncer,
          and hears in an event that \(phone.tokenID.base64) is active.
      """)
    return signedIn
  }

  /// Shows that no notification is lost or duplicated while a phone gets a new push key and then a new token.
  private func rotate(
    _ phone: SignedInPhone, of hero: Hero, with other: SignedInPhone, _ seen: inout Int64
  ) async throws {
    let before = await phone.phone
    let texts = (1...20).map { "Message \($0)" }
    async let sending: Void = {
      for text in texts { try await send(text, to: hero, devices: 2) }
    }()
    try await phone.rotateKey()
    try await phone.rotateToken()
    try await sending
    let meanwhile = try await arrive(texts, at: [phone, other], &seen)
    try await send("Are you there?", to: hero, devices: 2)
    let afterwards = try await arrive(["Are you there?"], at: [phone, other], &seen)

    let after = await phone.phone
    func count(_ deliveries: [JSON], token: String, keyID: UInt32) -> Int {
      deliveries.count {
        $0["token"]?.string == token && $0["payload"]?["push_key_id"]?.integer == Int64(keyID)
      }
    }
    try expect(count(afterwards, token: after.token, keyID: after.keyID) == 1, "the new token gets the next")
    step(
      """
      \(after.name) makes a new push key and gets a new token while \(texts.count) more notifications go out. \
      It decrypts each exactly once:
          \(count(meanwhile, token: before.token, keyID: before.keyID)) as before, \
      \(count(meanwhile, token: before.token, keyID: after.keyID)) under the new key, \
      \(count(meanwhile, token: after.token, keyID: after.keyID)) at the new token, where the next one goes too.
      """)
  }

  private func send(_ text: String, to hero: Hero, devices: Int64) async throws {
    let result = try await hero.host.notify(
      hero.id,
      [
        "type": "message", "recipient_type": "direct", "content": .string(text),
        "sender_full_name": "Ophelia",
      ])
    try expect(
      result["devices"]?.integer == devices && result.sentCount == devices
        && result["deleted_devices"] == 0, "\"\(text)\" goes to \(devices) devices")
  }

  /// Waits until each phone has received and decrypted each of the texts. Throws if anything arrives twice,
  /// or anything else arrives.
  @discardableResult
  private func arrive(_ texts: [String], at phones: [SignedInPhone], _ seen: inout Int64) async throws
    -> [JSON]
  {
    let deliveries = try await home.deliveries(texts.count * phones.count, after: &seen)
    try expect(deliveries.count == texts.count * phones.count, "what arrives is for these phones")
    for phone in phones {
      let phone = await phone.phone
      let contents = deliveries.compactMap { delivery in
        phone.receive(delivery).flatMap { try? JSON.parse($0) }?["content"]?.string
      }
      try expect(contents.sorted() == texts.sorted(), "\(phone.name) decrypts each exactly once")
    }
    return deliveries
  }
}

/// The third part: a phone whose app is a legacy one and then makes the transition to encrypted
/// notifications.
extension Story {
  func playLegacy(_ host: HostApplication) async throws {
    print("\nNow a user whose app is an old one.\n")
    let (id, email): (Int64, String) = (11, "horatio@example.org")
    let chat = ChatClient(
      server: bouncer, email: email, apiKey: try await host.putUser(id, email: email), client: home.client)
    let phone = VirtualPhone(.apns, appID: "org.example.chat")
    try await chat.registerLegacy(token: phone.token, appID: "org.example.chat")
    step("\(phone.name) of \(email) has an app that registers its token in clear.")

    var seen = try await home.next()
    let first = try await sendBothWays("Who's there?", from: host, to: id, &seen)
    try expect(first["payload"]?["aps"]?["alert"] == "Who's there?", "the old app can read it")
    step("The host application sends \"Who's there?\" both ways: it arrives once, in clear.")

    let updated = VirtualPhone(.apns, appID: "org.example.chat", token: phone.token.uppercased())
    let signedIn = try await SignedInPhone(updated, at: chat, bouncerKey: publicKey)
    try await signedIn.register()
    let second = try await sendBothWays("Nay, answer me.", from: host, to: id, &seen)
    let opened = try second["payload"].map(updated.open).map { try JSON.parse($0) }
    try expect(opened?["content"] == "Nay, answer me.", "the new app decrypts it")
    step(
      """
      The app is updated, and registers the same token for encryption, in capitals as it spells it. The old \
      registration goes,
          here and at the bouncer: \"Nay, answer me.\" arrives once, and only the phone can read it.
      """)
  }

  /// Sends a text by both ways. Returns the one delivery.
  private func sendBothWays(
    _ text: String, from host: HostApplication, to user: Int64, _ seen: inout Int64
  ) async throws -> JSON {
    _ = try await host.notifyBothWays(user, text)
    return try await arrival(of: "\"\(text)\"", after: &seen)
  }
}
