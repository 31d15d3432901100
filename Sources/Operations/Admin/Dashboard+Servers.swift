internal import Delivery
internal import Foundation

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
