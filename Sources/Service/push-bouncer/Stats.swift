import ArgumentParser
import Basics
import Delivery
import Foundation
import HTTP
import Registrations
import SQL
import Server

/// `stats`: the hourly counts of notifications and their outcomes.
struct Stats: AsyncParsableCommand, PrintsDocument {
  static let configuration = CommandConfiguration(
    abstract: "Shows how many notifications were accepted, refused and given up, by the hour.",
    discussion: """
      The service stores its counts about once a minute; if it is killed, the last minute is lost. Counts are kept for \
      90 days, those of each chat server for 14. Hours are in UTC.
      """)

  @OptionGroup var options: GlobalOptions
  @Option(help: ArgumentHelp("How many hours back (default: 24).", valueName: "n")) var hours: Int?
  @Option(help: ArgumentHelp("How many days back.", valueName: "n")) var days: Int?
  @Option(help: ArgumentHelp("Only those of one chat server: its org id or hostname.", valueName: "server"))
  var server: String?

  func validate() throws {
    guard hours == nil || days == nil else { throw ValidationError("give --hours or --days, not both") }
    guard (1...90 * 24).contains(length) else {
      throw ValidationError("--hours must be a number from 1 to 2160, and --days one from 1 to 90")
    }
  }

  /// The length of the period in hours; 0, which is invalid, for more than 90 days.
  private var length: Int { days.map { $0 > 90 ? 0 : $0 * 24 } ?? hours ?? 24 }

  func run() async throws {
    try await Store.with(options) { store in
      if let server {
        let found = try await store.find(server)
        try await show(store.hourlyCounts.report(ofServer: found.id, hours: length), of: found)
      } else {
        try await show(store.hourlyCounts.report(hours: length))
      }
    }
  }

  /// What was sent just now is not among them yet.
  private static let age =
    "Counts are stored about once a minute; newer ones are not included yet."

  static var documents: [JSONDocument] { .of(document) + .of(serverDocument, with: "--server") }

  private static var document: [JSONMember<HourlyCounts.Report>] {
    [
      .object("total", of: HourlyCounts.Hour.numbers.members()) { $0.total },
      .list(
        "hours", "every hour, also those without notifications", of: HourlyCounts.Hour.columns.members()
      ) { $0.hours },
      .list("routes", of: HourlyCounts.RouteCounts.columns.members()) { $0.routes },
    ]
  }

  private typealias ServerHours = (server: RemoteServer, hours: [HourlyCounts.ServerHour])

  private static var serverDocument: [JSONMember<ServerHours>] {
    RemoteServer.members.of { $0.server } + [
      // There is an hour at least: the present one.
      .object("total", of: HourlyCounts.ServerHour.numbers.members()) { counts in
        counts.hours.dropFirst().reduce(into: counts.hours[0]) {
          $0.sent += $1.sent
          $0.failed += $1.failed
        }
      },
      .list("hours", of: HourlyCounts.ServerHour.columns.members()) { $0.hours },
    ]
  }

  private func show(_ report: HourlyCounts.Report) {
    let total = report.total
    let hours = report.hours
    options.show(report, Self.document) { page in
      let span =
        hours.count.isMultiple(of: 24) && hours.count > 24 ? "\(hours.count / 24) days" : "\(hours.count) h"
      page.add("Last \(span): \(total.sentence)", .heading)
      page.add(Self.age, .faint)
      let tables = [
        report.routes.table(HourlyCounts.RouteCounts.columns),
        hours.filter(\.isBusy).table(HourlyCounts.Hour.columns),
      ]
      for table in tables where !table.isEmpty {
        page.add()
        page.add(table)
      }
    }
  }

  private func show(_ hours: [HourlyCounts.ServerHour], of server: RemoteServer) {
    let sent = hours.map(\.sent).reduce(0, +)
    let failed = hours.map(\.failed).reduce(0, +)
    options.show((server, hours), Self.serverDocument) { page in
      page.add(
        "\(server.hostname), last \(hours.count) h: \(Phrase.count(sent, "notification")) handed in, \(Phrase.number(failed)) refused at once.",
        .heading)
      page.add(Self.age, .faint)
      guard sent > 0 else { return }
      page.add()
      page.add(hours.filter { $0.sent > 0 }.table(HourlyCounts.ServerHour.columns))
    }
  }
}

extension HourlyCounts.ServerHour {
  fileprivate static var columns: [ReportColumn<Self>] { [.hour(\.start)] + numbers }

  fileprivate static var numbers: [ReportColumn<Self>] {
    [
      .number("handed_in", "HANDED IN", "notifications that it has handed in", tone: .plain) { $0.sent },
      .number("refused", "REFUSED", "those that were refused at once", tone: .bad) { $0.failed },
    ]
  }
}

extension HourlyCounts.RouteCounts {
  fileprivate static var columns: [ReportColumn<Self>] {
    [.text("route", "ROUTE", "as in `routes list`") { $0.route }]
      + HourlyCounts.Hour.counts.map { $0.of(\.total) }
      + HourlyCounts.Hour.latencies.map { .members($0.of(\.total).members) } + [
        .members([.list("refused_by_reason", of: reasonMembers) { $0.refused }]),
        .members([.list("postponed_by_reason", of: reasonMembers) { $0.postponed }]),
        .cell("WHY") { route in
          let why = (route.refused + route.postponed).prefix(3)
          return .init(why.map { "\($0.reason) \(Phrase.number($0.count))" }.joined(separator: ", "))
        },
      ]
  }

  private static var reasonMembers: [JSONMember<HourlyCounts.Count>] {
    [.member("reason", "as in [Reasons](Reasons.md)") { $0.reason }, .member("count") { $0.count }]
  }
}

extension HourlyCounts.Hour {
  fileprivate static var columns: [ReportColumn<Self>] { [.hour(\.start)] + numbers }

  fileprivate static var numbers: [ReportColumn<Self>] { counts + latencies }

  fileprivate static var counts: [ReportColumn<Self>] {
    [
      .number("accepted", "ACCEPTED", "notifications that a provider has accepted", tone: .plain) {
        $0.accepted
      },
      .number("refused", "REFUSED", tone: .bad) { $0.refused },
      .number("postponed", "POSTPONED", "attempts that are made again later", tone: .doubtful) {
        $0.postponed
      },
      .number("given_up", "GIVEN UP", tone: .bad) { $0.givenUp },
    ]
  }

  fileprivate static var latencies: [ReportColumn<Self>] {
    [
      .percentile(50, "half were accepted within this time"), .percentile(99, "99 % were"),
    ]
  }

  fileprivate var isBusy: Bool { accepted + refused + postponed + givenUp > 0 }

  fileprivate var sentence: String {
    guard isBusy else { return "no notifications." }
    var parts = ["\(Phrase.count(accepted, "notification")) accepted"]
    if let median = latency.percentile(0.5), let most = latency.percentile(0.99) {
      parts[0] += " (half within \(Phrase.latency(median)), 99 % within \(Phrase.latency(most)))"
    }
    parts.append("\(Phrase.number(refused)) refused")
    parts.append("\(Phrase.count(postponed, "try", "tries")) postponed")
    parts.append("\(Phrase.number(givenUp)) given up")
    return parts.joined(separator: ", ") + "."
  }
}

extension ReportColumn {
  /// `2026-11-22 17:00`
  fileprivate static func hour(_ start: @escaping (Row) -> Date) -> Self {
    .init([.member("hour", "when it begins", start)], "HOUR (UTC)") {
      let style = Date.ISO8601FormatStyle.iso8601.year().month().day().dateTimeSeparator(.space)
      return .init(start($0).formatted(style.time(includingFractionalSeconds: false)).prefix(16).description)
    }
  }
}

extension ReportColumn<HourlyCounts.Hour> {
  fileprivate static func percentile(_ percent: Int, _ meaning: String) -> Self {
    let milliseconds = JSONMember<Row>.member("p\(percent)_ms", meaning) {
      $0.latency.percentile(Double(percent) / 100).map { Int(($0 * 1000).rounded()) }
    }
    return .init([milliseconds], "P\(percent)", isNumber: true) {
      .optional($0.latency.percentile(Double(percent) / 100).map(Phrase.latency))
    }
  }
}
