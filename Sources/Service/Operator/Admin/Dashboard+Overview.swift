import Basics
import Delivery
import Foundation
import Platform
import Providers
import Registrations
import Sealing

/// Values for `overview.mustache`. Nil stands for what could not be read from the database in time.
struct Overview: Sendable {
  struct Light: Sendable {
    struct Problem: Sendable {
      let parts: [String]
      let isMany: Bool
      let sentence: String
      let advice: String?
    }

    let style: String
    let word: String
    let summary: String
    let problems: [Problem]
    let startedAt: String
    let servedFor: String
    let version: String
  }

  struct Figures: Sendable {
    let figures: [Figure]
    var chart: Chart?
  }

  struct Queue: Sendable {
    let figures: [Figure]
    /// Why notifications wait; nil if none does, or they have not been counted yet.
    let reasons: PageTable?
  }

  struct Routes: Sendable {
    let table: PageTable
    /// How many failing push services are not in the table.
    let leftOut: String?
    let hasCredentials: Bool
  }

  struct Servers: Sendable {
    let table: PageTable
    let count: String
    /// How many are in the table; nil for all.
    let shown: Int?
  }

  /// A feature's table.
  struct Section: Sendable {
    let title: String
    let table: PageTable
  }

  let light: Light
  /// How old the figures are, if the database does not answer now.
  let staleFor: String?
  let traffic: Figures?
  let latency: Figures?
  let queue: Queue
  let routes: Routes
  let failures: PageTable?
  let servers: Servers?
  let encryption: Figures?
  let tables: [Section]
  let nodes: PageTable?
  let bouncerKeys: PageTable
  let providerKeys: PageTable
}

extension Dashboard {
  /// The start page.
  func overview() async -> Overview {
    async let readiness = readiness.report()
    async let recent = latestRecent()
    async let census = latestCensus()
    let health = await readiness
    let latest = await recent
    let counted = await census
    let found = latest?.value
    return Overview(
      light: light(health), staleFor: latest?.age.map { Phrase.duration($0 / .seconds(1)) },
      traffic: found.map(traffic), latency: found.map(latency), queue: queue(found),
      routes: routes(health, found?.report), failures: found.map { failures($0.report) },
      servers: found.map { servers($0, counted) }, encryption: counted.map(Self.encryption),
      tables: (counted?.tables ?? []).map(Self.section), nodes: found.map(nodes),
      bouncerKeys: bouncerKeys(found, counted), providerKeys: providerKeys(found))
  }

  private func light(_ health: Health) -> Overview.Light {
    let problems = health.problems
    let (word, style) =
      switch health.status {
      case .ready: ("Ready", problems.isEmpty ? "" : "doubtful")
      case .degraded: ("Degraded", "doubtful")
      case .unavailable: ("Unavailable", "bad")
      }
    return Overview.Light(
      style: style, word: word, summary: health.summary,
      problems: problems.map {
        .init(parts: $0.parts, isMany: $0.parts.count > 1, sentence: $0.sentence, advice: $0.advice)
      },
      startedAt: startedAt.minute, servedFor: Phrase.duration(health.at.timeIntervalSince(startedAt)),
      version: Version.text)
  }

  // MARK: Notifications

  private func traffic(_ recent: Recent) -> Overview.Figures {
    let report = recent.report
    let now = sources.now()
    let total = report.total
    let rates = report.hours.map { hour in
      let minutes = max(1, min(60, now.timeIntervalSince(hour.start) / 60))
      return (
        start: hour.start, accepted: Double(hour.accepted) / minutes, failed: Double(hour.failed) / minutes
      )
    }
    let most = PageText.rate(rates.map { $0.accepted + $0.failed }.max() ?? 0)
    var chart = Chart(
      label: "Accepted and failed notifications a minute, by the hour: at most \(most)",
      left: Self.left(report), right: Self.right,
      legend: [.init(style: "a", text: "accepted"), .init(style: "b", text: "failed: refused or given up")])
    chart.draw(
      rates.map { rate in
        let accepted = PageText.rate(rate.accepted)
        let failed = PageText.rate(rate.failed)
        return (
          "\(rate.start.clock): \(accepted) accepted, \(failed) failed a minute",
          [("a", rate.accepted), ("b", rate.failed)]
        )
      })
    return .init(
      figures: [
        Figure(.number(total.accepted), "accepted"), Figure(.bad(total.failed), "failed"),
        Figure("\(most)", "a minute in the busiest hour"),
      ], chart: chart)
  }

  private static func left(_ report: HourlyCounts.Report) -> String { report.hours.first?.start.clock ?? "" }
  private static let right = "now (UTC)"

  private func latency(_ recent: Recent) -> Overview.Figures {
    let report = recent.report
    let median = report.total.latency.percentile(0.5)
    let slow = report.total.latency.percentile(0.99)
    func text(_ time: TimeInterval?) -> String { time.map(Phrase.latency) ?? "no time known" }
    var chart = Chart(
      label: "Half within \(text(median)), 99 of 100 within \(text(slow))",
      left: Self.left(report), right: Self.right,
      legend: [.init(style: "a", text: "p50"), .init(style: "m", text: "p99, by the hour")])
    chart.draw(lines: [
      ("m", report.hours.map { $0.latency.percentile(0.99) }),
      ("l", report.hours.map { $0.latency.percentile(0.5) }),
    ])
    return .init(
      figures: [
        Figure(.optional(median.map(Phrase.latency)), "half are faster (p50)"),
        Figure(.optional(slow.map(Phrase.latency)), "99 of 100 are faster (p99)"),
      ], chart: chart)
  }

  /// - Parameter recent: nil if the database could not be read; only what is in memory is shown then.
  private func queue(_ recent: Recent?) -> Overview.Queue {
    let depth = sources.outbox.count
    let unknown = PageText("not known", mark: "faint")
    let oldest = recent?.waitingSince.map { since in
      PageText(Phrase.duration(sources.now().timeIntervalSince(since)))
    }
    return .init(
      figures: [
        Figure(.bad(Int64(depth), "doubtful"), "wait for a provider"),
        Figure(
          depth == 0 ? PageText("none", mark: "faint") : oldest ?? unknown, "the oldest has waited"),
        Figure(recent.map { .bad($0.report.total.givenUp) } ?? unknown, "given up in 24 hours"),
      ], reasons: depth == 0 ? nil : Self.waits(sources.outbox.reasons, recent?.overPace ?? []))
  }

  /// Why notifications wait, the most frequent reasons first; nil if it has not been counted yet.
  private static func waits(
    _ reasons: [Reason: Int], _ overPace: [OutboxContents.ServerOverPace]
  ) -> PageTable? {
    guard !reasons.isEmpty else { return nil }
    var table = PageTable(.text("Reason"), .number("Wait"), .text("What it means"))
    let sorted = reasons.sorted { ($1.value, $0.key.rawValue) < ($0.value, $1.key.rawValue) }
    for (reason, count) in sorted.prefix(8) {
      let servers = reason == .serverOverPace ? overPace.prefix(shownOverPace) : []
      let meaning = servers.reduce(PageText.sentence(reason.explanation.meaning)) { text, server in
        text + " " + PageText(server.hostname, link: "/admin/servers/\(server.id)")
          + ": \(Phrase.number(server.waiting))."
      }
      table.add(.code(reason.rawValue), .number(count), meaning)
    }
    return table
  }

  /// How many of the chat servers over their pace are named.
  private static let shownOverPace = 5

  // MARK: The rest

  private static func encryption(_ census: Census) -> Overview.Figures {
    let all = census.byServer.values.reduce(into: DeviceCounts()) { $0 += $1 }
    return .init(figures: [
      Figure(.number(all.e2ee), "encrypted devices"), Figure(.number(all.legacy), "legacy devices"),
      Figure(PageText(Phrase.share(all.e2ee, of: all.e2ee + all.legacy)), "encrypted"),
    ])
  }

  private static func section(_ part: AdminTable) -> Overview.Section {
    var table = PageTable(
      part.columns.map { column in
        switch column {
        case .text(let heading): .text(heading)
        case .number(let heading), .failures(let heading): .number(heading)
        }
      }, otherwise: part.otherwise)
    for row in part.rows {
      table.add(
        zip(part.columns, row).map { column, cell in
          switch (column, cell) {
          case (_, .text(let text)): PageText(text)
          case (.failures, .number(let number)): .bad(number)
          case (_, .number(let number)): .number(number)
          }
        })
    }
    return .init(title: part.title, table: table)
  }

  private func bouncerKeys(_ recent: Recent?, _ census: Census?) -> PageTable {
    let usage = Dictionary((census?.keys ?? []).map { ($0.publicKey, $0) }) { first, _ in first }
    let states = Dictionary(
      sources.keyFolder.current.bouncer.all.map { (Base64.encode($0.pair.publicKey), $0.state.rawValue) }
    ) { first, _ in first }
    var table = PageTable(
      .text("Bouncer key"), .text("State"), .number("Registrations"), .number("7 days"), .text("Last used"),
      otherwise: "No bouncer key: run \"push-bouncer keys generate\".")
    for key in Set(usage.keys).union(states.keys).sorted() {
      table.add(
        .code(key),
        states[key].map { PageText($0, mark: "t") } ?? PageText("not in the key folder", mark: "word bad t"),
        .number(census.map { _ in usage[key]?.registrations ?? 0 }),
        .number(recent.map { $0.registrationsByKey[key] ?? 0 }),
        .age(usage[key]?.lastUsedAt, at: sources.now()))
    }
    return table
  }

  private func providerKeys(_ recent: Recent?) -> PageTable {
    let credentials = sources.keyFolder.current.credentials
    var table = PageTable(.text("Provider key"), .number("Accepted 24 h"), otherwise: "No key of a provider.")
    for name in credentials.all.map(\.route) {
      let routes = recent?.report.routes.filter { $0.route.hasPrefix("\(name) ") }
      table.add(PageText(name), .number(routes.map { $0.map(\.total.accepted).reduce(0, +) }))
    }
    return table
  }

  private func nodes(_ recent: Recent) -> PageTable {
    let now = sources.now()
    var table = PageTable(
      .text("Node"), .text("Version"), .text("Started"), .text("Seen"),
      otherwise: "No node serves now.")
    for node in recent.nodes {
      let isSilent = now.timeIntervalSince(node.seenAt) > 60
      table.add(
        PageText(node.hostname), PageText(node.version), .age(node.startedAt, at: now),
        .age(node.seenAt, at: now) + (isSilent ? " " + PageText("silent", mark: "word doubtful") : .empty))
    }
    return table
  }
}

extension Date {
  /// `17:00`
  fileprivate var clock: String { String(formatted(.iso8601).dropFirst(11).prefix(5)) }
}
