import ArgumentParser
import Foundation
import HTTP
import Operations
import Registrations
import Server
import ZulipImport

extension Migrate {
  struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows how many devices are legacy and how many end-to-end encrypted, now and by day.")

    /// How many days the text shows; the JSON document has all.
    private static let shownDays = 30

    @OptionGroup var options: GlobalOptions
    @Option(help: ArgumentHelp("Only this one, with its realms.", valueName: "org id or hostname"))
    var server: String?

    func run() async throws {
      let configuration = try options.load()
      var (report, chosen) = try await Store.with(options, configuration) { store in
        let uuid = try await server.asyncMap { try await store.find($0).uuid.uuidString.lowercased() }
        return (try await MigrationStatus(database: store.database, now: store.now).report(), uuid)
      }
      if let chosen { report = report.only(chosen) }
      options.show(report.json) { report.fill(&$0, isOne: chosen != nil, days: Self.shownDays) }
      if report.servers.isEmpty, !options.json { note(configuration.whereabouts) }
    }
  }
}

extension Optional {
  fileprivate func asyncMap<Result>(_ body: (Wrapped) async throws -> Result) async rethrows -> Result? {
    if let self { try await body(self) } else { nil }
  }
}

extension MigrationStatus.Report {
  /// What concerns one server.
  fileprivate func only(_ uuid: String) -> Self {
    let servers = servers.filter { $0.uuid == uuid }
    return Self(servers: servers, history: servers.first?.history ?? [], cleanup: cleanup)
  }

  fileprivate var json: JSON {
    let total = servers.reduce(into: MigrationStatus.Devices()) { $0 += $1.devices }
    return [
      "total": .object(JSON.Object(total.members)), "servers": .array(servers.map(\.json)),
      "history": .array(history.map(\.json)),
      "cleanup": [
        "outstanding": .integer(cleanup.outstanding), "oldest_at": timestamp(cleanup.oldestAt),
        "last_failure": .optional(cleanup.lastFailure),
      ],
    ]
  }

  fileprivate func fill(_ page: inout Page, isOne: Bool, days: Int) {
    guard !servers.isEmpty else {
      page.add("no devices")
      page.add(cleanup.text)
      return
    }
    let total = servers.reduce(into: MigrationStatus.Devices()) { $0 += $1.devices }
    let place = isOne ? servers[0].hostname : Phrase.count(servers.count, "server")
    page.add("\(total.text), on \(place)", .heading)
    page.add(cleanup.text)
    page.add()
    page.add(isOne ? servers[0].table : table)
    page.add()
    var table = Table("DAY", .number("ENCRYPTED"), .number("LEGACY"), .number("DONE"))
    for day in history.suffix(days) { table.add(cells: [.init(day.text)] + day.devices.cells) }
    page.add(table)
  }

  private var table: Table {
    var table = Table(
      "SERVER", .number("ENCRYPTED"), .number("LEGACY"), .number("DONE"), .number("REALMS"))
    for server in servers {
      let realms = server.realms.count { $0.uuid != nil }
      table.add(
        cells: [.init(server.hostname)] + server.devices.cells + [.init(Phrase.number(realms))])
    }
    return table
  }
}

extension MigrationStatus.ServerDevices {
  fileprivate var json: JSON {
    .object(
      JSON.Object(
        [.init("org_id", .string(uuid)), .init("hostname", .string(hostname))] + devices.members
          + [.init("realms", .array(realms.map(\.json))), .init("history", .array(history.map(\.json)))]))
  }

  fileprivate var table: Table {
    var table = Table(
      "REALM", "NAME", .number("ENCRYPTED"), .number("LEGACY"), .number("DONE"))
    for realm in realms {
      table.add(
        cells: [realm.host.map { .init($0) } ?? .init("(not known yet)", .faint), .init(realm.name ?? "")]
          + realm.devices.cells)
    }
    return table
  }
}

extension MigrationStatus.RealmDevices {
  fileprivate var json: JSON {
    .object(
      JSON.Object(
        [
          .init("realm_uuid", .optional(uuid)), .init("host", .optional(host)),
          .init("name", .optional(name)),
        ] + devices.members + [.init("history", .array(history.map(\.json)))]))
  }
}

extension MigrationStatus.Day {
  fileprivate var json: JSON {
    .object(JSON.Object([.init("day", .string(text))] + devices.members))
  }

  fileprivate var text: String { date.formatted(.iso8601.year().month().day()) }
}

extension MigrationStatus.Devices {
  fileprivate var members: [JSON.Object.Member] {
    [.init("legacy", .integer(legacy)), .init("e2ee", .integer(e2ee))]
  }

  /// Encrypted, legacy, and how far that is.
  fileprivate var cells: [Table.Cell] {
    [
      .init(Phrase.number(e2ee)), .init(Phrase.number(legacy)),
      .init(Phrase.share(e2ee, of: e2ee + legacy), legacy == 0 ? .good : .plain),
    ]
  }

  fileprivate var text: String {
    """
    \(Phrase.count(e2ee + legacy, "device")): \(Phrase.number(e2ee)) end-to-end encrypted \
    (\(Phrase.share(e2ee, of: e2ee + legacy))), \(Phrase.number(legacy)) legacy
    """
  }
}

extension MigrationStatus.Cleanup {
  fileprivate var text: String {
    guard outstanding > 0 else { return "The bouncer has been told of every legacy token that has gone." }
    let since = oldestAt.map { ", the oldest for \(Phrase.duration(Date().timeIntervalSince($0)))" } ?? ""
    let failure = lastFailure.map { "; the last failure: \($0.inOneLine)" } ?? ""
    return
      "The bouncer has yet to be told that \(Phrase.count(outstanding, "legacy token is", "legacy tokens are")) gone\(since)\(failure)"
  }
}
