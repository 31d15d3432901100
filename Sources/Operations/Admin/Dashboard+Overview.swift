internal import Delivery
internal import Foundation
internal import Providers
internal import Registrations
internal import Sealing

extension Dashboard {
  /// Everything at a glance.
  func overview() async -> HTML {
    async let health = readiness.report()
    async let recent = latestRecent()
    async let census = latestCensus()
    async let progress = latestProgress()
    let verdict = Verdict(await health.status, await health.document, now: sources.now())
    let (found, counted, days) = (await recent, await census, await progress)
    return """
      \(light(verdict))
      \(found.map(traffic) ?? Self.unknown("Notifications"))
      \(routes(found?.report))
      \(found.map { failures($0.report) } ?? .none)
      \(found.map { servers($0, counted) } ?? Self.unknown("Chat servers"))
      <div class="two">
      \(migration(days, counted))
      \(counted?.apps.map(Self.apps) ?? .none)
      \(keys(found, counted))
      \(found.map(nodes) ?? .none)
      </div>
      """
  }

  /// Instead of a part for which the database was asked in vain.
  static func unknown(_ title: String) -> HTML {
    """
    <section><h2>\(title)</h2><p class="faint">Not known: the database does not answer, or is still counting. This \
    page tries again by itself.</p></section>
    """
  }

  // MARK: The light

  private func light(_ verdict: Verdict) -> HTML {
    let now = sources.now()
    let (word, style) = verdict.word
    let problems = verdict.problems.map { problem -> HTML in
      """
      <p><strong>\(problem.name)</strong>: \(problem.sentence)\(problem.advice.map { "<br>What to do: \($0)" } as HTML?)</p>

      """
    }
    return """
      <section class="light \(style)">
      <h1><span class="word">\(word)</span>: \(verdict.problems.isEmpty ? "everything works." : "look at the following.")</h1>
      \(problems)
      <p class="faint">This process has served since \(startedAt.formatted(.iso8601)) \
      (\(Phrase.duration(now.timeIntervalSince(startedAt)))), version \(Version.text).</p>
      </section>
      """
  }

  // MARK: Notifications

  private func traffic(_ recent: Recent) -> HTML {
    let (report, now) = (recent.report, sources.now())
    let total = report.total
    let bars = report.hours.map { hour -> Chart.Bar in
      let minutes = max(1, min(60, now.timeIntervalSince(hour.start) / 60))
      let (accepted, failed) = (
        Double(hour.accepted) / minutes, Double(hour.refused + hour.givenUp) / minutes
      )
      return .init(
        title: "\(hour.start.clock): \(Shown.rate(accepted)) accepted, \(Shown.rate(failed)) failed a minute",
        parts: [("a", accepted), ("b", failed)])
    }
    let most = bars.map { $0.parts.reduce(0) { $0 + $1.value } }.max() ?? 0
    let ends = ("\(report.hours.first?.start.clock ?? "")", "now (UTC)")
    let (median, slow) = (total.latency.percentile(0.5), total.latency.percentile(0.99))
    let depth = sources.outbox.count
    return """
      <div class="two">
      <section><h2>Notifications, the last 24 hours</h2>
      <div class="figures">
      <span><b>\(Shown.number(total.accepted))</b>accepted</span>
      <span><b>\(Shown.bad(total.refused + total.givenUp))</b>failed</span>
      <span><b>\(Shown.rate(most))</b>a minute in the busiest hour</span>
      </div>
      \(Chart.bars(bars, label: "Accepted and failed notifications a minute, by the hour: at most \(Shown.rate(most))", ends: ends))
      <p class="faint"><span class="key a"></span>accepted <span class="key b"></span>failed: refused or given up</p>
      </section>
      <section><h2>From the call to the provider's acceptance</h2>
      <div class="figures">
      <span><b>\(Shown.latency(median))</b>half are faster (p50)</span>
      <span><b>\(Shown.latency(slow))</b>99 of 100 are faster (p99)</span>
      </div>
      \(Chart.lines(
        [
          ("m", report.hours.map { $0.latency.percentile(0.99) }), ("l", report.hours.map { $0.latency.percentile(0.5) }),
        ],
        label: "Half within \(median.map(Phrase.latency) ?? "no time known"), 99 of 100 within \(slow.map(Phrase.latency) ?? "no time known")",
        ends: ends))
      <p class="faint"><span class="key a"></span>p50 <span class="key m"></span>p99, by the hour</p>
      </section>
      <section><h2>Queue</h2>
      <div class="figures">
      <span><b>\(Shown.bad(depth, "doubtful"))</b>wait for a provider</span>
      <span><b>\(depth == 0 ? "<span class=\"faint\">-</span>" : Shown.age(recent.waitingSince, at: now))</b>the oldest of them came</span>
      <span><b>\(Shown.bad(total.givenUp))</b>given up in 24 hours</span>
      </div>
      </section>
      </div>
      """
  }

  // MARK: Routes

  private func routes(_ report: HourlyCounts.Report?) -> HTML {
    let now = sources.now()
    let counts = Dictionary(
      (report?.routes ?? []).map { ($0.route, $0) }, uniquingKeysWith: { first, _ in first })
    var table = HTMLTable([
      .text("Route"), .text("State"), .wide("Since"), .number("A minute"), .number("Accepted 24 h"),
      .wideNumber("Failed"), .wideNumber("Tried in vain"), .text("Top reason"),
    ])
    for (route, state) in sources.routeStates().sorted(by: { "\($0.key)" < "\($1.key)" }) {
      let count = counts["\(route)"]
      let (word, style, since, reason): (String, String, Date?, String?) =
        switch state {
        case .unknown: ("not used yet", "faint", nil, nil)
        case .ok: ("works", "", nil, nil)
        case .failing(let reason, let since): ("failing", "doubtful", since, reason.description)
        case .open(let reason, let since): ("does not work", "bad", since, reason.description)
        }
      let top = reason ?? (count?.refused.first ?? count?.postponed.first)?.reason
      table.add([
        "\(route.description)", "<span class=\"\(style == "faint" ? "" : "word ")\(style)\">\(word)</span>",
        since.map { Shown.age($0, at: now) } ?? "<span class=\"faint\">-</span>",
        "\(Shown.rate(report?.rate(of: "\(route)", at: now) ?? 0))", Shown.number(count?.total.accepted ?? 0),
        Shown.bad((count?.total.refused ?? 0) + (count?.total.givenUp ?? 0)),
        Shown.bad(count?.total.postponed ?? 0, "doubtful"), Shown.optional(top),
      ])
    }
    return """
      <section><h2>Routes to Apple and Google</h2>
      \(table.html(otherwise: "No credential: put a key of Apple's into Keys/apns or a service account of Google's into Keys/fcm."))
      </section>
      """
  }

  private func failures(_ report: HourlyCounts.Report) -> HTML {
    var counts: [(provider: String, reason: String, kind: String, count: Int64)] = []
    for (kind, path) in [("refused", \HourlyCounts.RouteCounts.refused), ("tried in vain", \.postponed)] {
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

  // MARK: The rest

  private func migration(_ days: [MigrationStatus.Day]?, _ census: Census?) -> HTML {
    guard let days else { return Self.unknown("From legacy to encrypted") }
    let present = census.map { $0.byServer.values.reduce(into: MigrationStatus.Devices()) { $0 += $1 } }
    let last = present ?? days.last?.devices ?? .init()
    let bars = days.map { day in
      Chart.Bar(
        title:
          "\(day.date.day): \(Phrase.number(day.devices.e2ee)) encrypted, \(Phrase.number(day.devices.legacy)) legacy",
        parts: [("a", Double(day.devices.e2ee)), ("c", Double(day.devices.legacy))])
    }
    return """
      <section><h2>From legacy to encrypted, 90 days</h2>
      <div class="figures">
      <span><b>\(Shown.number(last.e2ee))</b>encrypted devices</span>
      <span><b>\(Shown.number(last.legacy))</b>legacy devices</span>
      <span><b>\(Phrase.share(last.e2ee, of: last.e2ee + last.legacy))</b>encrypted</span>
      </div>
      \(Chart.bars(bars, label: "\(Phrase.share(last.e2ee, of: last.e2ee + last.legacy)) of the devices are encrypted", ends: (days.first?.date.day ?? "", "today")))
      <p class="faint"><span class="key a"></span>encrypted <span class="key c"></span>legacy</p>
      </section>
      """
  }

  private static func apps(_ apps: [App]) -> HTML {
    var table = HTMLTable([.text("App"), .text("Tokens"), .number("Devices"), .number("Failing")])
    for app in apps {
      table.add(["\(app.name)", "\(app.kind)", Shown.number(app.devices), Shown.bad(app.failing)])
    }
    return "<section><h2>Nextcloud devices by app</h2>\n\(table.html(otherwise: "No device yet."))</section>"
  }

  private func keys(_ recent: Recent?, _ census: Census?) -> HTML {
    let now = sources.now()
    let snapshot = sources.keyFolder.current
    var bouncer = HTMLTable([
      .text("Bouncer key"), .text("State"), .number("Registrations"), .number("7 days"), .wide("Last used"),
    ])
    let usage = Dictionary(
      (census?.keys ?? []).map { ($0.publicKey, $0) }, uniquingKeysWith: { first, _ in first })
    let states = Dictionary(
      snapshot.bouncer.all.map { (Base64.encode($0.pair.publicKey), $0.state.rawValue) },
      uniquingKeysWith: { first, _ in first })
    for key in Set(usage.keys).union(states.keys).sorted() {
      bouncer.add([
        "<span class=\"code\">\(key)</span>",
        states[key].map { "\($0)" } ?? "<span class=\"word bad\">not in the key folder</span>",
        Shown.optional(census.map { _ in Phrase.number(usage[key]?.registrations ?? 0) }),
        Shown.optional(recent.map { Phrase.number($0.registrationsByKey[key] ?? 0) }),
        Shown.age(usage[key]?.lastUsedAt, at: now),
      ])
    }
    var provider = HTMLTable([.text("Provider key"), .number("Accepted 24 h")])
    let credentials =
      snapshot.credentials.apns.map { "apns:\($0.name)" } + snapshot.credentials.fcm.map { "fcm:\($0.name)" }
    for name in credentials {
      let accepted = recent?.report.routes.filter { $0.route.hasPrefix("\(name) ") }.reduce(0) {
        $0 + $1.total.accepted
      }
      provider.add(["\(name)", Shown.optional(accepted.map { Phrase.number($0) })])
    }
    return """
      <section><h2>Keys</h2>
      \(bouncer.html(otherwise: "No bouncer key: run \"push-bouncer keys generate\"."))
      \(provider.html(otherwise: "No key of a provider."))
      </section>
      """
  }

  private func nodes(_ recent: Recent) -> HTML {
    let now = sources.now()
    var table = HTMLTable([.text("Node"), .text("Version"), .text("Started"), .text("Seen")])
    for node in recent.nodes {
      let isSilent = now.timeIntervalSince(node.seenAt) > 60
      table.add([
        "\(node.hostname)", "\(node.version)", Shown.age(node.startedAt, at: now),
        "\(Shown.age(node.seenAt, at: now))\(isSilent ? " <span class=\"word doubtful\">silent</span>" : HTML.none)",
      ])
    }
    return
      "<section><h2>Nodes</h2>\n\(table.html(otherwise: "None has written down that it serves."))</section>"
  }
}

extension HourlyCounts.Report {
  /// Notifications a minute that a route has accepted in this hour and the one before.
  fileprivate func rate(of route: String, at now: Date) -> Double {
    guard let counts = routes.first(where: { $0.route == route }), hours.count > 1 else { return 0 }
    let minutes = 60 + max(0, min(60, now.timeIntervalSince(hours[hours.count - 1].start) / 60))
    return Double(counts.latestAccepted) / minutes
  }
}

extension Date {
  /// `17:00`
  fileprivate var clock: String { String(formatted(.iso8601).dropFirst(11).prefix(5)) }
  /// `2026-11-22`
  var day: String { formatted(.iso8601.year().month().day()) }
}
