import Foundation
import HTTP
import Sealing

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
