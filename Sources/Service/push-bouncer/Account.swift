import ArgumentParser
import Basics
import Foundation
import HTTP
import Operator
import Registrations
import SQL
import Server
import ZulipServer

/// `account ...`: the users of the built-in chat-server side.
struct Account: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Adds, lists and removes users of the built-in chat-server side.",
    subcommands: [Add.self, List.self, Remove.self])
}

extension Account {
  struct Add: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Adds a user and prints the API key, which is shown only now.")

    @OptionGroup var options: GlobalOptions
    @Option(help: "The email address that the user signs in with.") var email: String
    @Option(
      help: ArgumentHelp(
        "The UUID of the user's realm (default: the only one; if there is none, one is made).",
        valueName: "uuid"))
    var realm: String?
    @Option(
      help: ArgumentHelp("The user's number in the chat (default: the next free one).", valueName: "n"))
    var userID: Int64?
    @Option(
      help: ArgumentHelp(
        "The login at the Nextcloud endpoints (default: the part of the email before the @, or all of it if taken).",
        valueName: "name"))
    var username: String?
    @Option(
      help: ArgumentHelp(
        "The user's API key, 32 letters and digits (default: one is made).", valueName: "key"))
    var apiKey: String?
    @Option(help: ArgumentHelp("A file that holds the API key; - is standard input.", valueName: "file"))
    var apiKeyFile: String?

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<(user: User, key: String)>] {
      User.members.of { $0.user } + [
        .member("api_key", "32 letters and digits; a secret, shown only now") { $0.key }
      ]
    }

    func run() async throws {
      let apiKey = try SecretFile.value("--api-key", apiKey, file: apiKeyFile, "API key")
      guard AccountStore.isEmail(email) else {
        throw ValidationError("\(email) is not a valid email address")
      }
      guard username.map(AccountStore.isUsername) ?? true else {
        throw ValidationError(
          "--username must have 1 to 254 characters without white space, control characters, : and /")
      }
      guard apiKey.map(AccountStore.isAPIKey) ?? true else {
        throw ValidationError("--api-key must have \(AccountStore.apiKeyLength) letters and digits")
      }
      guard userID.map(AccountStore.isUserID) ?? true else {
        throw ValidationError("--user-id must be a number from 0 to \(Int32.max)")
      }
      let uuid = try realm.map { text in
        guard let uuid = UUID(uuidString: text) else { throw ValidationError("--realm must be a UUID") }
        return uuid
      }
      let configuration = try options.load()
      let (user, key) = try await Store.with(options, configuration) { store in
        try await add(to: store.realm(uuid, configuration.server), store.accounts, apiKey)
      }
      options.show((user, key), Self.document, "\(user.line)\n\napi_key = \(key)")
    }

    private func add(
      to realm: UUID, _ accounts: AccountStore, _ apiKey: String?
    ) async throws -> (user: User, apiKey: String) {
      do {
        return try await accounts.add(
          .init(email: email, apiKey: apiKey, username: username), userID: userID, realm: realm)
      } catch let refusal as AccountStore.UserError {
        let realm = realm.canonical
        let error: any Error =
          switch refusal {
          case .unknownRealm: NotFound("there is no realm \(realm)")
          case .emailTaken: Fault("a user with the email \(email) already exists")
          case .usernameTaken:
            Fault("a user with this username already exists: give another with --username")
          case .userIDTaken: Fault("realm \(realm) already has a user with this number")
          case .noUserIDLeft: Fault("realm \(realm) has no next number: give one with --user-id")
          }
        throw error
      }
    }
  }

  struct List: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(abstract: "Lists the users.")

    @OptionGroup var options: GlobalOptions

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<[User]>] { [.list("accounts", of: columns.members()) { $0 }] }

    private static var columns: [ReportColumn<User>] {
      [
        .text("email", "EMAIL") { $0.email },
        .text("username", "USERNAME", "the name at Nextcloud's endpoints") { $0.username },
        .member("user_id", "the number in the chat") { $0.userID },
        .cell("USER", isNumber: true) { .init("\($0.userID)") },
        .text("realm_name", "REALM") { $0.realm.name },
        .text("realm_uuid", "REALM UUID") { $0.realm.uuid.canonical },
      ]
    }

    func run() async throws {
      let users = try await Store.with(options) { try await $0.accounts.all() }
      try options.show(
        users, Self.document, Self.columns,
        none: "no accounts: add one with push-bouncer account add --email EMAIL")
    }
  }

  struct Remove: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Removes a user with all devices and app passwords.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The user's email.") var email: String

    static var documents: [JSONDocument] { .of(User.members) }

    func run() async throws {
      let user = try await Store.with(options) { store in
        guard let user = try await store.accounts.find(email: email) else {
          throw NotFound("there is no account \(email)")
        }
        try await store.devices().remove(user: user.id)
        return user
      }
      options.show(user, User.members, "\(user.email) is removed")
    }
  }
}

extension Store {
  /// The realm with this UUID, or the only realm; if there is no realm yet, creates one.
  fileprivate func realm(_ named: UUID?, _ server: BuiltInServerSettings) async throws -> UUID {
    if let named { return named }
    let realms = try await accounts.realms()
    guard realms.count <= 1 else {
      let list = realms.map { "\n  \($0.uuid.canonical)  \($0.name.inOneLine)" }.joined()
      throw Fault("there are several realms: name one with --realm\(list)")
    }
    if let only = realms.first { return only.uuid }
    return try await accounts.put(realm: UUID(), name: server.name, url: server.url, requiresE2EE: nil).realm
      .uuid
  }
}

extension User {
  fileprivate static var members: [JSONMember<User>] {
    [
      .member("realm_uuid") { $0.realm.uuid.canonical },
      .member("user_id", "the number in the chat") { $0.userID },
      .member("user_uuid") { $0.uuid.canonical }, .member("email") { $0.email },
      .member("username", "the name at Nextcloud's endpoints") { $0.username },
    ]
  }

  fileprivate var line: String {
    "\(email)  \(username)  user \(userID) of \(realm.name.inOneLine) (\(realm.uuid.canonical))"
  }
}
