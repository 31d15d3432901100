import Foundation
import HTTP

/// The fourth part: a phone with Nextcloud Talk, at the server side and the push proxy built in here.
extension Story {
  func playNextcloud(_ hero: Hero) async throws {
    tell("\nNow Nextcloud's way.\n")
    let host = HostApplication(
      service: bouncer, token: backendToken, realm: hero.realm, client: home.client)
    let (id, email): (Int64, String) = (12, "marcellus@example.org")
    _ = try await host.putUser(id, email: email)
    let signIn = try await NextcloudSignIn(server: bouncer, client: home.client)
    try expect(try await signIn.ask() == nil, "nobody has let the phone in yet")
    try await host.grantLogin(id, token: signIn.pageToken)
    let account = try await signIn.wait()
    step(
      """
      An iPhone with Talk adds an account. Its user, who is signed in at the chat already, lets it in, and it \
      gets an app password for \(account.login.user).
      """)

    var phone = NextcloudPhone(
      server: account.server, login: account.login, proxy: bouncer, client: home.client)
    try await phone.register()
    guard let identity = phone.identity else { throw DemoError("the phone is nobody") }
    step(
      """
      It signs in with that and registers at the server, which signs for it as \
      \(identity.identifier.prefix(24))...,
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
    let opened = message["payload"].flatMap(phone.open)
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
    let removed = removal["payload"].flatMap(phone.open)
    try expect(removed == ["nid": 1, "delete": true], "the phone reads what is gone")
    try expect(try await phone.notification(1) == nil, "and it is gone at the server")
    step("The message was read elsewhere: the phone is told in the background, and removes it.")

    try await phone.unregister()
    try await phone.signOut()
    let result = try await host.notify(
      id,
      parts: ["nextcloud": ["nid": 3, "app": "spreed", "subject": "Adieu", "type": "chat", "id": "castle"]])
    try expect(result["nextcloud"]?["devices"] == 0, "nobody is left")
    step("It unregisters at both and signs out; nothing is sent to it any more.")

    try await playNextcloudWithoutGoogle(id, of: host)
  }

  /// Sends it; what has arrived, which is one.
  private func send(
    _ message: JSON, from host: HostApplication, to user: Int64, _ seen: inout Int64
  ) async throws -> JSON {
    let result = try await host.notify(user, parts: ["nextcloud": message])
    guard case .array(let proxies)? = result["nextcloud"]?["proxies"], proxies.first?["sent"] == 1 else {
      throw DemoError("it is not so that the proxy takes it: \(result.text)")
    }
    let deliveries = try await home.deliveries(1, after: &seen)
    guard deliveries.count == 1 else {
      throw DemoError("it is not so that it arrives once: \(deliveries.count) times")
    }
    return deliveries[0]
  }
}
