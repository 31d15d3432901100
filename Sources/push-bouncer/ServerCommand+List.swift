import ArgumentParser
import Foundation
import HTTP
import Operations
import Registrations
import Server

extension ServerCommand {
  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Lists the chat servers.")

    @OptionGroup var options: GlobalOptions

    func run() async throws {
      let configuration = try options.load()
      let servers = try await Store.with(options, configuration) { try await $0.servers.all() }
      options.show(["servers": .array(servers.map { .object($0.json) })]) { page in
        guard !servers.isEmpty else {
          page.add("no servers: let one in with push-bouncer server add --hostname HOSTNAME")
          return page.add(aside: configuration.whereabouts)
        }
        let encrypted = servers.map(\.registrations).reduce(0, +)
        let legacy = servers.map(\.legacyRegistrations).reduce(0, +)
        page.add(
          "\(Phrase.count(servers.count, "server")), \(Phrase.registrations(encrypted, legacy: legacy))")
        page.add()
        var table = Table(
          "HOSTNAME", "STATE", .number("REALMS"), .number("ENCRYPTED"), .number("LEGACY"), "LAST REQUEST",
          "ORG ID")
        for summary in servers {
          table.add(
            .init(summary.server.hostname), summary.server.state, .init(Phrase.number(summary.realms)),
            .init(Phrase.number(summary.registrations)), .init(Phrase.number(summary.legacyRegistrations)),
            .init(Phrase.age(summary.server.lastRequestAt)),
            .init(summary.server.uuid.uuidString.lowercased()))
        }
        page.add(table)
      }
    }
  }

  struct Show: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows a chat server with its realms, their devices and their last activity.")

    @OptionGroup var options: GlobalOptions
    @Argument(help: "The server's zulip_org_id or hostname.") var server: String

    func run() async throws {
      let (summary, realms) = try await Store.with(options) { store in
        let found = try await store.find(server)
        guard let summary = try await store.servers.all().first(where: { $0.server.id == found.id }) else {
          throw NotFound("there is no server \(server)")
        }
        return (summary, try await store.realms.summaries(ofServer: found.id))
      }
      var document = summary.json
      document["version"] = .optional(summary.server.version)
      document["realm_list"] = .array(realms.map(\.json))
      options.show(.object(document)) { page in
        let server = summary.server
        page.add(server.hostname, .heading)
        var facts = Table("", "")
        facts.add("Org id", .init(server.uuid.uuidString.lowercased()))
        facts.add("State", server.state)
        facts.add("Contact", server.contactEmail.isEmpty ? .none : .init(server.contactEmail))
        facts.add("Version", server.version.map { .init($0) } ?? .none)
        facts.add("Added", .init(Phrase.age(server.createdAt)))
        facts.add("Last request", .init(Phrase.age(server.lastRequestAt)))
        facts.add(
          "Devices", .init(Phrase.registrations(summary.registrations, legacy: summary.legacyRegistrations)))
        page.add(facts)
        page.add()
        guard !realms.isEmpty else { return page.add("It has not told of any realm yet.") }
        page.add(realms.table)
      }
    }
  }
}

extension Phrase {
  /// `12 encrypted registrations, 3 legacy ones`
  static func registrations(_ encrypted: Int64, legacy: Int64) -> String {
    "\(count(encrypted, "encrypted registration")), \(number(legacy)) legacy"
  }
}

extension Store {
  /// The server with this org id or hostname.
  func find(_ server: String) async throws -> RemoteServer {
    let found =
      if let id = UUID(uuidString: server) { try await servers.find(uuid: id) } else {
        try await servers.find(hostname: server)
      }
    guard let found else { throw NotFound("there is no server \(server)") }
    return found
  }
}

extension RemoteServer {
  fileprivate var state: Table.Cell {
    isDeactivated ? .init("deactivated", .doubtful) : .init("active", .good)
  }
}

extension RemoteServers.Summary {
  fileprivate var json: JSON.Object {
    [
      "org_id": .string(server.uuid.uuidString.lowercased()), "hostname": .string(server.hostname),
      "contact_email": .string(server.contactEmail), "deactivated": .bool(server.isDeactivated),
      "last_request_at": timestamp(server.lastRequestAt), "realms": .integer(realms),
      "registrations": .integer(registrations), "legacy_registrations": .integer(legacyRegistrations),
    ]
  }
}

extension RemoteRealms.Summary {
  fileprivate var json: JSON {
    [
      "realm_uuid": .optional(uuid?.uuidString.lowercased()), "host": .optional(uuid == nil ? nil : host),
      "name": .optional(uuid == nil ? nil : name), "deactivated": .bool(isDeactivated),
      "last_request_at": timestamp(lastRequestAt), "last_registered_at": timestamp(lastRegisteredAt),
      "registrations": .integer(registrations), "legacy_registrations": .integer(legacyRegistrations),
    ]
  }
}

extension [RemoteRealms.Summary] {
  fileprivate var table: Table {
    var table = Table(
      "REALM", "NAME", "STATE", .number("ENCRYPTED"), .number("LEGACY"), "LAST REQUEST", "LAST REGISTRATION",
      "UUID")
    for realm in self {
      table.add(
        realm.uuid == nil ? .init("(not known yet)", .faint) : .init(realm.host), .init(realm.name),
        realm.isDeactivated ? .init("deactivated", .doubtful) : .init("active", .good),
        .init(Phrase.number(realm.registrations)), .init(Phrase.number(realm.legacyRegistrations)),
        .init(Phrase.age(realm.lastRequestAt)), .init(Phrase.age(realm.lastRegisteredAt)),
        realm.uuid.map { .init($0.uuidString.lowercased()) } ?? .none)
    }
    return table
  }
}
