import AsyncHTTPClient
import Foundation
import HTTP
import NIOHTTP1
import Sealing

/// The second part: a chat that has no push code of its own, and the chat-server side built in here.
extension Story {
  /// Whom the notifications are for.
  struct Hero {
    /// Its realm's UUID.
    let realm: String
    let id: Int64
    let email: String
    /// Signs its apps in.
    let apiKey: String
  }

  /// Plays it; its user, who has an Android phone left.
  func playBuiltInServer() async throws -> Hero {
    tell("\nNow a chat that has no push code of its own.\n")
    let host = HostApplication(
      service: bouncer, token: backendToken, realm: UUID().uuidString.lowercased(), client: home.client)
    let hero = try await introduce(host)
    let iPhone = try await signIn(VirtualPhone(.apns, appID: "org.example.chat"), as: hero)
    let android = try await signIn(VirtualPhone(.fcm, appID: nil), as: hero)

    var seen = try await home.next()
    try await send("Dinner at eight?", from: host, to: hero, devices: 2)
    step("The host application sends \"Dinner at eight?\" to the user: one call, sealed for each phone here.")
    for delivery in try await arrive(["Dinner at eight?"], at: [iPhone, android], &seen) {
      for phone in [await iPhone.phone, await android.phone] {
        if let text = phone.receive(delivery) { tell("      \(phone.name) decrypts \(text)") }
      }
    }

    try await rotate(iPhone, while: host, writesTo: hero, with: android, &seen)

    try await iPhone.logOut()
    try await send("Where are you?", from: host, to: hero, devices: 1)
    try await arrive(["Where are you?"], at: [android], &seen)
    step("The iPhone logs out: the next notification reaches the Android phone and nobody else.")
    return hero
  }

  private func introduce(_ host: HostApplication) async throws -> Hero {
    try await host.putRealm(name: "Example", url: "https://example.org")
    let (id, email): (Int64, String) = (10, "hamlet@example.org")
    let apiKey = try await host.putUser(id, email: email)
    step("Its host application creates its realm and a user, \(email), over the backend API.")
    return Hero(realm: host.realm, id: id, email: email, apiKey: apiKey)
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

  /// Nothing is lost and nothing comes twice while a phone gets a new push key and then a new token.
  private func rotate(
    _ phone: SignedInPhone, while host: HostApplication, writesTo hero: Hero, with other: SignedInPhone,
    _ seen: inout Int64
  ) async throws {
    let before = await phone.phone
    let texts = (1...20).map { "Message \($0)" }
    async let sending: Void = sendAll(texts, from: host, to: hero)
    try await phone.rotateKey()
    try await phone.rotateToken()
    try await sending
    let meanwhile = try await arrive(texts, at: [phone, other], &seen)
    try await send("Are you there?", from: host, to: hero, devices: 2)
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

  private func sendAll(_ texts: [String], from host: HostApplication, to hero: Hero) async throws {
    for text in texts { try await send(text, from: host, to: hero, devices: 2) }
  }

  private func send(_ text: String, from host: HostApplication, to hero: Hero, devices: Int64) async throws {
    let result = try await host.notify(
      hero.id,
      [
        "type": "message", "recipient_type": "direct", "content": .string(text),
        "sender_full_name": "Ophelia",
      ])
    let accepted = ["apple_successfully_sent_count", "android_successfully_sent_count"].map {
      result[$0]?.integer ?? 0
    }
    try expect(
      result["devices"]?.integer == devices && accepted.reduce(0, +) == devices
        && result["deleted_devices"] == 0, "\"\(text)\" goes to \(devices) devices")
  }

  /// Waits until each of the texts has arrived at each of the phones, which decrypts it: once, and nothing
  /// else anywhere.
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

  /// What the operator sees of all that.
  func showOperatorsView() async throws {
    let ready = try await JSONService(url: admin, credentials: .none, client: home.client).call(
      .GET, "readyz")
    guard ready["status"] == "ready", case .object(let checks)? = ready["checks"] else {
      throw DemoError("it is not so that the operator sees nothing to do: \(ready.text)")
    }
    let summary = checks.members.map { "\($0.name) \($0.value["status"]?.string ?? "")" }
    step("The operator's /readyz says that it is ready: \(summary.joined(separator: ", ")).")
  }
}

/// A chat without push code of its own, as the built-in chat-server side sees it: what it calls at the
/// backend API.
struct HostApplication {
  /// Its realm's UUID.
  let realm: String
  private let backend: JSONService

  /// - Parameters:
  ///   - service: push-bouncer's address.
  ///   - token: `backend.token`
  init(service: String, token: String, realm: String, client: HTTPClient) {
    self.realm = realm
    backend = JSONService(url: "\(service)/backend/v1/realms", credentials: .bearer(token), client: client)
  }

  /// Adds its realm, or makes it as told.
  func putRealm(name: String, url: String) async throws {
    _ = try await backend.call(.PUT, realm, .json(["name": .string(name), "url": .string(url)]))
  }

  /// Adds a user; the key with which its apps sign in.
  func putUser(_ id: Int64, email: String) async throws -> String {
    let user = try await backend.call(.PUT, "\(realm)/users/\(id)", .json(["email": .string(email)]))
    guard let key = user["api_key"]?.string else { throw DemoError("the new user has no API key") }
    return key
  }

  /// Makes an app password for a user.
  func addAppPassword(_ user: Int64, name: String) async throws -> String {
    let answer = try await backend.call(
      .POST, "\(realm)/users/\(user)/app-passwords", .json(["name": .string(name)]))
    guard let password = answer["password"]?.string else {
      throw DemoError("the new app password has no text")
    }
    return password
  }

  /// Lets an app of a user sign in, which waits for it.
  func grantLogin(_ user: Int64, token: String) async throws {
    _ = try await backend.call(.POST, "\(realm)/users/\(user)/login-flows", .json(["token": .string(token)]))
  }

  /// Sends a notification to all of a user's devices; how many each provider took.
  func notify(_ user: Int64, _ plaintext: JSON) async throws -> JSON {
    try await notify(user, parts: ["zulip": plaintext])["zulip"] ?? .null
  }

  /// Sends a notification by every way that there is a part for; what became of each.
  func notify(_ user: Int64, parts: JSON) async throws -> JSON {
    try await backend.call(.POST, "\(realm)/users/\(user)/notifications", .json(parts))
  }
}
