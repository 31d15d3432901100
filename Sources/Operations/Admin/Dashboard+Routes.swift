internal import Delivery
internal import Foundation
internal import Providers

extension Dashboard {
  func routes(_ report: HourlyCounts.Report?) -> HTML {
    let now = sources.now()
    let counts = Dictionary(
      (report?.routes ?? []).map { ($0.route, $0) }, uniquingKeysWith: { first, _ in first })
    var table = HTMLTable([
      .text("Route"), .text("State"), .wide("For"), .wideNumber("A minute"), .number("Accepted 24 h"),
      .wideNumber("Failed"), .wideNumber("Tried in vain"), .text("Top reason"),
    ])
    for (route, state) in sources.routeStates().sorted(by: { "\($0.key)" < "\($1.key)" }) {
      let count = counts["\(route)"]
      let (word, style, since, reason): (String, String, Date?, String?) =
        switch state {
        case .unknown: ("not used since the start", "faint", nil, nil)
        case .ok: ("works", "", nil, nil)
        case .failing(let reason, let since): ("fails", "doubtful", since, reason.description)
        case .open(let reason, let since):
          ("fails: paused, tried now and then", "bad", since, reason.description)
        }
      let top = reason ?? (count?.refused.first ?? count?.tried.first)?.reason
      table.add([
        "\(route.description)", "<span class=\"\(style == "faint" ? "" : "word ")\(style)\">\(word)</span>",
        Shown.optional(since.map { Phrase.duration(now.timeIntervalSince($0)) }),
        Shown.optional(report.map { Shown.rate($0.rate(of: "\(route)", at: now)) }),
        Shown.optional(report.map { _ in Phrase.number(count?.total.accepted ?? 0) }),
        report.map { _ in Shown.bad((count?.total.refused ?? 0) + (count?.total.givenUp ?? 0)) }
          ?? Shown.optional(nil),
        report.map { _ in Shown.bad(count?.tried.reduce(0) { $0 + $1.count } ?? 0, "doubtful") }
          ?? Shown.optional(nil),
        Shown.optional(top),
      ])
    }
    return """
      <section><h2>Routes to Apple and Google</h2>
      \(table.html(otherwise: "No credential: put a key of Apple's into Keys/apns or a service account of Google's into Keys/fcm."))
      </section>
      """
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
