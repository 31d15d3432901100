import ArgumentParser
import Delivery
import Foundation
import HTTP
import Operations
import Registrations
import Server

/// `stats`: what has become of notifications, by the hour.
struct Stats: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    abstract: "Shows how many notifications were accepted, refused and given up, by the hour.",
    discussion: """
      The service writes its counts down about once a minute; one that is killed loses the last minute of them. They \
      are kept for 90 days, those of each chat server for 14. Hours are UTC's.
      """)

  @OptionGroup var options: GlobalOptions
  @Option(help: ArgumentHelp("How many hours back (default: 24).", valueName: "n")) var hours: Int?
  @Option(help: ArgumentHelp("How many days back.", valueName: "n")) var days: Int?
  @Option(help: ArgumentHelp("Of one chat server: its org id or hostname.", valueName: "server"))
  var server: String?

  func validate() throws {
    guard hours == nil || days == nil else { throw ValidationError("give --hours or --days, not both") }
    guard (1...90 * 24).contains(length) else {
      throw ValidationError("--hours wants a number from 1 to 2160, --days one from 1 to 90")
    }
  }

  /// In hours.
  private var length: Int { days.map { $0 > 90 ? 0 : $0 * 24 } ?? hours ?? 24 }

  func run() async throws {
    try await Store.with(options) { store in
      if let server {
        let found = try await store.find(server)
        let hours = try await store.hourlyCounts.report(ofServer: found.id, hours: length)
        if options.json { return options.show(hours.json(of: found.hostname), "") }
        hours.page(of: found.hostname).print()
      } else {
        let report = try await store.hourlyCounts.report(hours: length)
        if options.json { return options.show(report.json, "") }
        report.page.print()
      }
    }
  }
}

extension HourlyCounts.Report {
  fileprivate var json: JSON {
    [
      "total": .object(JSON.Object(total.members)),
      "hours": .array(
        hours.map { .object(JSON.Object([.init("hour", timestamp($0.start))] + $0.members)) }),
      "routes": .array(
        routes.map { route in
          .object(
            JSON.Object(
              [.init("route", .string(route.route))] + route.total.members
                + [
                  .init("refused_by_reason", .array(route.refused.map(\.json))),
                  .init("postponed_by_reason", .array(route.postponed.map(\.json))),
                ]))
        }),
    ]
  }

  fileprivate var page: Page {
    var page = Page()
    let span =
      hours.count.isMultiple(of: 24) && hours.count > 24 ? "\(hours.count / 24) days" : "\(hours.count) h"
    page.add("Last \(span): \(total.sentence)", .heading)
    if !routes.isEmpty {
      var table = Table(
        "ROUTE", .number("ACCEPTED"), .number("REFUSED"), .number("POSTPONED"), .number("GIVEN UP"), "WHY")
      for route in routes {
        let why = (route.refused + route.postponed).prefix(3).map {
          "\($0.reason) \(Phrase.number($0.count))"
        }
        table.add(
          .init(route.route), .count(route.total.accepted), .count(route.total.refused, .bad),
          .count(route.total.postponed, .doubtful), .count(route.total.givenUp, .bad),
          .init(why.joined(separator: ", ")))
      }
      page.add()
      page.add(table)
    }
    var table = Table(
      "HOUR (UTC)", .number("ACCEPTED"), .number("REFUSED"), .number("POSTPONED"), .number("GIVEN UP"),
      .number("P50"),
      .number("P99"))
    for hour in hours where hour.isBusy {
      table.add(
        .init(hour.start.hourText), .count(hour.accepted), .count(hour.refused, .bad),
        .count(hour.postponed, .doubtful), .count(hour.givenUp, .bad), .time(hour.latency.percentile(0.5)),
        .time(hour.latency.percentile(0.99)))
    }
    if !table.isEmpty {
      page.add()
      page.add(table)
    }
    return page
  }
}

extension HourlyCounts.Hour {
  fileprivate var members: [JSON.Object.Member] {
    [
      .init("accepted", .integer(accepted)), .init("refused", .integer(refused)),
      .init("postponed", .integer(postponed)), .init("given_up", .integer(givenUp)),
      .init("p50_ms", .milliseconds(latency.percentile(0.5))),
      .init("p99_ms", .milliseconds(latency.percentile(0.99))),
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

extension HourlyCounts.Count {
  fileprivate var json: JSON { ["reason": .string(reason), "count": .integer(count)] }
}

extension [HourlyCounts.ServerHour] {
  private var sent: Int64 { reduce(0) { $0 + $1.sent } }
  private var failed: Int64 { reduce(0) { $0 + $1.failed } }

  fileprivate func json(of server: String) -> JSON {
    [
      "server": .string(server), "total": ["sent": .integer(sent), "failed": .integer(failed)],
      "hours": .array(
        map { ["hour": timestamp($0.start), "sent": .integer($0.sent), "failed": .integer($0.failed)] }),
    ]
  }

  fileprivate func page(of server: String) -> Page {
    var page = Page()
    page.add(
      "\(server), last \(count) h: \(Phrase.count(sent, "notification")) handed in, \(Phrase.number(failed)) refused at once.",
      .heading)
    var table = Table("HOUR (UTC)", .number("HANDED IN"), .number("REFUSED"))
    for hour in self where hour.sent > 0 {
      table.add(.init(hour.start.hourText), .count(hour.sent), .count(hour.failed, .bad))
    }
    if !table.isEmpty {
      page.add()
      page.add(table)
    }
    return page
  }
}

extension Table.Cell {
  /// A number; none is nothing to look at.
  fileprivate static func count(_ count: Int64, _ tone: Terminal.Tone = .plain) -> Self {
    count == 0 ? .init("0", .faint) : .init(Phrase.number(count), tone)
  }

  fileprivate static func time(_ seconds: TimeInterval?) -> Self {
    seconds.map { .init(Phrase.latency($0)) } ?? .none
  }
}

extension Date {
  /// `2026-11-22 17:00`
  fileprivate var hourText: String {
    formatted(.iso8601.year().month().day().dateTimeSeparator(.space).time(includingFractionalSeconds: false))
      .prefix(16).description
  }
}

extension JSON {
  fileprivate static func milliseconds(_ seconds: TimeInterval?) -> JSON {
    seconds.map { .integer(Int64(($0 * 1000).rounded())) } ?? .null
  }
}
