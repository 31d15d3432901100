internal import Delivery
internal import Foundation
internal import Platform
internal import Providers
internal import Registrations
internal import Sealing
internal import Settings

extension Dashboard {
  /// The start page.
  func overview() async -> HTML {
    async let readiness = readiness.report()
    async let recent = latestRecent()
    async let census = latestCensus()
    let health = await readiness
    let latest = await recent
    let counted = await census
    let found = latest?.value
    return """
      \(light(health))
      \(latest?.age.map(Self.old))
      <div class="two">
      \(found.map(traffic) ?? Self.unknown("Notifications, the last 24 hours"))
      \(found.map(latency) ?? Self.unknown("From the call to the provider's acceptance"))
      \(queue(found))
      </div>
      \(routes(health, found?.report))
      \(found.map { failures($0.report) } ?? Self.unknown("Failures by reason, the last 24 hours"))
      \(found.map { servers($0, counted) } ?? Self.unknown("Chat servers"))
      <div class="two">
      \(counted.map(Self.encryption) ?? Self.unknown("From legacy to encrypted"))
      \((counted?.tables ?? []).map(Self.section))
      \(found.map(nodes) ?? Self.unknown("Nodes"))
      </div>
      \(keys(found, counted))
      """
  }

  /// Replaces a part whose data could not be read from the database in time.
  static func unknown(_ title: String) -> HTML {
    """
    <section><h2>\(title)</h2><p class="faint">Not known: the database does not answer, or is still counting. This \
    page tries again by itself.</p></section>
    """
  }

  /// A note that the data is from before the database stopped answering.
  private static func old(_ age: Duration) -> HTML {
    """
    <p class="word doubtful">The figures of the last 24 hours, of chat servers and of nodes are as of \
    \(Phrase.duration(age / .seconds(1))) ago: the database does not answer.</p>
    """
  }

  private func light(_ health: Health) -> HTML {
    let problems = health.problems
    let (word, style) =
      switch health.status {
      case .ready: ("Ready", problems.isEmpty ? "" : "doubtful")
      case .degraded: ("Degraded", "doubtful")
      case .unavailable: ("Unavailable", "bad")
      }
    let paragraphs = problems.map { problem -> HTML in
      let parts = problem.parts.enumerated().map { index, part -> HTML in
        "\(index == 0 ? "" : "<br>" as HTML)<strong>\(part)</strong>"
      }
      return """
        <p>\(parts):\(parts.count > 1 ? "<br>" : " " as HTML)\(problem.sentence)\(problem.advice.map { "<br>What to do: \($0)" } as HTML?)</p>

        """
    }
    return """
      <section class="light \(style)">
      <h1><span class="word">\(word)</span>: \(health.summary).</h1>
      \(paragraphs)
      <p class="faint">This process has served since \(startedAt.minute) \
      (\(Phrase.duration(health.at.timeIntervalSince(startedAt)))), version \(Version.text).</p>
      </section>
      """
  }

  // MARK: Notifications

  private func traffic(_ recent: Recent) -> HTML {
    let report = recent.report
    let now = sources.now()
    let total = report.total
    let bars = report.hours.map { hour -> Chart.Bar in
      let minutes = max(1, min(60, now.timeIntervalSince(hour.start) / 60))
      let accepted = Double(hour.accepted) / minutes
      let failed = Double(hour.failed) / minutes
      return .init(
        title: "\(hour.start.clock): \(Shown.rate(accepted)) accepted, \(Shown.rate(failed)) failed a minute",
        parts: [("a", accepted), ("b", failed)])
    }
    let most = Shown.rate(bars.map(\.total).max() ?? 0)
    return """
      <section><h2>Notifications, the last 24 hours</h2>
      \(Shown.figures(
        (Shown.number(total.accepted), "accepted"), (Shown.bad(total.failed), "failed"),
        ("\(most)", "a minute in the busiest hour")))
      \(Chart.bars(bars, label: "Accepted and failed notifications a minute, by the hour: at most \(most)", ends: Self.ends(report),
        legend: "<span class=\"key a\"></span>accepted <span class=\"key b\"></span>failed: refused or given up"))
      <p class="faint">Counts are up to a minute old.</p>
      </section>
      """
  }

  private static func ends(_ report: HourlyCounts.Report) -> (String, String) {
    (report.hours.first?.start.clock ?? "", "now (UTC)")
  }

  private func latency(_ recent: Recent) -> HTML {
    let report = recent.report
    let median = report.total.latency.percentile(0.5)
    let slow = report.total.latency.percentile(0.99)
    func text(_ time: TimeInterval?) -> String { time.map(Phrase.latency) ?? "no time known" }
    return """
      <section><h2>From the call to the provider's acceptance</h2>
      \(Shown.figures(
        (Shown.optional(median.map(Phrase.latency)), "half are faster (p50)"),
        (Shown.optional(slow.map(Phrase.latency)), "99 of 100 are faster (p99)")))
      \(Chart.lines(
        [
          ("m", report.hours.map { $0.latency.percentile(0.99) }), ("l", report.hours.map { $0.latency.percentile(0.5) }),
        ],
        label: "Half within \(text(median)), 99 of 100 within \(text(slow))",
        ends: Self.ends(report), legend: "<span class=\"key a\"></span>p50 <span class=\"key m\"></span>p99, by the hour"))
      </section>
      """
  }

  /// - Parameter recent: nil if the database could not be read; only what is in memory is shown then.
  private func queue(_ recent: Recent?) -> HTML {
    let depth = sources.outbox.count
    let unknown = "<span class=\"faint\">not known</span>" as HTML
    let oldest = recent?.waitingSince.map { since -> HTML in
      "\(Phrase.duration(sources.now().timeIntervalSince(since)))"
    }
    return """
      <section><h2>Queue</h2>
      \(Shown.figures(
        (Shown.bad(Int64(depth), "doubtful"), "wait for a provider"),
        (depth == 0 ? "<span class=\"faint\">none</span>" : oldest ?? unknown, "the oldest has waited"),
        (recent.map { Shown.bad($0.report.total.givenUp) } ?? unknown, "given up in 24 hours")))
      \(depth == 0 ? .none : Self.waits(sources.outbox.reasons))
      </section>
      """
  }

  /// Why notifications wait, the most frequent reasons first; nothing if it has not been counted yet.
  private static func waits(_ reasons: [Reason: Int]) -> HTML {
    guard !reasons.isEmpty else { return .none }
    var table = HTMLTable(.text("Reason"), .number("Wait"), .text("What it means"))
    let sorted = reasons.sorted { ($1.value, $0.key.rawValue) < ($0.value, $1.key.rawValue) }
    for (reason, count) in sorted.prefix(8) {
      table.add(Shown.code(reason.rawValue), Shown.number(Int64(count)), "\(reason.explanation.meaning)")
    }
    return table.html()
  }

  // MARK: The rest

  private static func encryption(_ census: Census) -> HTML {
    let all = census.byServer.values.reduce(into: DeviceCounts()) { $0 += $1 }
    return """
      <section><h2>From legacy to encrypted</h2>
      \(Shown.figures(
        (Shown.number(all.e2ee), "encrypted devices"), (Shown.number(all.legacy), "legacy devices"),
        ("\(Phrase.share(all.e2ee, of: all.e2ee + all.legacy))", "encrypted")))
      </section>
      """
  }

  /// A feature's table.
  private static func section(_ table: AdminTable) -> HTML {
    var html = HTMLTable(
      table.columns.map { column in
        switch column {
        case .text(let heading): .text(heading)
        case .number(let heading), .failures(let heading): .number(heading)
        }
      })
    for row in table.rows {
      html.add(
        zip(table.columns, row).map { column, cell in
          switch (column, cell) {
          case (_, .text(let text)): "\(text)"
          case (.failures, .number(let number)): Shown.bad(number)
          case (_, .number(let number)): Shown.number(number)
          }
        })
    }
    return "<section><h2>\(table.title)</h2>\n\(html.html(otherwise: "\(table.otherwise)"))</section>"
  }

  private func keys(_ recent: Recent?, _ census: Census?) -> HTML {
    let snapshot = sources.keyFolder.current
    let usage = Dictionary((census?.keys ?? []).map { ($0.publicKey, $0) }) { first, _ in first }
    let states = Dictionary(
      snapshot.bouncer.all.map { (Base64.encode($0.pair.publicKey), $0.state.rawValue) }
    ) { first, _ in first }
    var bouncer = HTMLTable(
      .text("Bouncer key"), .text("State"), .number("Registrations"), .number("7 days"), .text("Last used"))
    for key in Set(usage.keys).union(states.keys).sorted() {
      bouncer.add(
        Shown.code(key),
        states[key].map { "<span class=\"t\">\($0)</span>" }
          ?? "<span class=\"word bad t\">not in the key folder</span>",
        Shown.number(census.map { _ in usage[key]?.registrations ?? 0 }),
        Shown.number(recent.map { $0.registrationsByKey[key] ?? 0 }),
        Shown.age(usage[key]?.lastUsedAt, at: sources.now()))
    }
    var provider = HTMLTable(.text("Provider key"), .number("Accepted 24 h"))
    for name in snapshot.credentials.apns.map({ "apns:\($0.name)" })
      + snapshot.credentials.fcm.map({ "fcm:\($0.name)" })
    {
      let routes = recent?.report.routes.filter { $0.route.hasPrefix("\(name) ") }
      provider.add("\(name)", Shown.number(routes.map { $0.map(\.total.accepted).reduce(0, +) }))
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
    var table = HTMLTable(.text("Node"), .text("Version"), .text("Started"), .text("Seen"))
    for node in recent.nodes {
      let isSilent = now.timeIntervalSince(node.seenAt) > 60
      table.add(
        "\(node.hostname)", "\(node.version)", Shown.age(node.startedAt, at: now),
        "\(Shown.age(node.seenAt, at: now))\(isSilent ? " <span class=\"word doubtful\">silent</span>" : HTML.none)"
      )
    }
    return
      "<section><h2>Nodes</h2>\n\(table.html(otherwise: "None has written down that it serves."))</section>"
  }
}

extension Date {
  /// `17:00`
  fileprivate var clock: String { String(formatted(.iso8601).dropFirst(11).prefix(5)) }
}
