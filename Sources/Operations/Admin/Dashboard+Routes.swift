internal import Delivery
internal import Foundation
internal import Providers

extension Dashboard {
  func routes(_ report: HourlyCounts.Report?, _ services: PushServices?) -> HTML {
    var table = HTMLTable([
      .text("Route"), .text("State"), .wide("For"), .wideNumber("A minute"), .number("Accepted 24 h"),
      .wideNumber("Failed"), .wideNumber("Tried in vain"), .text("Top reason"),
    ])
    for (route, state) in sources.routeStates().sorted(by: { "\($0.key)" < "\($1.key)" }) {
      add(route, RouteWords(state), report, to: &table)
    }
    let hasCredential = !table.isEmpty
    if let services {
      add(.webPush, RouteWords(services), report, to: &table)
      for failing in services.listed { add(failing, to: &table) }
    }
    let left = (services?.failing ?? 0) - (services?.listed.count ?? 0)
    return """
      <section><h2>Routes to Apple, Google and push services</h2>
      \(table.html(otherwise: ""))
      \(left > 0 ? "<p class=\"faint\">and \(Phrase.number(left)) more push services that fail</p>" : HTML.none)
      \(hasCredential ? HTML.none : "<p class=\"faint\">No credential: put a key of Apple's into Keys/apns or a service account of Google's into Keys/fcm.</p>")
      </section>
      """
  }

  private func add(
    _ route: Route, _ words: RouteWords, _ report: HourlyCounts.Report?, to table: inout HTMLTable
  ) {
    let now = sources.now()
    let count = report?.routes.first { $0.route == "\(route)" }
    let top = words.reason ?? (count?.refused.first ?? count?.tried.first)?.reason
    table.add([
      "\(route.description)", words.html,
      Shown.optional(words.since.map { Phrase.duration(now.timeIntervalSince($0)) }),
      Shown.optional(report.map { Shown.rate($0.rate(of: "\(route)", at: now)) }),
      Shown.optional(report.map { _ in Phrase.number(count?.total.accepted ?? 0) }),
      report.map { _ in Shown.bad((count?.total.refused ?? 0) + (count?.total.givenUp ?? 0)) }
        ?? Shown.optional(nil),
      report.map { _ in Shown.bad(count?.tried.reduce(0) { $0 + $1.count } ?? 0, "doubtful") }
        ?? Shown.optional(nil),
      Shown.optional(top),
    ])
  }

  /// A push service that fails: what it did is counted with all of them.
  private func add(_ service: PushServices.Failing, to table: inout HTMLTable) {
    let waits =
      service.waiting == 0
      ? "fails" : "fails: \(Phrase.number(service.waiting)) \(service.waiting == 1 ? "waits" : "wait")"
    table.add([
      "\(service.route.description)", "<span class=\"t\">\(waits)</span>",
      Shown.optional(Phrase.duration(sources.now().timeIntervalSince(service.since))), Shown.optional(nil),
      Shown.optional(nil), Shown.optional(nil), Shown.optional(nil), "\(service.reason.description)",
    ])
  }

  func failures(_ report: HourlyCounts.Report) -> HTML {
    var counts: [(provider: String, reason: String, kind: String, count: Int64)] = []
    for (kind, path) in [("refused", \HourlyCounts.RouteCounts.refused), ("tried in vain", \.tried)] {
      var sums: [[String]: Int64] = [:]
      for route in report.routes {
        for count in route[keyPath: path] {
          sums[[String(route.route.prefix { $0 != ":" }), count.reason], default: 0] += count.count
        }
      }
      counts += sums.map { ($0.key[0], $0.key[1], kind, $0.value) }
    }
    guard !counts.isEmpty else { return .none }
    var table = HTMLTable([
      .text("Provider"), .text("Reason"), .text("What"), .number("24 h"), .wide("What it means"),
    ])
    for (provider, reason, kind, count) in counts.sorted(by: { ($1.count, $0.reason) < ($0.count, $1.reason) }
    ).prefix(20) {
      table.add([
        "\(provider)", "<span class=\"code\">\(reason)</span>", "<span class=\"t\">\(kind)</span>",
        Shown.number(count),
        "\(Explanation.of(reason).meaning)",
      ])
    }
    return "<section><h2>Failures by reason, the last 24 hours</h2>\n\(table.html(otherwise: ""))</section>"
  }
}

extension HourlyCounts.RouteCounts {
  /// What was tried in vain: without what a paused route kept from being tried.
  fileprivate var tried: [HourlyCounts.Count] { postponed.filter { $0.reason != "\(Reason.breakerOpen)" } }
}

extension HourlyCounts.Report {
  /// Notifications a minute that a route has accepted in this hour and the one before.
  fileprivate func rate(of route: String, at now: Date) -> Double {
    guard let counts = routes.first(where: { $0.route == route }), hours.count > 1 else { return 0 }
    let minutes = 60 + max(0, min(60, now.timeIntervalSince(hours[hours.count - 1].start) / 60))
    return Double(counts.latestAccepted) / minutes
  }
}

/// A route's state in words.
private struct RouteWords {
  var since: Date?
  var reason: String?
  private let word: String
  private let style: String

  init(_ state: PushProviders.RouteState) {
    switch state {
    case .unknown: (word, style) = ("not used since the start", "faint")
    case .ok: (word, style) = ("works", "")
    case .failing(let why, let date):
      (word, style, since, reason) = ("fails", "doubtful", date, why.description)
    case .open(let why, let date):
      (word, style, since, reason) = ("fails: paused, tried now and then", "bad", date, why.description)
    }
  }

  init(_ services: PushServices) {
    let all = services.working + services.failing
    if let outage = services.outage {
      (word, style) = (
        "\(Phrase.number(services.failing)) of \(Phrase.count(all, "push service")) fail", "bad"
      )
      (since, reason) = (outage.since, outage.reason.description)
    } else if all == 0 {
      (word, style) = ("not used of late", "faint")
    } else if services.failing == 0 {
      (word, style) = ("works: \(Phrase.count(all, "push service"))", "")
    } else {
      (word, style) = (
        "works at \(Phrase.number(services.working)) of \(Phrase.count(all, "push service"))", ""
      )
    }
  }

  var html: HTML {
    "<span class=\"\(style == "faint" ? "" : "word ")\(style)\">\(word)</span>"
  }
}
