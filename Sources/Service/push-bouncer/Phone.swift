import ArgumentParser
import AsyncHTTPClient
import Basics
import Delivery
import Demo
import Foundation
import HTTP
import Operator
import Platform
import Sealing
import Server

/// `device phone`, or just `device`: a virtual phone in a terminal.
struct Phone: AsyncParsableCommand, PrintsDocument {
  static let configuration = CommandConfiguration(
    abstract:
      "Runs a virtual phone: registers it, listens on the simulator, and prints what arrives, decrypted.",
    discussion: """
      It has one of three roles. With --server, --email and --api-key it is an app at a chat server: a stock Zulip 12, \
      or the one that is built in here. With --org-id, --org-key and --realm it also plays its chat server, which \
      has these credentials: it passes its sealed registration on to the bouncer and, with --send, notifies itself. \
      With --nextcloud it is Nextcloud Talk on an iPhone at a Nextcloud server, a stock one or the one that is built \
      in here: it prints the address of the page on which the user lets it sign in. With --kind webpush as well it is \
      a phone without Google, which needs no proxy, but a server of version 34 with Web Push switched on. With --kind \
      gateway alone it is an app that gets Web Push by way of a bouncer: it prints what a sender needs.
      """)

  @OptionGroup var options: GlobalOptions
  @OptionGroup(title: "As an app at a chat server") var app: AppOptions
  @OptionGroup(title: "As an app and its chat server in one") var own: OwnServerOptions
  @OptionGroup(title: "As Nextcloud Talk") var nextcloud: NextcloudOptions
  @Option(help: ArgumentHelp("The bouncer's public key; not for --nextcloud.", valueName: "key"))
  var publicKey: String?
  @Option(
    help: """
      How messages come: fcm (Android), apns (iPhone), webpush (Android without Google) or gateway (from any sender of Web \
      Push, through the gateway of --bouncer).
      """)
  var kind = Kind.fcm
  @Flag(name: .customLong("iphone"), help: "With gateway: it is an iPhone, with the app of --app-id.")
  var isIPhone = false
  @Option(
    help: ArgumentHelp("With gateway: the VAPID key of the only sender that may send.", valueName: "key"))
  var sender: String?
  @Option(help: ArgumentHelp("The app's bundle id, for apns.", valueName: "id"))
  var appID = "org.example.chat"
  @Option(
    help: ArgumentHelp(
      """
      The bouncer's address (default: the chat server's, for a phone that asks for the key of Web Push; with --org-id \
      http://127.0.0.1:8080).
      """, valueName: "url"))
  var bouncer: String?
  @Option(help: ArgumentHelp("The simulator's FCM address.", valueName: "url"))
  var simulator = "https://127.0.0.1:2198"
  @Option(help: ArgumentHelp("The simulator's Web Push address, for webpush.", valueName: "url"))
  var pushService = "https://127.0.0.1:2199"
  @Flag(
    help: "With webpush: subscribes as UnifiedPush does through Google, at an endpoint like /fcm/send/ID.")
  var throughGoogle = false
  @Option(
    help: ArgumentHelp(
      "A certificate authority to trust beyond the system's: the simulator's.", valueName: "file"))
  var caFile: String?
  @Flag(help: "Rotates push key and token once it is registered.") var rotate = false
  @Option(
    help: ArgumentHelp(
      "Stops after this many notifications; otherwise listens until Ctrl-C.", valueName: "n"))
  var count: Int?

  func validate() throws {
    switch try role(apiKey: app.apiKey ?? app.apiKeyFile, orgKey: own.orgKey ?? own.orgKeyFile) {
    case .nextcloud, .gateway: break
    case .app, .ownServer: _ = try bouncerKey()
    }
    _ = try (pushServiceAddress(), bouncerAddress())
    guard kind == .webpush || !throughGoogle else {
      throw ValidationError("--through-google goes with --kind webpush")
    }
    guard count.map({ $0 >= 0 }) ?? true else { throw ValidationError("--count must be a number from 0 on") }
  }

  /// The bouncer's public key, which Zulip's apps ship with.
  func bouncerKey() throws -> String {
    guard let publicKey, Base64.decodeStrictly(publicKey)?.count == 32 else {
      throw ValidationError("--public-key must be a bouncer's public key: 32 bytes in base64")
    }
    return publicKey
  }

  /// The push service of a phone without Google services.
  func pushServiceAddress() throws -> String {
    try Self.address(pushService, of: "--push-service", such: "https://127.0.0.1:2199")
  }

  func pushService(_ client: HTTPClient) throws -> PushService {
    PushService(url: try pushServiceAddress(), path: throughGoogle ? "/fcm/send" : nil, client: client)
  }

  /// The bouncer's address; nil if the option is not set.
  func bouncerAddress() throws -> String? {
    try bouncer.map { try Self.address($0, of: "--bouncer", such: "https://push.example.org") }
  }

  func run() async throws {
    let role = try role(
      apiKey: SecretFile.value("--api-key", app.apiKey, file: app.apiKeyFile, "API key"),
      orgKey: SecretFile.value("--org-key", own.orgKey, file: own.orgKeyFile, "key"))
    if let caFile { try FileOwner.become(ofWaysTo: [caFile]) }
    let client = try PhoneHome.client(ca: caFile)
    do {
      let home = PhoneHome(url: simulator, client: client)
      switch role {
      case .app(let server, let email, let apiKey):
        try await run(
          at: ChatClient(server: server, email: email, apiKey: apiKey, client: client),
          of: bouncerAddress() ?? server,
          home)
      case .ownServer(let id, let key, let realm, let bouncer):
        try await run(
          with: ChatServer(bouncer: bouncer, id: id, key: key, realm: realm, client: client), of: bouncer,
          home)
      case .nextcloud(let server):
        if kind == .webpush {
          try await run(subscribedAt: server, client)
        } else {
          try await run(atNextcloud: server, home)
        }
      case .gateway(let bouncer): try await run(behindGateway: bouncer, home)
      }
      try await client.shutdown()
    } catch {
      try? await client.shutdown()
      throw error
    }
  }

  /// What the service of this configuration says of the phone's notifications; nil where its key cannot be read.
  private func deliveryTimes() -> DeliveryTimes? {
    guard let (configuration, _) = try? options.read(isNeeded: false) else { return nil }
    do {
      return try KeyFolder.existingStorageKey(in: configuration.keys.directory).map { key in
        DeliveryTimes { text in
          let answer = await RunningService.ask(.deliveries(text), configuration.admin, key)
          return if case .proven(let deliveries) = answer { deliveries } else { nil }
        }
      }
    } catch {
      printError("the service is not asked for the times of deliveries: \(Fault(error))")
      return nil
    }
  }

  static var documents: [JSONDocument] {
    .of(document, note: perLine) + .of(nextcloudDocument, with: "--nextcloud", note: perLine)
  }

  private static let perLine = "One document a line for each notification."

  private static func plaintext<Arrival>(_ text: @escaping (Arrival) -> String) -> JSONMember<Arrival> {
    .member(
      "plaintext",
      "what was encrypted, usually JSON again; or a sentence that says why it could not be decrypted", text)
  }

  private static var document: [JSONMember<(id: TokenID, text: String, delivery: JSON?)>] {
    [
      .member("token_id", "8 bytes in base64") { $0.id.base64 }, plaintext { $0.text },
      .member(
        "delivery", .orNull(.object(AcceptedDelivery.members.fields())),
        "from the operator's listener; null if it does not answer or knows nothing of it"
      ) { $0.delivery ?? .null },
    ]
  }

  static var nextcloudDocument: [JSONMember<(text: String, isCall: Bool)>] {
    [plaintext { $0.text }, .member("call", "whether it came as a call") { $0.isCall }]
  }

  /// Prints what the simulator receives for the phone, until `count` is reached.
  func listen(
    at home: PhoneHome, _ service: PushService, after seen: Int64, _ phone: () async -> VirtualPhone
  ) async throws {
    var seen: [Substring: Int64] = ["": seen]
    var arrived = 0
    var times = deliveryTimes()
    while count.map({ arrived < $0 }) ?? true {
      let deliveries = try await home.deliveries(to: phone(), at: service, after: &seen)
      // The phone may have got a new token in the meantime.
      let phone = await phone()
      for delivery in deliveries {
        guard let token = phone.token(of: delivery) else { continue }
        arrived += 1
        let text = Self.text(
          of: Result { () throws(Unreadable) in try phone.open(delivery["payload"] ?? .null) })
        let id = TokenID(token: token)
        let legs = await times?.next(to: id)
        options.show(
          (id, text, legs), Self.document,
          legs.map { "\(text)\n  \(DeliveryTimes.sentence($0))" } ?? text)
      }
    }
  }
}

extension Phone {
  /// The push technology of the phone.
  enum Kind: String, ExpressibleByArgument, CaseIterable {
    case apns, fcm, webpush, gateway
  }
}
