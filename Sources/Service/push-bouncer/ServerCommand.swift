import ArgumentParser
import Basics
import Foundation
import HTTP
import HTTPClient
import Registrations
import SQL
import Server

/// `server ...`: the chat servers that may use this bouncer.
struct ServerCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "server",
    abstract: "Lets chat servers in, lists them, switches them off.",
    subcommands: [
      Add.self, List.self, Show.self, Deactivate.self, Reactivate.self, RotateKey.self, ReleaseRealm.self,
      Upstream.self,
    ])
}

extension ServerCommand {
  struct Add: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Lets a chat server in and prints its credentials: the key is shown only now.",
      discussion: "The hostname of a deactivated server may be given to a new one; the old one then has none."
    )

    @OptionGroup var options: GlobalOptions
    @Option(help: "The chat server's hostname, as it is in its own settings.") var hostname: String
    @Option(
      help: ArgumentHelp(
        "The server's zulip_org_id, if it has one already; otherwise one is made.", valueName: "id"))
    var orgID: String?
    @Option(
      help: ArgumentHelp(
        "The server's zulip_org_key (64 characters), if it has one already; otherwise one is made.",
        valueName: "key"))
    var orgKey: String?
    @Option(help: ArgumentHelp("A file that holds this key; - is standard input.", valueName: "file"))
    var orgKeyFile: String?
    @Option(
      help: ArgumentHelp(
        "The email address of the server's administrator. The upstream bouncer (upstream.url) needs it for a new key.",
        valueName: "email"))
    var contactEmail: String = ""

    static var documents: [JSONDocument] { .of(ServerCommand.credentials) }

    func run() async throws {
      guard let name = Hostname(international: hostname) else {
        throw ValidationError(
          "\(hostname) is not a valid hostname: give the name alone, such as chat.example.org or chat.example.org:8443"
        )
      }
      let orgKey = try SecretFile.value("--org-key", orgKey, file: orgKeyFile, "key")
      guard orgKey.map({ $0.count == 64 }) ?? true else {
        throw ValidationError("--org-key must have 64 characters")
      }
      guard let id = orgID.map(UUID.init(uuidString:)) ?? UUID() else {
        throw ValidationError("--org-id must be a UUID")
      }
      let (server, key) = try await Store.with(options) { store in
        do {
          return try await store.servers.add(
            hostname: name, uuid: id, key: orgKey, contactEmail: contactEmail)
        } catch RemoteServers.RegistrationError.hostnameTaken {
          throw Fault("a server with hostname \(hostname) already exists")
        } catch RemoteServers.RegistrationError.alreadyThere {
          throw Fault("a server with id \(id.canonical) already exists")
        }
      }
      options.show((server, key), ServerCommand.credentials, ServerCommand.settings(of: server, key))
    }
  }

  struct Deactivate: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Switches a chat server off: it is refused until it is switched on again.",
      discussion: """
        It keeps its hostname: nobody can register under it or verify it, until "server reactivate", or until \
        "server add" gives it to another server. A server that deactivates itself ("register_server --deactivate") gives \
        its hostname up; this command then reserves it again.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    static var documents: [JSONDocument] { .of(ServerName.members) }

    func run() async throws { try await ServerCommand.set(server, deactivated: true, options) }
  }

  struct Reactivate: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(abstract: "Switches a chat server on again.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    static var documents: [JSONDocument] { .of(ServerName.members) }

    func run() async throws { try await ServerCommand.set(server, deactivated: false, options) }
  }

  struct RotateKey: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Gives a chat server a new key, shown only now; the old one may still call for 10 minutes.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String
    @Option(
      help: ArgumentHelp("The email address of the server's administrator from now on.", valueName: "email"))
    var contactEmail: String?
    @Flag(help: "Ends the old key at once, as after a leak. The server is refused until it has the new one.")
    var now = false

    static var documents: [JSONDocument] { .of(ServerCommand.credentials) }

    func run() async throws {
      let configuration = try options.load()
      let (found, key) = try await Store.with(options, configuration) { store in
        let found = try await store.find(server)
        return (
          found, try await store.rotateKey(of: found, email: contactEmail, atOnce: now, configuration)
        )
      }
      guard let key else { throw Fault("there is no server \(server)") }
      if now { try await ServerCommand.awaitNotice() }
      options.show((found, key), ServerCommand.credentials, ServerCommand.settings(of: found, key))
    }
  }

  struct ReleaseRealm: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Releases a realm: the next server that reports it within a day takes it over.",
      discussion: """
        A realm belongs to the server that reported it first, until that server deactivates it or is deactivated \
        itself. After this command, the next other server that reports the realm takes it over; until then the present \
        one keeps it. A server that the realm was moved to knows the realm's secret, and the registered devices stay. If \
        it reports another secret, their registrations end.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The realm's UUID.") var realm: String

    private typealias Released = (realm: String, host: String, server: String, end: Date)

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<Released>] {
      [
        .member("realm_uuid") { $0.realm }, .member("host", "its hostname") { $0.host },
        .member("server_hostname", "of the server that has it") { $0.server },
        .member("released_until", "until then the next server that names the realm gets it") { $0.end },
      ]
    }

    func run() async throws {
      guard let uuid = UUID(uuidString: realm) else { throw ValidationError("\(realm) is not a UUID") }
      let end = Date() + 86_400
      let found = try await Store.with(options) { store in
        guard let found = try await store.realms.release(uuid: uuid, until: end) else {
          throw NotFound("no server has reported realm \(realm)")
        }
        return found
      }
      let id = uuid.canonical
      options.show(
        (id, found.realm, found.server, end), Self.document,
        """
        \(found.realm) (\(id)) of \(found.server) goes to the next server that reports it before \
        \(end.formatted(.iso8601)).
        """)
    }
  }

  private static func set(_ server: String, deactivated: Bool, _ options: GlobalOptions) async throws {
    let found = try await Store.with(options) { store in
      let found = try await store.find(server)
      try await store.servers.setDeactivated(found.id, deactivated)
      return found
    }
    try await awaitNotice()
    let name = ServerName(
      orgID: found.uuid.canonical, hostname: found.hostname, isDeactivated: deactivated)
    options.show(name, ServerName.members, "\(found.hostname) is \(deactivated ? "deactivated" : "active")")
  }

  /// Waits until a running service must have noticed a change: it reads a server anew after this time, and nothing tells when
  /// it has.
  private static func awaitNotice() async throws { try await Task.sleep(for: RemoteServers.propagation) }

  fileprivate static var credentials: [JSONMember<(server: RemoteServer, key: String)>] {
    RemoteServer.members.of { $0.server } + [
      .member("org_key", "`zulip_org_key`, 64 characters; a secret, shown only now") { $0.key }
    ]
  }

  private static func settings(of server: RemoteServer, _ key: String) -> String {
    """
    \(server.hostname) may use this bouncer. In its /etc/zulip/zulip-secrets.conf:

    zulip_org_id = \(server.uuid.canonical)
    zulip_org_key = \(key)
    """
  }
}
