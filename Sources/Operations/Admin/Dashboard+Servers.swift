internal import Delivery
internal import Foundation
internal import Registrations
internal import Sealing

extension Dashboard {
  /// Servers that the first page lists: the busiest.
  private static let shownServers = 50

  func servers(_ recent: Recent, _ census: Census?) -> HTML {
    let busiest = recent.servers.sorted {
      (census?.week[$1.id]?.sent ?? 0, $0.hostname) < (census?.week[$0.id]?.sent ?? 0, $1.hostname)
    }
    let rest = recent.servers.count - Self.shownServers
    return """
      <section><h2>Chat servers</h2>
      \(serverTable(busiest.prefix(Self.shownServers), census))
      \(rest > 0 ? "<p>The \(Self.shownServers) busiest. <a href=\"/admin/servers\">All \(Phrase.number(recent.servers.count))</a></p>" : .none)
      </section>
      """
  }

  /// A page of all chat servers, by hostname.
  func serverList(page: Int) async -> HTML {
    let size = 200
    guard let recent = await latestRecent()?.value else { return Self.unknown("Chat servers") }
    let pages = max(1, (recent.servers.count + size - 1) / size)
    let page = min(max(1, page), pages)
    let shown = recent.servers.dropFirst((page - 1) * size).prefix(size)
    let previous: HTML =
      page > 1 ? "<a href=\"/admin/servers?page=\(page - 1)\" rel=\"prev\">Previous</a> " : .none
    let next: HTML =
      page < pages ? " <a href=\"/admin/servers?page=\(page + 1)\" rel=\"next\">Next</a>" : .none
    return """
      <section><h1>All \(Phrase.number(recent.servers.count)) chat servers</h1>
      \(serverTable(shown, await latestCensus()))
      <p>\(previous)Page \(page) of \(pages)\(next)</p>
      </section>
      """
  }

  private func serverTable(_ servers: some Sequence<Server>, _ census: Census?) -> HTML {
    let now = sources.now()
    let devices = census?.byServer
    var table = HTMLTable([
      .text("Server"), .wide("Version"), .wideNumber("Realms"), .wideNumber("Encrypted"),
      .wideNumber("Legacy"), .number("Pushes 7 d"), .wideNumber("Refused"), .text("Last seen"),
    ])
    for server in servers {
      let (week, devices) = (census?.week[server.id], devices.map { $0[server.id] ?? .init() })
      table.add([
        """
        <a href="/admin/servers/\(server.id)">\(server.hostname)</a>\
        \(server.isDeactivated ? " <span class=\"word doubtful\">deactivated</span>" : HTML.none)
        """,
        Shown.optional(server.version), Shown.number(server.realms),
        Shown.optional(devices.map { Phrase.number($0.e2ee) }),
        Shown.optional(devices.map { Phrase.number($0.legacy) }),
        Shown.optional(census.map { _ in Phrase.number(week?.sent ?? 0) }),
        Shown.bad(week?.failed ?? 0), Shown.age(server.lastRequestAt, at: now),
      ])
    }
    return table.html(
      otherwise:
        "None yet. Let one in with \"push-bouncer server add\", or have it register with \"manage.py register_server\"."
    )
  }
}

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

extension Dashboard {
  /// What a search has found.
  func find(_ text: String) async throws -> HTML {
    let query: DeviceQuery
    do { query = try DeviceQuery(text) } catch {
      let sentence =
        error == .empty
        ? "Type a hostname, a realm, a user's number, a token id or a device identifier." : error.description
      return "<section><h1>Find a device</h1><p>\(sentence)</p></section>"
    }
    let answer = try await DeviceSearch(database: sources.database, storageKey: sources.storageKey).find(
      query)
    let known = await latestRecent()?.value.servers ?? []
    let ids = Dictionary(known.map { ($0.uuid, $0.id) }, uniquingKeysWith: { first, _ in first })
    let servers = answer.servers.map { server -> HTML in
      "<p>Chat server <a href=\"/admin/servers/\(server.id)\">\(server.hostname)</a></p>\n"
    }
    let count =
      answer.isCut
      ? "the first \(answer.devices.count) devices" : Phrase.count(answer.devices.count, "device")
    return """
      <section><h1>\(text): \(count)</h1>
      \(servers)
      \(answer.advice.map { "<p>\($0)</p>" } as HTML?)
      </section>
      \(answer.devices.map { device($0, server: $0.server.flatMap { ids[$0.uuid] }) })
      """
  }

  /// - Parameter server: the row of its chat server, which has a page.
  private func device(_ device: FoundDevice, server: Int64?) -> HTML {
    let now = sources.now()
    let style =
      switch device.state {
      case .working: ""
      case .unused, .waiting: "doubtful"
      case .failing, .ended, .switchedOff: "bad"
      }
    func failure(_ failure: FoundDevice.Failure) -> HTML {
      "<span class=\"code\">\(failure.reason)</span>, \(Shown.age(failure.at, at: now))"
    }
    let rows: [(String, HTML?)] = [
      (
        "Server",
        device.server.map { place in
          server.map { "<a href=\"/admin/servers/\($0)\">\(place.host)</a>" } ?? "\(place.host)"
        }
      ),
      ("Realm", device.realm.map { "\($0.host) <span class=\"code\">\($0.uuid)</span>" }),
      ("User", device.user.map { "\($0)" }),
      (
        "App", "\(device.app ?? "unknown app") (\(device.provider)\(device.target.map { " to \($0)" } ?? ""))"
      ),
      ("Token id", device.tokenID.map { "<span class=\"code\">\($0.base64)</span>" }),
      ("Token in the log", device.fingerprint.map { "<span class=\"code\">\($0)</span>" }),
      ("Device identifier", device.identifier.map { "<span class=\"code\">\($0)</span>" }),
      ("Bouncer key", device.bouncerKey.map { "<span class=\"code\">\($0)</span>" }),
      ("Registered", Shown.age(device.registeredAt, at: now)),
      ("Ended", device.endedAt.map { Shown.age($0, at: now) }),
      ("Last success", Shown.age(device.deliveredAt, at: now)), ("Last failure", device.failure.map(failure)),
      ("Called dead, not believed yet", device.held.map(failure)),
      (
        "Waiting",
        device.waiting == 0
          ? "none"
          : "\(Phrase.count(device.waiting, "notification")), the oldest since \(Shown.age(device.waitingSince, at: now))"
      ),
    ]
    let list = rows.compactMap { name, value in
      value.map { value -> HTML in "<dt>\(name)</dt><dd>\(value)</dd>\n" }
    }
    return """
      <section class="light \(style)">
      <h2><span class="word">\(device.state.rawValue.prefix(1).uppercased() + device.state.rawValue.dropFirst())</span>: \(Self.kind(device)) (\(device.name))</h2>
      <p>\(device.advice)</p>
      <dl>\(list)</dl>
      </section>

      """
  }

  private static func kind(_ device: FoundDevice) -> String {
    switch device.kind {
    case .e2ee: "an encrypting app's registration"
    case .legacy: "an old app's registration"
    case .nextcloud: "a device of Nextcloud's"
    case .nextcloudWebPush: "a browser or distributor of Nextcloud's"
    }
  }
}
