import ArgumentParser
import Foundation
import Operations
import Server
import Wire
import ZulipMigration

extension Migrate {
  struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows how many devices are legacy and how many end-to-end encrypted, now and by day.")

    /// How many days the text shows; the JSON document has all.
    private static let shownDays = 30

    @OptionGroup var options: GlobalOptions

    func run() async throws {
      let report = try await Store.with(options) { store in
        try await MigrationStatus(database: store.database, now: store.now).report()
      }
      options.show(report.json, report.text(days: Self.shownDays))
    }
  }
}

extension MigrationStatus.Report {
  fileprivate var json: JSON {
    [
      "servers": .array(servers.map(\.json)), "history": .array(history.map(\.json)),
      "cleanup": [
        "outstanding": .integer(cleanup.outstanding), "oldest_at": timestamp(cleanup.oldestAt),
        "last_failure": .optional(cleanup.lastFailure),
      ],
    ]
  }

  fileprivate func text(days: Int) -> String {
    var lines: [String] = servers.isEmpty ? ["no devices"] : []
    for server in servers {
      lines.append("\(server.hostname)  \(server.devices.text)")
      for realm in server.realms {
        lines.append("  \(realm.host ?? "(realm not known yet)")  \(realm.devices.text)")
      }
    }
    if !servers.isEmpty {
      lines += ["", "All, by day:"]
      lines += history.suffix(days).map { "  \($0.text)  \($0.devices.text)" }
    }
    lines += ["", cleanup.text]
    return lines.joined(separator: "\n")
  }
}

extension MigrationStatus.ServerDevices {
  fileprivate var json: JSON {
    .object(
      JSON.Object(
        [.init("org_id", .string(uuid)), .init("hostname", .string(hostname))] + devices.members
          + [.init("realms", .array(realms.map(\.json)))]))
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

  fileprivate var text: String { "\(legacy) legacy, \(e2ee) E2EE" }
}

extension MigrationStatus.Cleanup {
  fileprivate var text: String {
    guard outstanding > 0 else { return "Nothing is left to be unregistered at the bouncer." }
    let since = oldestAt.map { ", the oldest since \($0.formatted(.iso8601))" } ?? ""
    let failure = lastFailure.map { "; the last failure: \($0)" } ?? ""
    return "\(outstanding) legacy tokens are still to be unregistered at the bouncer\(since)\(failure)"
  }
}
