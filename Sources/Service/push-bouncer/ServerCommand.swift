import ArgumentParser
import Foundation
import HTTP
import HTTPClient
import Registrations
import SQL
import Server
import Settings

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
  struct Add: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Lets a chat server in and prints its credentials: the key is shown only now.",
      discussion: "A hostname that a deactivated server has is free: that server stays, without it.")

    @OptionGroup var options: GlobalOptions
    @Option(help: "The chat server's hostname, as it is in its own settings.") var hostname: String
    @Option(help: "The server's zulip_org_id, if it has one already; otherwise one is made.") var orgID:
      String?
    @Option(help: "The server's zulip_org_key (64 characters), if it has one already; otherwise one is made.")
    var orgKey: String?
    @Option(
      help:
        "The email address of the server's administrator. The upstream bouncer (upstream.url) needs it for a new key."
    ) var email: String = ""

    func run() async throws {
      guard let name = Hostname(international: hostname) else {
        throw ValidationError(
          "\(hostname) is not a valid hostname: give the name alone, such as chat.example.org or chat.example.org:8443"
        )
      }
      guard orgKey.map({ $0.count == 64 }) ?? true else {
        throw ValidationError("--org-key wants 64 characters")
      }
      guard let id = orgID.map(UUID.init(uuidString:)) ?? UUID() else {
        throw ValidationError("--org-id wants a UUID")
      }
      let (server, key) = try await Store.with(options) { store in
        do {
          return try await store.servers.add(hostname: name, uuid: id, key: orgKey, contactEmail: email)
        } catch RemoteServers.Refusal.hostnameTaken {
          throw Fault("a server with hostname \(hostname) already exists")
        } catch RemoteServers.Refusal.alreadyThere {
          throw Fault("a server with id \(id.canonical) already exists")
        }
      }
      options.show(ServerCommand.credentials(of: server, key), ServerCommand.settings(of: server, key))
    }
  }

  struct Deactivate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Switches a chat server off: it is refused until it is switched on again.",
      discussion: """
        It keeps its hostname, and nobody can register with it or prove it, until "server reactivate", or until \
        "server add" gives the hostname to another. A server that has deactivated itself (stock \
        "register_server --deactivate") gives its hostname up: this command takes that back.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    func run() async throws { try await ServerCommand.set(server, deactivated: true, options) }
  }

  struct Reactivate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Switches a chat server on again.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    func run() async throws { try await ServerCommand.set(server, deactivated: false, options) }
  }

  struct RotateKey: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Gives a chat server a new key, shown only now; the old one is accepted for 10 more minutes.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String
    @Option(help: "The email address of the server's administrator from now on.") var email: String?

    func run() async throws {
      let configuration = try options.load()
      let (found, key) = try await Store.with(options, configuration) { store in
        let found = try await store.find(server)
        return (found, try await store.rotateKey(of: found, email: email, configuration))
      }
      guard let key else { throw Fault("there is no server \(server)") }
      options.show(ServerCommand.credentials(of: found, key), ServerCommand.settings(of: found, key))
    }
  }

  struct ReleaseRealm: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Lets a realm go: within a day, the next server that brings it gets it.",
      discussion: """
        A realm belongs to the server that named it first, until that server deactivates it or is deactivated \
        itself. After this command, the next other server that names the realm gets it; until then the present one \
        keeps it. If the realm was moved to that server, it knows the realm's secret, and the registered devices \
        stay. If it has another secret, their registrations end.
        """)

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The realm's UUID.") var realm: String

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
        [
          "realm_uuid": .string(id), "host": .string(found.realm), "server": .string(found.server),
          "released_until": .time(end),
        ],
        """
        \(found.realm) (\(id)) of \(found.server) goes to the next server that brings it, until \
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
    // Waits until a running service must have noticed the change.
    try await Task.sleep(for: RemoteServers.propagation)
    let document = JSON.Object.server(
      found.uuid.canonical, hostname: found.hostname, isDeactivated: deactivated)
    options.show(.object(document), "\(found.hostname) is \(deactivated ? "deactivated" : "active")")
  }

  private static func credentials(of server: RemoteServer, _ key: String) -> JSON {
    var json = server.json
    json["org_key"] = .string(key)
    return .object(json)
  }

  private static func settings(of server: RemoteServer, _ key: String) -> String {
    """
    \(server.hostname) may use this bouncer. In its /etc/zulip/zulip-secrets.conf:

    zulip_org_id = \(server.uuid.canonical)
    zulip_org_key = \(key)
    """
  }
}
