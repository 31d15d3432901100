import Foundation
import HTTP

/// The fourth part: phones with Nextcloud Talk, at the server side and the push proxy built in here.
extension Story {
  func playNextcloud(_ host: HostApplication) async throws {
    print("\nNow Nextcloud's way.\n")
    let id: Int64 = 12
    _ = try await host.putUser(id, email: "marcellus@example.org")
    let account = try await signIn(id, of: host)
    step(
      """
      An iPhone with Talk adds an account. Its user, who is signed in at the chat already, lets it in, and it \
      gets an app password for \(account.user).
      """)

    var phone = NextcloudPhone(account, proxy: bouncer)
    try await phone.register()
    step(
      """
      It signs in with that and registers at the server, which signs for it as \
      \(phone.identity?.identifier.prefix(24) ?? "nobody")...,
          and with that signature at the push proxy, with a token for messages and one for calls.
      """)

    var seen = try await home.next()
    let message = try await send(
      [
        "nid": 1, "app": "spreed", "subject": "Something is rotten", "message": "in the state of Denmark",
        "type": "chat", "id": "castle",
      ],
      from: host, to: id, &seen)
    try expect(
      message["token"]?.string == phone.token.lowercased(), "a message goes to the token for messages")
    let opened = try message["payload"].map(phone.open)
    try expect(opened?["subject"] == "Something is rotten", "the phone reads the message")
    step("A chat message arrives: the phone checks who has signed it, and decrypts \(opened?.text ?? "")")
    let whole = try await phone.notification(1)
    try expect(whole?["message"] == "in the state of Denmark", "the phone can read on")
    step("It fetches the rest, which did not fit into the push: \(whole?["message"]?.text ?? "")")

    let call = try await send(
      ["nid": 2, "app": "spreed", "subject": "The ghost is calling", "type": "call", "id": "castle"],
      from: host, to: id, &seen)
    try expect(call["token"]?.string == phone.voipToken.lowercased(), "a call goes to the token for calls")
    step("A call goes to the token for calls, as apns-push-type voip: the phone rings.")

    let removal = try await send(["delete_nids": [1]], from: host, to: id, &seen)
    let removed = try removal["payload"].map(phone.open)
    try expect(removed == ["nid": 1, "delete": true], "the phone reads what is gone")
    try expect(try await phone.notification(1) == nil, "and it is gone at the server")
    step("The message was read elsewhere: the phone is told in the background, and removes it.")

    try await phone.unregister()
    try await account.signOut()
    try expect(try await sendChat(3, "Adieu", from: host, to: id) == 0, "nobody is left")
    step("It unregisters at both and signs out; nothing is sent to it any more.")

    try await playNextcloudWithoutGoogle(id, of: host)
  }

  private func signIn(_ user: Int64, of host: HostApplication) async throws -> NextcloudAccount {
    let signIn = try await NextcloudSignIn(server: bouncer, client: home.client)
    try expect(try await signIn.pollOnce() == nil, "nobody has let the phone in yet")
    try await host.grantLogin(user, token: signIn.pageToken)
    return try await signIn.wait()
  }

  /// Sends a notification. Returns the one delivery.
  private func send(
    _ message: JSON, from host: HostApplication, to user: Int64, _ seen: inout Int64
  ) async throws -> JSON {
    let result = try await host.notify(user, nextcloud: message)
    try expect(result["proxies"]?.elements.first?["sent"] == 1, "the proxy takes it: \(result.text)")
    return try await arrival(of: "the notification", after: &seen)
  }

  /// A phone without Google at the server side built in here.
  private func playNextcloudWithoutGoogle(_ user: Int64, of host: HostApplication) async throws {
    let account = try await signIn(user, of: host)
    var phone = NextcloudSubscriber(account, at: pushService)
    try await phone.subscribe()
    step(
      """
      A phone without Google adds the account, subscribes at a push service of its user's choice with the server's \
      VAPID key, and
          returns the token that the server sends that way. No proxy takes part.
      """)
    let text = "The play's the thing"
    try expect(
      try await sendChat(4, text, from: host, to: user) == 1, "the notification goes to the one phone")
    let messages = try await phone.messages()
    try expect(
      try messages.count == 1 && messages.first?.get()["subject"]?.string == text,
      "the phone reads the message")
    step("A chat message arrives, and the phone decrypts \(try messages.first?.get().text ?? "")")

    try await phone.unsubscribe()
    try await account.signOut()
    try expect(try await sendChat(5, "Adieu", from: host, to: user) == 0, "nobody is left")
    step("It unsubscribes and signs out.")
  }

  /// Sends a chat message. Returns the number of devices that it goes to.
  private func sendChat(
    _ nid: Int64, _ text: String, from host: HostApplication, to user: Int64
  ) async throws -> Int64? {
    try await host.notify(user, chat: text, nid: nid)["devices"]?.integer
  }
}
