internal import Delivery
internal import Foundation

extension Dashboard {
  private static let shownRealms = 200

  /// A chat server's page; nil without one.
  func serverPage(_ id: Int64) async throws -> (title: String, content: HTML)? {
    guard let server = try await sources.server(id) else { return nil }
    let now = sources.now()
    let realms = try await sources.realms(of: id, limit: Self.shownRealms + 1)
    let hours = try await HourlyCounts(database: sources.database, now: sources.now).report(
      ofServer: id, hours: 7 * 24)
    let census = await latestCensus()
    let devices = census?.devices(of: id)
    let (sent, failed) = (hours.reduce(0) { $0 + $1.sent }, hours.reduce(0) { $0 + $1.failed })
    let bars = hours.map { hour in
      Chart.Bar(
        title:
          "\(hour.start.formatted(.iso8601)): \(Phrase.number(hour.sent)) handed in, \(Phrase.number(hour.failed)) refused",
        parts: [("a", Double(hour.sent - min(hour.failed, hour.sent))), ("b", Double(hour.failed))])
    }
    var table = HTMLTable([
      .text("Realm"), .wide("Name"), .wide("UUID"), .number("Encrypted"), .number("Legacy"),
      .text("Last seen"),
    ])
    for realm in realms.prefix(Self.shownRealms) {
      let devices = census.map { $0.devices[MigrationStatus.Place(server: id, realm: realm.id)] ?? .init() }
      table.add([
        """
        <a href="/admin/find?q=\(realm.uuid)">\(realm.host)</a>\
        \(realm.isDeactivated ? " <span class=\"word doubtful\">deactivated</span>" : HTML.none)
        """, "\(realm.name)", "<span class=\"code\">\(realm.uuid)</span>",
        Shown.optional(devices.map { Phrase.number($0.e2ee) }),
        Shown.optional(devices.map { Phrase.number($0.legacy) }), Shown.age(realm.lastRequestAt, at: now),
      ])
    }
    return (
      server.hostname,
      """
      <p><a href="/admin/servers">All chat servers</a></p>
      <section><h1>\(server.hostname)\(server.isDeactivated ? " <span class=\"word doubtful\">deactivated</span>" : HTML.none)</h1>
      <dl>
      <dt>zulip_org_id</dt><dd class="code">\(server.uuid)</dd>
      <dt>Version</dt><dd>\(Shown.optional(server.version))</dd>
      <dt>Last seen</dt><dd>\(Shown.age(server.lastRequestAt, at: now))</dd>
      <dt>Devices</dt><dd>\(Shown.optional(devices.map { "\(Phrase.number($0.e2ee)) encrypted, \(Phrase.number($0.legacy)) legacy" }))
      (<a href="/admin/find?q=\(server.uuid)">show</a>)</dd>
      </dl>
      </section>
      <section><h2>Notifications handed in, 7 days</h2>
      <div class="figures">
      <span><b>\(Shown.number(sent))</b>handed in</span>
      <span><b>\(Shown.bad(failed))</b>refused at once</span>
      </div>
      \(Chart.bars(bars, label: "\(Phrase.number(sent)) notifications in 7 days, \(Phrase.number(failed)) refused", ends: (hours.first?.start.day ?? "", "now"),
      legend: "<span class=\"key a\"></span>taken <span class=\"key b\"></span>refused at once, by the hour"))
      </section>
      <section><h2>\(Phrase.count(server.realms, "realm"))</h2>
      \(table.html(otherwise: "This server has registered no realm."))
      \(realms.count > Self.shownRealms ? "<p class=\"faint\">The first \(Self.shownRealms).</p>" : HTML.none)
      </section>
      """
    )
  }
}
