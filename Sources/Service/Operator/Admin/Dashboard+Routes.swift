internal import Delivery
internal import Foundation
internal import Providers
internal import SQL
internal import Settings

extension Dashboard {
  func routes(_ health: Health, _ report: HourlyCounts.Report?) -> HTML {
    var table = HTMLTable(
      .text("Route"), .text("State"), .text("For"), .text("Top reason"), .number("Failed"),
      .number("Tried in vain"), .number("Accepted 24 h"), .number("A minute"))
    func age(_ since: Date?) -> HTML {
      Shown.optional(since.map { Phrase.duration(health.at.timeIntervalSince($0)) })
    }
    func add(_ route: Route, _ state: HTML, _ failure: (reason: Reason, since: Date)?) {
      let known = report.map { $0.routes.first { $0.route == "\(route)" } }
      func count(_ count: (HourlyCounts.RouteCounts) -> Int64) -> Int64? { known.map { $0.map(count) ?? 0 } }
      let counts = known ?? nil
      table.add(
        "\(route.description)", state, age(failure?.since),
        Shown.optional(failure?.reason.rawValue ?? (counts?.refused.first ?? counts?.tried.first)?.reason),
        Shown.bad(count(\.total.failed)), Shown.bad(count { $0.tried.map(\.count).reduce(0, +) }, "doubtful"),
        Shown.number(count(\.total.accepted)),
        Shown.optional(report.map { Shown.rate($0.rate(of: counts, at: health.at)) }))
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
          "\(service.route.description)", "<span class=\"t\">\(waits)</span>", age(service.since),
          "\(service.reason.description)", Shown.none, Shown.none, Shown.none, Shown.none)
      }
    }
    let left = (health.pushServices?.failing ?? 0) - (health.pushServices?.listed.count ?? 0)
    return """
      <section><h2>Routes to Apple, Google and push services</h2>
      \(table.html())
      \(left > 0 ? "<p class=\"faint\">and \(Phrase.number(left)) more push services that fail</p>" : HTML.none)
      \(health.routes.isEmpty ? "<p class=\"faint\">No credential: put a key of Apple's into Keys/apns or a service account of Google's into Keys/fcm.</p>" : HTML.none)
      </section>
      """
  }

  private static func words(_ state: PushProviders.RouteState) -> HTML {
    switch state {
    case .unknown: "<span class=\"faint\">not used since the start</span>"
    case .ok: "<span class=\"word \">works</span>"
    case .failing: "<span class=\"word doubtful\">fails</span>"
    case .open: "<span class=\"word bad\">fails: paused, tried now and then</span>"
    }
  }

  private static func words(_ services: PushServices) -> HTML {
    let all = services.working + services.failing
    let used = Phrase.count(all, "push service")
    if services.outage != nil {
      return "<span class=\"word bad\">\(Phrase.number(services.failing)) of \(used) fail</span>"
    }
    if all == 0 { return "<span class=\"faint\">not used recently</span>" }
    let part = services.failing == 0 ? ": " : " at \(Phrase.number(services.working)) of "
    return "<span class=\"word \">works\(part)\(used)</span>"
  }

  func failures(_ report: HourlyCounts.Report) -> HTML {
    struct Row: Hashable {
      let provider: Substring
      let reason: String
      let kind: String
    }
    var counts: [Row: Int64] = [:]
    for route in report.routes {
      for (kind, reasons) in [("refused", route.refused), ("tried in vain", route.tried)] {
        for count in reasons {
          let row = Row(provider: route.route.prefix { $0 != ":" }, reason: count.reason, kind: kind)
          counts[row, default: 0] += count.count
        }
      }
    }
    guard !counts.isEmpty else { return .none }
    var table = HTMLTable(
      .text("Reason"), .text("Provider"), .text("What"), .number("24 h"), .text("What it means"))
    let sorted = counts.sorted { ($1.value, $0.key.reason) < ($0.value, $1.key.reason) }
    for (row, count) in sorted.prefix(20) {
      table.add(
        Shown.code(row.reason), "\(String(row.provider))", "<span class=\"t\">\(row.kind)</span>",
        Shown.number(count), "\(Explanation.of(row.reason).meaning)")
    }
    return "<section><h2>Failures by reason, the last 24 hours</h2>\n\(table.html())</section>"
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
