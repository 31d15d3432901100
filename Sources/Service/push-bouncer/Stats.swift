import ArgumentParser
import Basics
import Delivery
import Foundation
import HTTP
import Registrations
import SQL
import Server

/// `stats`: the hourly counts of notifications and their outcomes.
struct Stats: AsyncParsableCommand {
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

  private func show(_ report: HourlyCounts.Report) {
    let total = report.total
    let hours = report.hours
    let routes: [ReportColumn<HourlyCounts.RouteCounts>] =
      [.text("route", "ROUTE") { $0.route }] + HourlyCounts.Hour.columns.map { $0.of(\.total) } + [
        .member("p50_ms") { .milliseconds($0.total.latency.percentile(0.5)) },
        .member("p99_ms") { .milliseconds($0.total.latency.percentile(0.99)) },
        .member("refused_by_reason") { .reasons($0.refused) },
        .member("postponed_by_reason") { .reasons($0.postponed) },
        .cell("WHY") { route in
          let why = (route.refused + route.postponed).prefix(3)
          return .init(why.map { "\($0.reason) \(Phrase.number($0.count))" }.joined(separator: ", "))
        },
      ]
    let numbers = HourlyCounts.Hour.columns + [.percentile(50), .percentile(99)]
    let columns = [.hour(\.start)] + numbers
    options.show([
      "total": numbers.json(total), "hours": hours.json(columns), "routes": report.routes.json(routes),
    ]) { page in
      let span =
        hours.count.isMultiple(of: 24) && hours.count > 24 ? "\(hours.count / 24) days" : "\(hours.count) h"
      page.add("Last \(span): \(total.sentence)", .heading)
      page.add(Self.age, .faint)
      for table in [report.routes.table(routes), hours.filter(\.isBusy).table(columns)] where !table.isEmpty {
        page.add()
        page.add(table)
      }
    }
  }

  private func show(_ hours: [HourlyCounts.ServerHour], of server: RemoteServer) {
    let sent = hours.map(\.sent).reduce(0, +)
    let failed = hours.map(\.failed).reduce(0, +)
    let numbers: [ReportColumn<HourlyCounts.ServerHour>] = [
      .number("handed_in", "HANDED IN", .plain) { $0.sent },
      .number("refused", "REFUSED", .bad) { $0.failed },
    ]
    let columns = [.hour(\.start)] + numbers
    var json = server.json
    json["total"] = ["handed_in": .integer(sent), "refused": .integer(failed)]
    json["hours"] = hours.json(columns)
    options.show(.object(json)) { page in
      page.add(
        "\(server.hostname), last \(hours.count) h: \(Phrase.count(sent, "notification")) handed in, \(Phrase.number(failed)) refused at once.",
        .heading)
      page.add(Self.age, .faint)
      guard sent > 0 else { return }
      page.add()
      page.add(hours.filter { $0.sent > 0 }.table(columns))
    }
  }
}

extension HourlyCounts.Hour {
  fileprivate static var columns: [ReportColumn<Self>] {
    [
      .number("accepted", "ACCEPTED", .plain) { $0.accepted },
      .number("refused", "REFUSED", .bad) { $0.refused },
      .number("postponed", "POSTPONED", .doubtful) { $0.postponed },
      .number("given_up", "GIVEN UP", .bad) { $0.givenUp },
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
    .init(key: "hour", heading: "HOUR (UTC)") {
      .time(start($0))
    } cell: {
      let style = Date.ISO8601FormatStyle.iso8601.year().month().day().dateTimeSeparator(.space)
      return .init(start($0).formatted(style.time(includingFractionalSeconds: false)).prefix(16).description)
    }
  }
}

extension ReportColumn<HourlyCounts.Hour> {
  fileprivate static func percentile(_ percent: Int) -> Self {
    .init(key: "p\(percent)_ms", heading: "P\(percent)", isNumber: true) {
      .milliseconds($0.latency.percentile(Double(percent) / 100))
    } cell: {
      .optional($0.latency.percentile(Double(percent) / 100).map(Phrase.latency))
    }
  }
}

extension JSON {
  fileprivate static func milliseconds(_ seconds: TimeInterval?) -> JSON {
    .optional(seconds.map { Int64(($0 * 1000).rounded()) })
  }

  fileprivate static func reasons(_ counts: [HourlyCounts.Count]) -> JSON {
    .array(counts.map { ["reason": .string($0.reason), "count": .integer($0.count)] })
  }
}
