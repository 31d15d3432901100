import Foundation
import HTTP

/// The fourth part goes on: a phone without Google at the server side built in here.
extension Story {
  func playNextcloudWithoutGoogle(_ user: Int64, of host: HostApplication) async throws {
    let signIn = try await NextcloudSignIn(server: bouncer, client: home.client)
    try await host.grantLogin(user, token: signIn.pageToken)
    let account = try await signIn.wait()
    var phone = NextcloudSubscriber(
      server: account.server, login: account.login, at: pushService, client: home.client)
    try await phone.subscribe()
    step(
      """
      A phone without Google adds the account, subscribes at a push service of its user's choice with the server's \
      VAPID key, and
          returns the token that the server sends that way. No proxy takes part.
      """)
    let text = "The play's the thing"
    let result = try await host.notify(
      user,
      parts: [
        "nextcloud": ["nid": 4, "app": "spreed", "subject": .string(text), "type": "chat", "id": "castle"]
      ])
    try expect(result["nextcloud"]?["devices"] == 1, "the notification goes to the one phone")
    let messages = try await phone.messages()
    try expect(
      messages.count == 1 && messages.first??["subject"]?.string == text, "the phone reads the message")
    step("A chat message arrives, and the phone decrypts \(messages.first??.text ?? "")")

    try await phone.unsubscribe()
    try await phone.signOut()
    let after = try await host.notify(
      user,
      parts: ["nextcloud": ["nid": 5, "app": "spreed", "subject": "Adieu", "type": "chat", "id": "castle"]])
    try expect(after["nextcloud"]?["devices"] == 0, "nobody is left")
    step("It unsubscribes and signs out.")
  }
}
