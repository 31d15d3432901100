import ArgumentParser
import Foundation
import HTTP
import Operator
import Registrations
import SQL
import Server
import Settings
import ZulipBouncer

extension ServerCommand {
  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the chat servers.")

    @OptionGroup var options: GlobalOptions

    func run() async throws {
      let servers = try await Store.with(options) { try await $0.servers.all() }
      let encrypted = servers.map(\.registrations).reduce(0, +)
      let legacy = servers.map(\.legacyRegistrations).reduce(0, +)
      try options.show(
        "servers", servers, ServerCommand.columns,
        "\(Phrase.count(servers.count, "server")), \(ServerCommand.registrations(encrypted, legacy))",
        none: "no servers: let one in with push-bouncer server add --hostname HOSTNAME")
    }
  }

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a chat server with its realms, their devices and their last activity.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    func run() async throws {
      let configuration = try options.load()
      let (summary, realms, link) = try await Store.with(options, configuration) { store in
        let found = try await store.find(server)
        guard let summary = try await store.servers.all().first(where: { $0.server.id == found.id }) else {
          throw NotFound("there is no server \(server)")
        }
        return (
          summary, try await store.realms.summaries(ofServer: found.id),
          try await store.link(of: found.id, configuration)
        )
      }
      let columns =
        ServerCommand.columns + [
          .member("deactivated_by_itself") { .bool($0.server.isDeactivatedByItself) },
          .text("version", nil) { $0.server.version },
          .member("realm_list") { _ in realms.json(ServerCommand.realmColumns) },
          ServerCommand.linkColumn(link),
        ]
      options.show(columns.json(summary)) { page in
        let server = summary.server
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
        page.add(facts)
        page.add()
        if let link { page.add(link) }
        guard !realms.isEmpty else { return page.add("It has not reported any realm yet.") }
        page.add(realms.table(ServerCommand.realmColumns))
      }
    }
  }

  fileprivate static var columns: [ReportColumn<RemoteServers.Summary>] {
    [
      .members(\.server.json), .text(nil, "HOSTNAME") { $0.server.hostname },
      .state { $0.server.isDeactivated },
      .number("realms", "REALMS") { $0.realms }, .number("registrations", "ENCRYPTED") { $0.registrations },
      .number("legacy_registrations", "LEGACY") { $0.legacyRegistrations },
      .age("last_request_at", "LAST REQUEST") { $0.server.lastRequestAt },
      .text(nil, "ORG ID") { $0.server.uuid.canonical },
      .text("contact_email", nil) { $0.server.contactEmail },
    ]
  }

  fileprivate static var realmColumns: [ReportColumn<RemoteRealms.Summary>] {
    [
      .members {
        .realm($0.uuid?.canonical, host: $0.uuid == nil ? nil : $0.host, isDeactivated: $0.isDeactivated)
      },
      .text(nil, "REALM", missing: .init("(not known yet)", .faint)) { $0.uuid == nil ? nil : $0.host },
      .text("name", "NAME", missing: "") { $0.uuid == nil ? nil : $0.name },
      .state { $0.isDeactivated }, .number("registrations", "ENCRYPTED") { $0.registrations },
      .number("legacy_registrations", "LEGACY") { $0.legacyRegistrations },
      .age("last_request_at", "LAST REQUEST") { $0.lastRequestAt },
      .age("last_registered_at", "LAST REGISTRATION") { $0.lastRegisteredAt },
      .text(nil, "UUID") { $0.uuid?.canonical },
    ]
  }

  private static func registrations(_ encrypted: Int64, _ legacy: Int64) -> String {
    "\(Phrase.count(encrypted, "encrypted registration")), \(Phrase.number(legacy)) legacy"
  }
}

extension Store {
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
