import Basics
import Delivery
import Foundation
import Providers
import SQL

extension Dashboard {
  func routes(_ health: Health, _ report: HourlyCounts.Report?) -> Overview.Routes {
    var table = PageTable(
      .text("Route"), .text("State"), .text("For"), .text("Top reason"), .number("Failed"),
      .number("Postponed"), .number("Accepted 24 h"), .number("A minute"), otherwise: "None.")
    func age(_ since: Date?) -> PageText {
      .optional(since.map { Phrase.duration(health.at.timeIntervalSince($0)) })
    }
    func add(_ route: Route, _ state: PageText, _ failure: (reason: Reason, since: Date)?) {
      let known = report.map { $0.routes.first { $0.route == "\(route)" } }
      func count(_ count: (HourlyCounts.RouteCounts) -> Int64) -> Int64? { known.map { $0.map(count) ?? 0 } }
      let counts = known ?? nil
      table.add(
        PageText(route.description), state, age(failure?.since),
        .optional(failure?.reason.rawValue ?? (counts?.refused.first ?? counts?.tried.first)?.reason),
        .bad(count(\.total.failed)), .bad(count { $0.tried.map(\.count).reduce(0, +) }, "doubtful"),
        .number(count(\.total.accepted)),
        .optional(report.map { PageText.rate($0.rate(of: counts, at: health.at)) }))
    }
    for route in health.routes { add(route.route, Self.words(route.state), route.state.failure) }
    if let services = health.pushServices {
      add(.webPush, Self.words(services), services.outage.map { ($0.reason, $0.since) })
      // There are counts for Web Push as a whole only, not for each push service.
      for service in services.listed {
        let waits =
          service.waiting == 0
          ? "fails" : "fails: \(Phrase.count(service.waiting, "waits", "wait"))"
        table.add(
          PageText(service.route.description), PageText(waits, mark: "t"), age(service.since),
          PageText(service.reason.description), .none, .none, .none, .none)
      }
    }
    let left = (health.pushServices?.failing ?? 0) - (health.pushServices?.listed.count ?? 0)
    return .init(
      table: table, leftOut: left > 0 ? Phrase.number(left) : nil, hasCredentials: !health.routes.isEmpty)
  }

  private static func words(_ state: PushProviders.RouteState) -> PageText {
    switch state {
    case .unknown: PageText("not used since the start", mark: "faint")
    case .ok: PageText("works", mark: "word")
    case .failing: PageText("fails", mark: "word doubtful")
    case .open: PageText("fails: paused, tried now and then", mark: "word bad")
    }
  }

  private static func words(_ services: PushServices) -> PageText {
    let all = services.working + services.failing
    let used = Phrase.count(all, "push service")
    if services.outage != nil {
      return PageText("\(Phrase.number(services.failing)) of \(used) fail", mark: "word bad")
    }
    if all == 0 { return PageText("not used recently", mark: "faint") }
    let part = services.failing == 0 ? ": " : " at \(Phrase.number(services.working)) of "
    return PageText("works\(part)\(used)", mark: "word")
  }

  func failures(_ report: HourlyCounts.Report) -> PageTable {
    struct Row: Hashable {
      let provider: Substring
      let reason: String
      let kind: String
    }
    var counts: [Row: Int64] = [:]
    for route in report.routes {
      for (kind, reasons) in [("refused", route.refused), ("postponed", route.tried)] {
        for count in reasons {
          let row = Row(provider: route.route.prefix { $0 != ":" }, reason: count.reason, kind: kind)
          counts[row, default: 0] += count.count
        }
      }
    }
    var table = PageTable(
      .text("Reason"), .text("Provider"), .text("What"), .number("24 h"), .text("What it means"),
      otherwise: "None.")
    let sorted = counts.sorted { ($1.value, $0.key.reason) < ($0.value, $1.key.reason) }
    for (row, count) in sorted.prefix(20) {
      table.add(
        .code(row.reason), PageText(String(row.provider)), PageText(row.kind, mark: "t"), .number(count),
        .sentence(Explanation.of(row.reason).meaning))
    }
    return table
  }
}

extension HourlyCounts.Hour {
  var failed: Int64 { refused + givenUp }
}

extension HourlyCounts.RouteCounts {
  /// Failed attempts, without those that were not made because the route is paused.
  fileprivate var tried: [HourlyCounts.Count] { postponed.filter { $0.reason != "\(Reason.breakerOpen)" } }
}

extension HourlyCounts.Report {
  /// Notifications a minute that a route has accepted during the current hour and the one before.
  fileprivate func rate(of counts: HourlyCounts.RouteCounts?, at now: Date) -> Double {
    guard let counts, hours.count > 1 else { return 0 }
    let minutes = 60 + max(0, min(60, now.timeIntervalSince(hours[hours.count - 1].start) / 60))
    return Double(counts.latestAccepted) / minutes
  }
}
