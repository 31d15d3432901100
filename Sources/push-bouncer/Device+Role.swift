import ArgumentParser
import Foundation

extension Phone {
  /// What it takes to be an app at a chat server.
  struct AppOptions: ParsableArguments {
    @Option(help: "The chat server's address.") var server: String?
    @Option(help: "The user's email.") var email: String?
    @Option(help: "The user's API key.") var apiKey: String?
    @Flag(help: "Asks the chat server for a test notification.") var test = false
    @Flag(help: "Logs out at the end, also after Ctrl-C: the chat server forgets the device.") var forget =
      false
  }

  /// What it takes to play the chat server too.
  struct OwnServerOptions: ParsableArguments {
    @Option(help: "zulip_org_id of the chat server.") var orgID: String?
    @Option(help: "zulip_org_key of the chat server.") var orgKey: String?
    @Option(help: "The realm's UUID, any that is not another server's.") var realm: String?
    @Option(help: "Uploads the realm first, with this hostname; needed once for each realm.") var hostname:
      String?
    @Option(help: "Sends itself a notification with this text.") var send: [String] = []
  }

  /// Which of the three it is.
  enum Role {
    case app(server: String, email: String, apiKey: String)
    case ownServer(id: String, key: String, realm: String, bouncer: String)
    case nextcloud(server: String)
  }

  /// The one role that the options name; an error if they name none, several, or half of one.
  func role() throws -> Role {
    let appOptions = [
      ("--server", app.server), ("--email", app.email), ("--api-key", app.apiKey),
      ("--test", app.test ? "" : nil), ("--forget", app.forget ? "" : nil),
    ]
    let ownOptions = [
      ("--org-id", own.orgID), ("--org-key", own.orgKey), ("--realm", own.realm),
      ("--hostname", own.hostname), ("--send", own.send.first),
    ]
    let given = (app: appOptions.first { $0.1 != nil }, own: ownOptions.first { $0.1 != nil })
    let ways = "--server, --email and --api-key, or --org-id, --org-key and --realm, or --nextcloud"
    if let server = nextcloud.nextcloud {
      // --forget goes with every role.
      if let other = (appOptions + ownOptions).first(where: { $0.1 != nil && $0.0 != "--forget" }) {
        throw ValidationError("--nextcloud and \(other.0) do not go together: give \(ways)")
      }
      return .nextcloud(
        server: try Self.address(server, of: "--nextcloud", such: "https://cloud.example.org"))
    }
    switch given {
    case (nil, nil): throw ValidationError("give \(ways)")
    case (let app?, let own?):
      throw ValidationError("\(app.0) and \(own.0) do not go together: give \(ways)")
    case (_?, nil):
      guard let server = app.server, let email = app.email, let apiKey = app.apiKey else {
        throw Self.missing(appOptions)
      }
      return .app(
        server: try Self.address(server, of: "--server", such: "https://chat.example.org"), email: email,
        apiKey: apiKey)
    case (nil, _?):
      guard let id = own.orgID, let key = own.orgKey, let realm = own.realm else {
        throw Self.missing(ownOptions)
      }
      return try .ownServer(
        id: id, key: key, realm: realm, bouncer: bouncerAddress() ?? "http://127.0.0.1:8080")
    }
  }

  /// A server's address, without a slash at its end.
  static func address(_ text: String, of option: String, such example: String) throws -> String {
    guard let url = URL(string: text), ["http", "https"].contains(url.scheme), url.host() != nil else {
      throw ValidationError("\(option) wants the address of a server: \(example)")
    }
    return String(text.reversed().drop { $0 == "/" }.reversed())
  }

  /// The first three of the options make a role.
  private static func missing(_ options: [(name: String, value: String?)]) -> ValidationError {
    let names = options.prefix(3).filter { $0.value == nil }.map(\.name)
    return ValidationError("\(names.joined(separator: " and ")) \(names.count == 1 ? "is" : "are") missing")
  }
}
