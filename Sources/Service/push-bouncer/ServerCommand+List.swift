import ArgumentParser
import Basics
import Delivery
import Foundation
import HTTP
import Operator
import Registrations
import SQL
import Server
import ZulipBouncer

extension ServerCommand {
  struct List: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(abstract: "Lists the chat servers.")

    @OptionGroup var options: GlobalOptions

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<[ListedServer]>] {
      [.list("servers", of: ServerCommand.columns.members()) { $0 }]
    }

    func run() async throws {
      let servers = try await Store.with(options) { try await $0.listedServers() }
      let encrypted = servers.map(\.summary.registrations).reduce(0, +)
      let legacy = servers.map(\.summary.legacyRegistrations).reduce(0, +)
      try options.show(
        servers, Self.document, ServerCommand.columns,
        "\(Phrase.count(servers.count, "server")), \(ServerCommand.registrations(encrypted, legacy))",
        none: "no servers: let one in with push-bouncer server add --hostname HOSTNAME")
    }
  }

  struct Show: AsyncParsableCommand, PrintsDocument {
    static let configuration = CommandConfiguration(
      abstract: "Shows a chat server with its realms, their devices and their last activity.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    private typealias Shown = (
      listed: ListedServer, realms: [RemoteRealms.Summary], link: UpstreamReport?
    )

    static var documents: [JSONDocument] { .of(document) }

    private static var document: [JSONMember<Shown>] {
      ServerCommand.columns.members().of { $0.listed } + [
        .member("deactivated_by_itself", "false also if it is not deactivated") {
          $0.listed.server.isDeactivatedByItself
        },
        .member("version", "its version of Zulip, if it has reported one") { $0.listed.server.version },
        .list("realm_list", of: ServerCommand.realmColumns.members()) { $0.realms },
        .object(
          "upstream", "null if nothing is passed on to the upstream bouncer", orNull: UpstreamReport.members
        ) { $0.link },
      ]
    }

    func run() async throws {
      let configuration = try options.load()
      let (listed, realms, link) = try await Store.with(options, configuration) { store in
        let found = try await store.find(server)
        guard let listed = try await store.listedServers().first(where: { $0.server.id == found.id }) else {
          throw NotFound("there is no server \(server)")
        }
        return (
          listed, try await store.realms.summaries(ofServer: found.id),
          try await store.link(of: found.id, configuration)
        )
      }
      options.show((listed, realms, link), Self.document) { page in
        let server = listed.server
        let summary = listed.summary
        page.add(server.hostname, .heading)
        var facts = Table("", "")
        facts.add("Org id", .init(server.uuid.canonical))
        facts.add(
          "State",
          server.isDeactivatedByItself
            ? .init("deactivated, by itself", .doubtful)
            : ReportColumn<Bool>.state { $0 }.cell(server.isDeactivated))
        facts.add("Contact", server.contactEmail.isEmpty ? .none : .init(server.contactEmail))
        facts.add("Version", .optional(server.version))
        facts.add("Added", .init(Phrase.age(server.createdAt)))
        facts.add("Last request", .init(Phrase.age(server.lastRequestAt)))
        facts.add(
          "Devices",
          .init(ServerCommand.registrations(summary.registrations, summary.legacyRegistrations)))
        if listed.overPace > 0 {
          let count = Phrase.count(listed.overPace, "notification waits", "notifications wait")
          facts.add("Over its pace", .init("\(count) (bouncer.notifications_per_server)", .doubtful))
        }
        page.add(facts)
        page.add()
        if let link { page.add(link) }
        guard !realms.isEmpty else { return page.add("It has not reported any realm yet.") }
        page.add(realms.table(ServerCommand.realmColumns))
      }
    }
  }

  fileprivate static var columns: [ReportColumn<ListedServer>] {
    [
      .members(RemoteServer.members.of { $0.server }), .cell("HOSTNAME") { .init($0.server.hostname) },
      .state { $0.server.isDeactivated },
      .number("realms", "REALMS") { $0.summary.realms },
      .number("registrations", "ENCRYPTED", "end-to-end encrypted ones") { $0.summary.registrations },
      .number("legacy_registrations", "LEGACY") { $0.summary.legacyRegistrations },
      .number(
        "waiting_over_pace", "OVER PACE",
        "notifications that wait because it sends more than `bouncer.notifications_per_server`",
        tone: .doubtful
      ) { $0.overPace },
      .age("last_request_at", "LAST REQUEST", "null before its first call") { $0.server.lastRequestAt },
      .cell("ORG ID") { .init($0.server.uuid.canonical) },
      .member("contact_email", "empty if none is known") { $0.server.contactEmail },
    ]
  }

  fileprivate static var realmColumns: [ReportColumn<RemoteRealms.Summary>] {
    [
      .member("uuid", "null for registrations whose realm is not known yet") { $0.uuid?.canonical },
      .text("host", "REALM", missing: .init("(not known yet)", .faint)) { $0.uuid == nil ? nil : $0.host },
      .text("name", "NAME", missing: "") { $0.uuid == nil ? nil : $0.name },
      .member("deactivated") { $0.isDeactivated }, .state { $0.isDeactivated },
      .number("registrations", "ENCRYPTED", "end-to-end encrypted ones") { $0.registrations },
      .number("legacy_registrations", "LEGACY") { $0.legacyRegistrations },
      .age("last_request_at", "LAST REQUEST") { $0.lastRequestAt },
      .age("last_registered_at", "LAST REGISTRATION", "the latest registration of a device") {
        $0.lastRegisteredAt
      },
      .cell("UUID") { .optional($0.uuid?.canonical) },
    ]
  }

  private static func registrations(_ encrypted: Int64, _ legacy: Int64) -> String {
    "\(Phrase.count(encrypted, "encrypted registration")), \(Phrase.number(legacy)) legacy"
  }
}

/// A chat server as the lists show it.
private struct ListedServer {
  let summary: RemoteServers.Summary
  /// Number of its notifications that wait because it is over its pace.
  let overPace: Int64

  var server: RemoteServer { summary.server }
}

extension Store {
  fileprivate func listedServers() async throws -> [ListedServer] {
    let overPace = try await outbox.serversOverPace()
    let counts = Dictionary(overPace.map { ($0.id, $0.waiting) }) { $1 }
    return try await servers.all().map {
      ListedServer(summary: $0, overPace: Int64(counts[$0.server.id] ?? 0))
    }
  }

  /// The server with this org id or hostname.
  func find(_ server: String) async throws -> RemoteServer {
    let found =
      if let id = UUID(uuidString: server) { try await servers.find(uuid: id) } else {
        try await servers.find(hostname: server)
      }
    guard let found else { throw NotFound("there is no server \(server) (push-bouncer server list has all)") }
    return found
  }
}
