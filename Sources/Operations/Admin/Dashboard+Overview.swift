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
    let credentials = sources.keyFolder.current.credentials
    let services = sources.pushServices()
    let verdict = Verdict(
      await health.status, await health.document, routes: failingRoutes(services),
      waiting: sources.outbox.count,
      canDeliver: !credentials.apns.isEmpty || !credentials.fcm.isEmpty || services != nil,
      now: sources.now())
    let (latest, counted, days) = (await recent, await census, await progress)
    let found = latest?.value
    return """
      \(light(verdict))
      \(latest?.age.map(Self.old))
      <div class="two">
      \(found.map(traffic) ?? Self.unknown("Notifications, the last 24 hours"))
      \(found.map(latency) ?? Self.unknown("From the call to the provider's acceptance"))
      \(queue(found))
      </div>
      \(routes(found?.report, services))
      \(found.map { failures($0.report) } ?? Self.unknown("Failures by reason, the last 24 hours"))
      \(found.map { servers($0, counted) } ?? Self.unknown("Chat servers"))
      <div class="two">
      \(migration(days, counted))
      \(counted?.apps.map(Self.apps) ?? .none)
      \(found.map(nodes) ?? Self.unknown("Nodes"))
      </div>
      \(keys(found, counted))
      """
  }

  /// Instead of a part for which the database was asked in vain.
  static func unknown(_ title: String) -> HTML {
    """
    <section><h2>\(title)</h2><p class="faint">Not known: the database does not answer, or is still counting. This \
    page tries again by itself.</p></section>
    """
  }

  /// What was found out before the database fell silent.
  private static func old(_ age: Duration) -> HTML {
    """
    <p class="word doubtful">The figures of the last 24 hours, of chat servers and of nodes are as of \
    \(Phrase.duration(TimeInterval(age.components.seconds))) ago: the database does not answer.</p>
    """
  }

  private func failingRoutes(_ services: PushServices?) -> [Verdict.FailingRoute] {
    let webPush = (services?.outage).map { outage in
      Verdict.FailingRoute(
        route: .webPush, reason: outage.reason, since: outage.since, waiting: services?.waiting ?? 0)
    }
    return [webPush].compactMap(\.self)
      + sources.routeStates().compactMap { route, state in
        switch state {
        case .unknown, .ok: nil
        case .failing(let reason, let since), .open(let reason, let since):
          .init(route: route, reason: reason, since: since, waiting: sources.outbox.count(for: route))
        }
      }
  }

  // MARK: The light

  private func light(_ verdict: Verdict) -> HTML {
    let now = sources.now()
    let (word, style) = verdict.word
    let problems = verdict.problems.map { problem -> HTML in
      let parts = problem.parts.enumerated().map { index, part -> HTML in
        "\(index == 0 ? "" : "<br>" as HTML)<strong>\(part)</strong>"
      }
      return """
        <p>\(parts):\(parts.count > 1 ? "<br>" : " " as HTML)\(problem.sentence)\(problem.advice.map { "<br>What to do: \($0)" } as HTML?)</p>

        """
    }
    return """
      <section class="light \(style)">
      <h1><span class="word">\(word)</span>: \(verdict.summary).</h1>
      \(problems)
      <p class="faint">This process has served since \(startedAt.minute) \
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
    return """
      <section><h2>Notifications, the last 24 hours</h2>
      <div class="figures">
      <span><b>\(Shown.number(total.accepted))</b>accepted</span>
      <span><b>\(Shown.bad(total.refused + total.givenUp))</b>failed</span>
      <span><b>\(Shown.rate(most))</b>a minute in the busiest hour</span>
      </div>
      \(Chart.bars(bars, label: "Accepted and failed notifications a minute, by the hour: at most \(Shown.rate(most))", ends: Self.ends(report),
        legend: "<span class=\"key a\"></span>accepted <span class=\"key b\"></span>failed: refused or given up"))
      <p class="faint">Counts are up to a minute old.</p>
      </section>
      """
  }

  private static func ends(_ report: HourlyCounts.Report) -> (String, String) {
    ("\(report.hours.first?.start.clock ?? "")", "now (UTC)")
  }

  private func latency(_ recent: Recent) -> HTML {
    let (report, total) = (recent.report, recent.report.total)
    let (median, slow) = (total.latency.percentile(0.5), total.latency.percentile(0.99))
    return """
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
        ends: Self.ends(report), legend: "<span class=\"key a\"></span>p50 <span class=\"key m\"></span>p99, by the hour"))
      </section>
      """
  }

  /// - Parameter recent: nil: only what is in memory is known.
  private func queue(_ recent: Recent?) -> HTML {
    let depth = sources.outbox.count
    let oldest: HTML =
      depth == 0
      ? "<span class=\"faint\">none</span>"
      : recent?.waitingSince.map { since -> HTML in
        "\(Phrase.duration(sources.now().timeIntervalSince(since)))"
      } ?? "<span class=\"faint\">not known</span>"
    let givenUp =
      recent.map { Shown.bad($0.report.total.givenUp) } ?? "<span class=\"faint\">not known</span>"
    return """
      <section><h2>Queue</h2>
      <div class="figures">
      <span><b>\(Shown.bad(depth, "doubtful"))</b>wait for a provider</span>
      <span><b>\(oldest)</b>the oldest has waited</span>
      <span><b>\(givenUp)</b>given up in 24 hours</span>
      </div>
      </section>
      """
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
      \(Chart.bars(bars, label: "\(Phrase.share(last.e2ee, of: last.e2ee + last.legacy)) of the devices are encrypted", ends: (days.first?.date.day ?? "", "today"),
        legend: "<span class=\"key a\"></span>encrypted <span class=\"key c\"></span>legacy"))
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
        states[key].map { "<span class=\"t\">\($0)</span>" }
          ?? "<span class=\"word bad t\">not in the key folder</span>",
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

extension Date {
  /// `17:00`
  fileprivate var clock: String { String(formatted(.iso8601).dropFirst(11).prefix(5)) }
  /// `2026-11-22`
  var day: String { formatted(.iso8601.year().month().day()) }
}
