internal import Delivery
internal import Foundation
internal import Platform
internal import Providers
internal import Registrations
internal import SQL
internal import Sealing
internal import Settings

extension Dashboard {
  /// How many servers the start page lists, the busiest first.
  private static let shownServers = 50

  func servers(_ recent: Recent, _ census: Census?) -> HTML {
    let busiest = recent.servers.sorted {
      let left = $0.server
      let right = $1.server
      return (census?.week[right.id]?.sent ?? 0, left.hostname) < (
        census?.week[left.id]?.sent ?? 0, right.hostname
      )
    }
    let all = recent.servers.count
    return """
      <section><h2>Chat servers</h2>
      \(serverTable(busiest.prefix(Self.shownServers), census))
      \(all > Self.shownServers ? "<p>The \(Self.shownServers) busiest. <a href=\"/admin/servers\">All \(Phrase.number(all))</a></p>" : .none)
      </section>
      """
  }

  /// One page of the list of all chat servers, by hostname.
  func serverList(page: Int) async -> HTML {
    let size = 200
    guard let recent = await latestRecent()?.value else { return Self.unknown("Chat servers") }
    let pages = max(1, (recent.servers.count + size - 1) / size)
    let page = min(max(1, page), pages)
    let shown = recent.servers.dropFirst((page - 1) * size).prefix(size)
    func link(to page: Int, _ rel: String, _ text: String) -> HTML {
      (1...pages).contains(page)
        ? " <a href=\"/admin/servers?page=\(page)\" rel=\"\(rel)\">\(text)</a> " : .none
    }
    return """
      <section><h1>All \(Phrase.number(recent.servers.count)) chat servers</h1>
      \(serverTable(shown, await latestCensus()))
      <p>\(link(to: page - 1, "prev", "Previous"))Page \(page) of \(pages)\(link(to: page + 1, "next", "Next"))</p>
      </section>
      """
  }

  private func serverTable(_ servers: some Sequence<Server>, _ census: Census?) -> HTML {
    var table = HTMLTable(
      .text("Server"), .number("Pushes 7 d"), .number("Refused"), .text("Last seen"), .number("Encrypted"),
      .number("Legacy"), .number("Realms"), .text("Version"))
    for (server, realms) in servers {
      let week = census?.week[server.id]
      let devices = census.map { $0.byServer[server.id] ?? .init() }
      table.add(
        "<a href=\"/admin/servers/\(server.id)\">\(server.hostname)</a>\(Shown.deactivated(server.isDeactivated))",
        Shown.number(census.map { _ in week?.sent ?? 0 }), Shown.bad(census.map { _ in week?.failed ?? 0 }),
        Shown.age(server.lastRequestAt, at: sources.now()), Shown.number(devices?.e2ee),
        Shown.number(devices?.legacy), Shown.number(realms), Shown.optional(server.version))
    }
    return table.html(
      otherwise:
        "None yet. Let one in with \"push-bouncer server add\", or have it register with \"manage.py register_server\"."
    )
  }
}

extension Dashboard {
  private static let shownRealms = 200
  private static let shownRefusals = 20

  /// Devices of which a notification was refused, the latest first.
  private func refusals(_ devices: [FoundDevice]) -> HTML {
    var table = HTMLTable(.text("Device"), .text("When"), .text("Why"), .text("Realm"), .text("App"))
    for device in devices {
      guard let failure = device.failure else { continue }
      table.add(
        "<a href=\"/admin/find?q=\(device.name)\">\(device.name)</a>",
        Shown.age(failure.at, at: sources.now()),
        "\(Shown.code(failure.reason)) \(failure.explanation.meaning)",
        Shown.optional(device.realm?.host), Shown.optional(device.app))
    }
    return table.html(
      otherwise: "None of a device that is known now. The log names old apps' registrations that have ended.")
  }

  /// Calls to register devices that were refused; nothing if there were none.
  private static func refusedRegistrations(_ refused: [HourlyCounts.RefusedRegistrations], at now: Date)
    -> HTML
  {
    guard !refused.isEmpty else { return .none }
    var table = HTMLTable(
      .text("Why"), .number("Calls"), .text("Last in the hour from"), .text("What it means"))
    for refused in refused {
      table.add(
        Shown.code(refused.refusal.rawValue), Shown.number(refused.count), "\(refused.latest.minute)",
        "\(refused.refusal.meaning)")
    }
    return "<section><h2>Refused registrations of devices, 7 days</h2>\n\(table.html())</section>"
  }

  /// What the features know of a chat server.
  private func facts(of server: Int64) async throws -> [HTML] {
    var entries: [HTML] = []
    for read in sources.serverFacts {
      guard let fact = try await read(server) else { continue }
      let sentences = fact.sentences.map { sentence -> HTML in
        sentence.isBad ? "<span class=\"word bad\">\(sentence.text)</span> " : "\(sentence.text) "
      }
      entries.append("<dt>\(fact.title)</dt><dd>\(sentences)</dd>\n")
    }
    return entries
  }

  /// A chat server's page; nil if there is no such server.
  func serverPage(_ id: Int64) async throws -> (title: String, content: HTML)? {
    guard let (server, count) = try await sources.servers(id).first else { return nil }
    let now = sources.now()
    let realms = try await sources.realms(of: id, limit: Self.shownRealms + 1)
    let counts = HourlyCounts(database: sources.database, now: sources.now)
    let hours = try await counts.report(ofServer: id, hours: 7 * 24)
    let search = DeviceSearch(database: sources.database, storageKey: sources.storageKey)
    let census = await latestCensus()
    let facts = try await facts(of: id)
    let devices = census.map { $0.byServer[id] ?? .init() }
    let sent = hours.map(\.sent).reduce(0, +)
    let failed = hours.map(\.failed).reduce(0, +)
    let bars = hours.map { hour in
      Chart.Bar(
        title:
          "\(hour.start.formatted(.iso8601)): \(Phrase.number(hour.sent)) handed in, \(Phrase.number(hour.failed)) refused",
        parts: [("a", Double(hour.sent - min(hour.failed, hour.sent))), ("b", Double(hour.failed))])
    }
    var table = HTMLTable(
      .text("Realm"), .number("Encrypted"), .number("Legacy"), .text("Last seen"), .text("Name"),
      .text("UUID"))
    for realm in realms.prefix(Self.shownRealms) {
      let devices = census.map { $0.devices[DeviceCounts.RealmKey(server: id, realm: realm.id)] ?? .init() }
      table.add(
        "<a href=\"/admin/find?q=\(realm.uuid)\">\(realm.host)</a>\(Shown.deactivated(realm.isDeactivated))",
        Shown.number(devices?.e2ee), Shown.number(devices?.legacy), Shown.age(realm.lastRequestAt, at: now),
        "\(realm.name)", Shown.code(realm.uuid))
    }
    return (
      server.hostname,
      """
      <p><a href="/admin/servers">All chat servers</a></p>
      <section><h1>\(server.hostname)\(Shown.deactivated(server.isDeactivated))</h1>
      <dl>
      <dt>zulip_org_id</dt><dd class="code">\(server.uuid.canonical)</dd>
      <dt>Version</dt><dd>\(Shown.optional(server.version))</dd>
      <dt>Last seen</dt><dd>\(Shown.age(server.lastRequestAt, at: now))</dd>
      <dt>Devices</dt><dd>\(Shown.optional(devices.map { "\(Phrase.number($0.e2ee)) encrypted, \(Phrase.number($0.legacy)) legacy" }))
      (<a href="/admin/find?q=\(server.uuid.canonical)">show</a>)</dd>
      \(facts)
      </dl>
      </section>
      <section><h2>Notifications handed in, 7 days</h2>
      \(Shown.figures((Shown.number(sent), "handed in"), (Shown.bad(failed), "refused at once")))
      \(Chart.bars(bars, label: "\(Phrase.number(sent)) notifications in 7 days, \(Phrase.number(failed)) refused", ends: (hours.first?.start.day ?? "", "now"),
      legend: "<span class=\"key a\"></span>taken <span class=\"key b\"></span>refused at once, by the hour"))
      </section>
      <section><h2>Last refusals, 7 days</h2>
      \(refusals(try await search.failures(ofServer: id, since: now - 7 * 86_400, limit: Self.shownRefusals)))
      </section>
      \(Self.refusedRegistrations(try await counts.refusedRegistrations(ofServer: id, hours: 7 * 24), at: now))
      <section><h2>\(Phrase.count(count, "realm"))</h2>
      \(table.html(otherwise: "This server has registered no realm."))
      \(realms.count > Self.shownRealms ? "<p class=\"faint\">The first \(Self.shownRealms).</p>" : HTML.none)
      </section>
      """
    )
  }
}

extension Dashboard {
  /// The results of a search for devices.
  func find(_ text: String) async throws -> HTML {
    let query: DeviceQuery
    do { query = try DeviceQuery(text) } catch {
      let sentence =
        error == .empty
        ? "Type a hostname, a realm, a user's number, a token id or a device identifier." : error.description
      return "<section><h1>Find a device</h1><p>\(sentence)</p></section>"
    }
    let search = DeviceSearch(database: sources.database, storageKey: sources.storageKey)
    let answer = try await search.find(query)
    let known = await latestRecent()?.value.servers ?? []
    let pages = Dictionary(known.map { ($0.server.uuid.canonical, $0.server.id) }) { first, _ in first }
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
      \(answer.devices.map { device($0, pages) })
      """
  }

  /// - Parameter pages: the row ids of the chat servers that have a page, by UUID.
  private func device(_ device: FoundDevice, _ pages: [String: Int64]) -> HTML {
    let style = device.state.style
    let state = device.state.rawValue
    let facts = device.facts.map { name, fact -> HTML in
      "<dt>\(name.capitalizedFirst)</dt><dd>\(html(of: fact, pages))</dd>\n"
    }
    return """
      <section class="light \(style)">
      <h2><span class="word">\(state.capitalizedFirst)</span>: \(Self.kind(device)) (\(device.name))</h2>
      <p>\(device.advice)</p>
      <dl>\(facts)</dl>
      </section>

      """
  }

  private func html(of fact: FoundDevice.Fact, _ pages: [String: Int64]) -> HTML {
    let now = sources.now()
    return switch fact {
    case .server(let place):
      pages[place.uuid].map { "<a href=\"/admin/servers/\($0)\">\(place.host)</a>" } ?? "\(place.host)"
    case .text(let text, let code):
      "\(text)\(text.isEmpty || code.isEmpty ? "" : " ")\(code.isEmpty ? .none : Shown.code(code))"
    case .time(let time, _): Shown.age(time, at: now)
    case .failure(let failure): "\(Shown.code(failure.reason)), \(Shown.age(failure.at, at: now))"
    case .waiting(0, _): "none"
    case .waiting(let count, let since):
      "\(Phrase.count(count, "notification")), the oldest since \(Shown.age(since, at: now))"
    }
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

extension FoundDevice.State {
  fileprivate var style: String {
    switch self {
    case .working: ""
    case .unused, .waiting: "doubtful"
    case .failing, .ended, .switchedOff: "bad"
    }
  }
}

extension String {
  fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
