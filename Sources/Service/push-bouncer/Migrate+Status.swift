import ArgumentParser
import Foundation
import HTTP
import Operator
import Registrations
import SQL
import Server
import Settings
import ZulipImport

extension Migrate {
  struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows how many devices are legacy and how many end-to-end encrypted, now and by day.")

    /// How many days the text shows; the JSON document contains all.
    private static let shownDays = 30

    @OptionGroup var options: GlobalOptions
    @Option(help: ArgumentHelp("Only this one, with its realms.", valueName: "org id or hostname"))
    var server: String?

    func run() async throws {
      let report = try await Store.with(options) { store in
        let report = try await MigrationStatus(database: store.database, now: store.now).report()
        guard let server else { return report }
        return report.only(try await store.find(server).uuid.canonical)
      }
      let (servers, cleanup) = (report.servers, report.cleanup)
      let total = servers.reduce(into: MigrationStatus.Devices()) { $0 += $1.devices }
      options.show([
        "total": MigrationStatus.Devices.columns.json(total), "servers": servers.json(Self.servers),
        "history": report.history.json(Self.days),
        "cleanup": [
          "outstanding": .integer(cleanup.outstanding), "oldest_at": timestamp(cleanup.oldestAt),
          "last_failure": .optional(cleanup.lastFailure),
        ],
      ]) { page in
        guard !servers.isEmpty else {
          page.add("no devices")
          return page.add(cleanup.text)
        }
        let place = server == nil ? Phrase.count(servers.count, "server") : servers[0].hostname
        let devices = Phrase.count(total.e2ee + total.legacy, "device")
        page.add(
          """
          \(devices): \(Phrase.number(total.e2ee)) end-to-end encrypted \
          (\(Phrase.share(total.e2ee, of: total.e2ee + total.legacy))), \(Phrase.number(total.legacy)) legacy, on \(place)
          """, .heading)
        page.add(cleanup.text)
        page.add()
        page.add(server == nil ? servers.table(Self.servers) : servers[0].realms.table(Self.realms))
        page.add()
        page.add(report.history.suffix(Self.shownDays).map(\.self).table(Self.days))
      }
      if servers.isEmpty, !options.json { note(try options.read().0.whereabouts) }
    }

    private static var servers: [ReportColumn<MigrationStatus.ServerDevices>] {
      [.text("org_id", nil) { $0.uuid }, .text("hostname", "SERVER") { $0.hostname }]
        + MigrationStatus.Devices.columns.map { $0.of(\.devices) } + [
          .member("realms") { $0.realms.json(realms) },
          .cell("REALMS", isNumber: true) { .init(Phrase.number($0.realms.count { $0.uuid != nil })) },
          .member("history") { $0.history.json(days) },
        ]
    }

    private static var realms: [ReportColumn<MigrationStatus.RealmDevices>] {
      [
        .text("realm_uuid", nil) { $0.uuid },
        .text("host", "REALM", missing: .init("(not known yet)", .faint)) { $0.host },
        .text("name", "NAME", missing: "") { $0.name },
      ] + MigrationStatus.Devices.columns.map { $0.of(\.devices) } + [
        .member("history") { $0.history.json(days) }
      ]
    }

    private static var days: [ReportColumn<MigrationStatus.Day>] {
      [.text("day", "DAY") { $0.text }] + MigrationStatus.Devices.columns.map { $0.of(\.devices) }
    }
  }
}

extension MigrationStatus.Devices {
  fileprivate static var columns: [ReportColumn<Self>] {
    [
      .number("e2ee", "ENCRYPTED") { $0.e2ee }, .number("legacy", "LEGACY") { $0.legacy },
      .cell("DONE", isNumber: true) {
        .init(Phrase.share($0.e2ee, of: $0.e2ee + $0.legacy), $0.legacy == 0 ? .good : .plain)
      },
    ]
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
