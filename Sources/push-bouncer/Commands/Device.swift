public import ArgumentParser
import AsyncHTTPClient
import Foundation
public import Sealing
import Wire

/// `device`: a phone without a phone.
struct Device: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "A virtual phone: registers end-to-end encrypted, listens on the simulator, prints what arrives, decrypted.",
    discussion: """
      It also plays its chat server, whose credentials it needs: it passes its sealed registration on to the bouncer \
      and, with --send, a notification sealed under its own push key.
      """)

  @OptionGroup var options: GlobalOptions
  @Option(help: "The bouncer's address.") var bouncer = "http://127.0.0.1:8080"
  @Option(help: "zulip_org_id of the chat server.") var orgID: String
  @Option(help: "zulip_org_key of the chat server.") var orgKey: String
  @Option(help: "The realm's UUID; it must have been uploaded, or give --hostname.") var realm: String
  @Option(help: "Uploads the realm first, as a realm of this hostname.") var hostname: String?
  @Option(help: "The bouncer's public key.") var publicKey: String
  @Option(help: "fcm or apns.") var kind: PushToken.Kind = .fcm
  @Option(help: "The app's bundle id, for apns.") var appID = "org.example.chat"
  @Option(help: "The simulator's FCM address.") var simulator = "https://127.0.0.1:2198"
  @Option(help: "The simulator's certificate authority.") var ca: String?
  @Option(help: "Sends itself a notification with this text.") var send: [String] = []
  @Flag(help: "Rotates push key and token before it sends.") var rotate = false
  @Option(help: "Stops after this many notifications; otherwise listens on.") var count: Int?

  func run() async throws {
    let client = try PhoneHome.client(ca: ca)
    do {
      try await run(client)
      try await client.shutdown()
    } catch {
      try? await client.shutdown()
      throw error
    }
  }

  private func run(_ client: HTTPClient) async throws {
    let server = ChatServer(bouncer: bouncer, id: orgID, key: orgKey, realm: realm, client: client)
    let home = PhoneHome(url: simulator, client: client)
    if let hostname { _ = try await server.uploadRealm(hostname: hostname) }
    var phone = VirtualPhone(kind, appID: appID)
    var seen = try await home.next()
    try await register(phone, at: server)
    if rotate {
      phone.rotateKey()
      phone.rotateToken()
      try await register(phone, at: server)
    }
    for text in send {
      _ = try await server.notify(
        [phone],
        [
          "type": "message", "recipient_type": "direct", "content": .string(text),
          "realm_url": .string(bouncer),
          "realm_name": "Example", "user_id": 10, "time": .integer(Int64(Date().timeIntervalSince1970)),
        ])
    }
    var arrived = 0
    while count.map({ arrived < $0 }) ?? true {
      for delivery in try await home.deliveries(after: &seen) where delivery["token"]?.string == phone.token {
        arrived += 1
        let text = delivery["payload"].flatMap(phone.open) ?? "could not be decrypted"
        options.show(["token_id": .string(phone.tokenID.base64), "plaintext": .string(text)], text)
      }
    }
  }

  private func register(_ phone: VirtualPhone, at server: ChatServer) async throws {
    guard let sealed = phone.sealedRegistration(to: publicKey, at: Date()) else {
      throw ValidationError("--public-key wants a bouncer's public key")
    }
    _ = try await server.register(tokenID: phone.tokenID, sealed: sealed, bouncerKey: publicKey)
    note("registered \(phone.kind.rawValue) token \(phone.tokenID.base64), push key \(phone.keyID)")
  }
}

extension PushToken.Kind: ExpressibleByArgument {}
