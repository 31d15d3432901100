import ArgumentParser
import AsyncHTTPClient
import Demo
import Foundation
import HTTP

extension Phone {
  /// What it takes to be Nextcloud Talk at a Nextcloud server.
  struct NextcloudOptions: ParsableArguments {
    @Option(help: "The Nextcloud server's address: the phone asks for a page to sign in with.")
    var nextcloud: String?
    @Option(help: "The push proxy's address (default: the server's own).") var proxy: String?
  }

  /// As Nextcloud Talk on an iPhone: adds an account, registers at server and proxy, and listens.
  func run(atNextcloud server: String, _ home: PhoneHome) async throws {
    let account = try await signIn(at: server, home.client)
    var seen = try await home.next()
    var phone = NextcloudPhone(
      server: account.server, login: account.login, proxy: nextcloud.proxy ?? account.server,
      client: home.client)
    try await phone.register()
    note("registered: \(phone.identity?.identifier ?? "")")
    let tokens = [phone.token.lowercased(), phone.voipToken.lowercased()]
    var arrived = 0
    while count.map({ arrived < $0 }) ?? true {
      for delivery in try await home.deliveries(after: &seen) {
        guard let token = delivery["token"]?.string, tokens.contains(token) else { continue }
        arrived += 1
        let text = delivery["payload"].flatMap(phone.open)?.text ?? "could not be decrypted"
        options.show(["plaintext": .string(text), "call": .bool(token == tokens[1])], text)
      }
    }
    if app.forget {
      try await phone.unregister()
      try await phone.signOut()
      note("signed out")
    }
  }

  /// As an app on a phone without Google: adds an account, subscribes, and listens.
  func run(subscribedAt server: String, _ client: HTTPClient) async throws {
    let account = try await signIn(at: server, client)
    var phone = NextcloudSubscriber(
      server: account.server, login: account.login,
      at: PushService(url: try pushServiceAddress(), client: client), client: client)
    try await phone.subscribe()
    note("registered: the subscription is active")
    var arrived = 0
    while count.map({ arrived < $0 }) ?? true {
      for message in try await phone.messages() {
        arrived += 1
        let text = message?.text ?? "could not be decrypted"
        options.show(["plaintext": .string(text), "call": .bool(message?["type"] == "call")], text)
      }
    }
    if app.forget {
      try await phone.unsubscribe()
      try await phone.signOut()
      note("signed out")
    }
  }

  private func signIn(at server: String, _ client: HTTPClient) async throws -> NextcloudSignIn.Account {
    let signIn = try await NextcloudSignIn(server: server, client: client)
    note("let the phone sign in: \(signIn.page)")
    let account = try await signIn.wait()
    note("signed in as \(account.login.user) at \(account.server)")
    return account
  }
}
