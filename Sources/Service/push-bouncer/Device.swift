import ArgumentParser
import AsyncHTTPClient
import Demo
import Foundation
import HTTP

/// `device ...`: searches registered devices, and runs a virtual one.
struct Device: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract:
      "Finds registered devices and shows why one gets nothing; without a subcommand, runs a virtual phone.",
    subcommands: [Phone.self, List.self, Find.self, Show.self], defaultSubcommand: Phone.self)
}

extension Phone {
  /// The options for Nextcloud Talk at a Nextcloud server.
  struct NextcloudOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The Nextcloud server's address.", valueName: "url"))
    var nextcloud: String?
    @Option(help: ArgumentHelp("The push proxy's address (default: the server's own).", valueName: "url"))
    var proxy: String?
  }

  /// Runs as Nextcloud Talk on an iPhone: signs in, registers at the server and the push proxy, and listens.
  func run(atNextcloud server: String, _ home: PhoneHome) async throws {
    let account = try await signIn(at: server, home.client)
    var seen = try await home.next()
    var phone = NextcloudPhone(account, proxy: nextcloud.proxy)
    try await phone.register()
    printError("registered: \(phone.identity?.identifier ?? "")")
    let tokens = [phone.token.lowercased(), phone.voipToken.lowercased()]
    try await show {
      try await home.deliveries(after: &seen).compactMap { delivery in
        guard let token = delivery["token"]?.string, tokens.contains(token) else { return nil }
        let opened = Result { () throws(Unreadable) in try phone.open(delivery["payload"] ?? .null) }
        return (opened.map(\.text), token == tokens[1])
      }
    }
    guard app.forget else { return }
    try await phone.unregister()
    try await account.signOut()
    printError("signed out")
  }

  /// Runs as a Nextcloud app on a phone without Google services: signs in, subscribes, and listens.
  func run(subscribedAt server: String, _ client: HTTPClient) async throws {
    let account = try await signIn(at: server, client)
    var phone = NextcloudSubscriber(
      account, at: try pushService(client))
    try await phone.subscribe()
    printError("registered: the subscription is active")
    try await show {
      try await phone.messages().map { message in
        (message.map(\.text), (try? message.get())?["type"] == "call")
      }
    }
    guard app.forget else { return }
    try await phone.unsubscribe()
    try await account.signOut()
    printError("signed out")
  }

  /// Runs as an app that gets Web Push by way of the gateway: subscribes, prints what senders need, and listens.
  func run(behindGateway bouncer: String, _ home: PhoneHome) async throws {
    var seen = try await home.next()
    let phone = try await GatewayPhone(
      at: bouncer, appID: isIPhone ? appID : nil, sender: sender, client: home.client)
    printLine(phone.subscription.text)
    try await show {
      var arrived: [(Result<String, Unreadable>, Bool)] = []
      for delivery in try await home.deliveries(after: &seen) {
        if let text = try await phone.open(delivery) { arrived.append((text, false)) }
      }
      return arrived
    }
    guard app.forget else { return }
    try await phone.end()
    printError("ended the subscription")
  }

  /// Prints the notifications that arrive, until `count` is reached.
  private func show(
    _ arrivals: () async throws -> [(notification: Result<String, Unreadable>, isCall: Bool)]
  ) async throws {
    var arrived = 0
    while count.map({ arrived < $0 }) ?? true {
      for (notification, isCall) in try await arrivals() {
        arrived += 1
        let text = Self.text(of: notification)
        options.show((text, isCall), Self.nextcloudDocument, text)
      }
    }
  }

  /// What is printed of a notification: its text, or why there is none.
  static func text(of notification: Result<String, Unreadable>) -> String {
    switch notification {
    case .success(let text): text
    case .failure(let reason): "could not be decrypted: \(reason)"
    }
  }

  private func signIn(at server: String, _ client: HTTPClient) async throws -> NextcloudAccount {
    let signIn = try await NextcloudSignIn(server: server, client: client)
    printError("let the phone sign in: \(signIn.page)")
    let account = try await signIn.wait()
    printError("signed in as \(account.user) at \(account.server)")
    return account
  }
}

extension Phone {
  /// The options for an app at a chat server.
  struct AppOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The chat server's address.", valueName: "url")) var server: String?
    @Option(help: "The user's email.") var email: String?
    @Option(help: ArgumentHelp("The user's API key.", valueName: "key")) var apiKey: String?
    @Option(help: ArgumentHelp("A file that holds the API key; - is standard input.", valueName: "file"))
    var apiKeyFile: String?
    @Flag(help: "Asks the chat server for a test notification.") var test = false
    @Flag(help: "Logs out at the end, also after Ctrl-C: the chat server forgets the device.") var forget =
      false
  }

  /// The options for playing the chat server as well.
  struct OwnServerOptions: ParsableArguments {
    @Option(help: ArgumentHelp("zulip_org_id of the chat server.", valueName: "id")) var orgID: String?
    @Option(help: ArgumentHelp("zulip_org_key of the chat server.", valueName: "key")) var orgKey: String?
    @Option(help: ArgumentHelp("A file that holds this key; - is standard input.", valueName: "file"))
    var orgKeyFile: String?
    @Option(help: ArgumentHelp("The realm's UUID, any that is not another server's.", valueName: "uuid"))
    var realm: String?
    @Option(help: "Uploads the realm first, with this hostname; needed once for each realm.") var hostname:
      String?
    @Option(help: ArgumentHelp("Sends itself a notification with this text.", valueName: "text"))
    var send: [String] = []
  }

  /// What the virtual phone is connected to.
  enum Role {
    case app(server: String, email: String, apiKey: String)
    case ownServer(id: String, key: String, realm: String, bouncer: String)
    case nextcloud(server: String)
    case gateway(bouncer: String)
  }

  /// The role that the options name. Throws if they name no role, several roles, or an incomplete one.
  ///
  /// - Parameters:
  ///   - apiKey: the user's, wherever it is from; any text while only the options are checked.
  ///   - orgKey: the chat server's, likewise.
  func role(apiKey: String?, orgKey: String?) throws -> Role {
    // `--forget` is allowed with every app.
    let isForget = app.forget && nextcloud.nextcloud == nil && kind != .gateway
    let appOptions = [
      ("--server", app.server), ("--email", app.email), ("--api-key", apiKey),
      ("--test", app.test ? "" : nil), ("--forget", isForget ? "" : nil),
    ]
    let ownOptions = [
      ("--org-id", own.orgID), ("--org-key", orgKey), ("--realm", own.realm),
      ("--hostname", own.hostname), ("--send", own.send.first),
    ]
    let given = [[("--nextcloud", nextcloud.nextcloud)], appOptions, ownOptions].map { options in
      options.first { $0.1 != nil }?.0
    }
    let ways = "--server, --email and --api-key, or --org-id, --org-key and --realm, or --nextcloud"
    let names = given.compactMap(\.self)
    guard names.count < 2 else {
      throw ValidationError("\(names[0]) and \(names[1]) do not go together: give \(ways)")
    }
    if kind == .gateway {
      guard names.isEmpty else { throw ValidationError("--kind gateway and \(names[0]) do not go together") }
      return .gateway(bouncer: try bouncerAddress() ?? "http://127.0.0.1:8080")
    }
    guard !isIPhone, sender == nil else {
      throw ValidationError("--iphone and --sender go with --kind gateway")
    }
    guard !names.isEmpty else { throw ValidationError("give \(ways)") }
    if let server = nextcloud.nextcloud {
      return .nextcloud(
        server: try Self.address(server, of: "--nextcloud", such: "https://cloud.example.org"))
    }
    if given[1] != nil {
      guard let server = app.server, let email = app.email, let apiKey else {
        throw Self.missing(appOptions)
      }
      return .app(
        server: try Self.address(server, of: "--server", such: "https://chat.example.org"), email: email,
        apiKey: apiKey)
    }
    guard let id = own.orgID, let key = orgKey, let realm = own.realm else {
      throw Self.missing(ownOptions)
    }
    return try .ownServer(
      id: id, key: key, realm: realm, bouncer: bouncerAddress() ?? "http://127.0.0.1:8080")
  }

  /// A server's address, without a trailing slash.
  static func address(_ text: String, of option: String, such example: String) throws -> String {
    guard let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host() != nil else {
      throw ValidationError("\(option) must be the address of a server: \(example)")
    }
    return String(text.reversed().drop { $0 == "/" }.reversed())
  }

  /// The error for an incomplete role. The first three options are required.
  private static func missing(_ options: [(name: String, value: String?)]) -> ValidationError {
    let names = options.prefix(3).filter { $0.value == nil }.map(\.name)
    return ValidationError("\(names.joined(separator: " and ")) \(names.count == 1 ? "is" : "are") missing")
  }
}
