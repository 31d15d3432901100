import Basics
import Delivery
import Foundation
import Platform
import Providers
import Registrations
import SQL
import Sealing

/// Values for `servers.mustache`.
struct ServersPage: Sendable {
  struct List: Sendable {
    let count: String
    let table: PageTable
    let number: Int
    let pages: Int
    /// The numbers of the pages beside this one; nil at the ends.
    let previous: Int?
    let next: Int?
  }

  /// Nil if the database does not answer.
  let list: List?
}

/// Values for `server.mustache`.
struct ServerPage: Sendable {
  struct Fact: Sendable {
    let title: String
    let text: PageText
  }

  struct Realms: Sendable {
    let title: String
    let table: PageTable
    /// How many are in the table; nil for all.
    let shown: Int?
  }

  let name: PageText
  let uuid: String
  let version: PageText
  let lastSeen: PageText
  let devices: PageText
  let facts: [Fact]
  let figures: [Figure]
  let chart: Chart
  let refusals: PageTable
  /// Calls to register devices that were refused; nil if there were none.
  let refusedRegistrations: PageTable?
  let realms: Realms
}

/// Values for `find.mustache`.
struct FindPage: Sendable {
  struct Server: Sendable {
    let id: Int64
    let hostname: String
  }

  struct Device: Sendable {
    struct Fact: Sendable {
      let title: String
      let content: PageText
    }

    let style: String
    let state: String
    let kind: String
    let name: String
    let advice: String
    let facts: [Fact]
  }

  let title: String
  var servers: [Server] = []
  var advice: String?
  var devices: [Device] = []
}

extension Dashboard {
  /// How many servers the start page lists, the busiest first.
  private static let shownServers = 50

  func servers(_ recent: Recent, _ census: Census?) -> Overview.Servers {
    let busiest = recent.servers.sorted {
      let left = $0.server
      let right = $1.server
      return (census?.week[right.id]?.sent ?? 0, left.hostname) < (
        census?.week[left.id]?.sent ?? 0, right.hostname
      )
    }
    let all = recent.servers.count
    return .init(
      table: serverTable(busiest.prefix(Self.shownServers), recent, census), count: Phrase.number(all),
      shown: all > Self.shownServers ? Self.shownServers : nil)
  }

  /// One page of the list of all chat servers, by hostname.
  func serverList(page: Int) async -> ServersPage {
    let size = 200
    guard let recent = await latestRecent()?.value else { return ServersPage(list: nil) }
    let pages = max(1, (recent.servers.count + size - 1) / size)
    let page = min(max(1, page), pages)
    let shown = recent.servers.dropFirst((page - 1) * size).prefix(size)
    return ServersPage(
      list: .init(
        count: Phrase.number(recent.servers.count), table: serverTable(shown, recent, await latestCensus()),
        number: page, pages: pages, previous: page > 1 ? page - 1 : nil, next: page < pages ? page + 1 : nil))
  }

  private func serverTable(
    _ servers: some Sequence<Server>, _ recent: Recent, _ census: Census?
  ) -> PageTable {
    let overPace = Set(recent.overPace.map(\.id))
    var table = PageTable(
      .text("Server"), .number("Pushes 7 d"), .number("Refused"), .text("Last seen"), .number("Encrypted"),
      .number("Legacy"), .number("Realms"), .text("Version"),
      otherwise:
        "None yet. Let one in with \"push-bouncer server add\", or have it register with \"manage.py register_server\"."
    )
    for (server, realms) in servers {
      let week = census?.week[server.id]
      let devices = census.map { $0.byServer[server.id] ?? .init() }
      table.add(
        PageText(server.hostname, link: "/admin/servers/\(server.id)") + .deactivated(server.isDeactivated)
          + (overPace.contains(server.id) ? " " + PageText("over its pace", mark: "word doubtful") : .empty),
        .number(census.map { _ in week?.sent ?? 0 }), .bad(census.map { _ in week?.failed ?? 0 }),
        .age(server.lastRequestAt, at: sources.now()), .number(devices?.e2ee), .number(devices?.legacy),
        .number(realms), .optional(server.version))
    }
    return table
  }
}

extension Dashboard {
  private static let shownRealms = 200
  private static let shownRefusals = 20

  /// Devices of which a notification was refused, the latest first.
  private func refusals(_ devices: [FoundDevice]) -> PageTable {
    var table = PageTable(
      .text("Device"), .text("When"), .text("Why"), .text("Realm"), .text("App"),
      otherwise: "No registered device had one. The log names the registrations of old apps that have ended.")
    for device in devices {
      guard let failure = device.failure else { continue }
      table.add(
        PageText(device.name, link: "/admin/find?q=\(device.name)"), .age(failure.at, at: sources.now()),
        .code(failure.reason) + .sentence(" \(failure.meaning)"), .optional(device.realm?.host),
        .optional(device.app))
    }
    return table
  }

  private static func refusedRegistrations(_ refused: [HourlyCounts.RefusedRegistrations]) -> PageTable? {
    guard !refused.isEmpty else { return nil }
    var table = PageTable(
      .text("Why"), .number("Calls"), .text("Last in the hour from"), .text("What it means"))
    for refused in refused {
      table.add(
        .code(refused.refusal.rawValue), .number(refused.count), PageText(refused.latest.minute),
        .sentence(refused.refusal.meaning))
    }
    return table
  }

  /// What the features know of a chat server, and whether it is over its pace.
  private func facts(of server: Int64) async throws -> [ServerPage.Fact] {
    var facts: [ServerPage.Fact] = []
    if let overPace = try await sources.serversOverPace().first(where: { $0.id == server }) {
      let count = Phrase.count(overPace.waiting, "notification waits", "notifications wait")
      facts.append(
        .init(
          title: "Over its pace",
          text: PageText("\(count) (bouncer.notifications_per_server)", mark: "word doubtful")))
    }
    for read in sources.serverFacts {
      guard let fact = try await read(server) else { continue }
      let text = fact.sentences.reduce(PageText.empty) { text, sentence in
        text + .sentence(sentence.text, mark: sentence.isBad ? "word bad" : nil) + " "
      }
      facts.append(.init(title: fact.title, text: text))
    }
    return facts
  }

  private func realms(_ realms: [Realm], _ count: Int64, of server: Int64, _ census: Census?)
    -> ServerPage.Realms
  {
    var table = PageTable(
      .text("Realm"), .number("Encrypted"), .number("Legacy"), .text("Last seen"), .text("Name"),
      .text("UUID"), otherwise: "This server has not reported any realm yet.")
    for realm in realms.prefix(Self.shownRealms) {
      let devices = census.map {
        $0.devices[DeviceCounts.RealmKey(server: server, realm: realm.id)] ?? .init()
      }
      table.add(
        PageText(realm.host, link: "/admin/find?q=\(realm.uuid)") + .deactivated(realm.isDeactivated),
        .number(devices?.e2ee), .number(devices?.legacy), .age(realm.lastRequestAt, at: sources.now()),
        PageText(realm.name), .code(realm.uuid))
    }
    return .init(
      title: Phrase.count(Int(count), "realm"), table: table,
      shown: realms.count > Self.shownRealms ? Self.shownRealms : nil)
  }

  /// A chat server's page; nil if there is no such server.
  func serverPage(_ id: Int64) async throws -> (title: String, page: ServerPage)? {
    guard let (server, count) = try await sources.servers(id).first else { return nil }
    let now = sources.now()
    let realms = try await sources.realms(of: id, limit: Self.shownRealms + 1)
    let counts = HourlyCounts(database: sources.database, now: sources.now)
    let hours = try await counts.report(ofServer: id, hours: 7 * 24)
    let search = DeviceSearch(database: sources.database, storageKey: sources.storageKey)
    let census = await latestCensus()
    let devices = census.map { $0.byServer[id] ?? .init() }
    let sent = hours.map(\.sent).reduce(0, +)
    let failed = hours.map(\.failed).reduce(0, +)
    var chart = Chart(
      label: "\(Phrase.number(sent)) notifications in 7 days, \(Phrase.number(failed)) refused",
      left: hours.first?.start.day ?? "", right: "now",
      legend: [.init(style: "a", text: "taken"), .init(style: "b", text: "refused at once, by the hour")])
    chart.draw(
      hours.map { hour in
        (
          "\(hour.start.formatted(.iso8601)): \(Phrase.number(hour.sent)) handed in, \(Phrase.number(hour.failed)) refused",
          [("a", Double(hour.sent - min(hour.failed, hour.sent))), ("b", Double(hour.failed))]
        )
      })
    let page = ServerPage(
      name: PageText(server.hostname) + .deactivated(server.isDeactivated), uuid: server.uuid.canonical,
      version: .optional(server.version), lastSeen: .age(server.lastRequestAt, at: now),
      devices: .optional(
        devices.map { "\(Phrase.number($0.e2ee)) encrypted, \(Phrase.number($0.legacy)) legacy" }),
      facts: try await facts(of: id),
      figures: [Figure(.number(sent), "handed in"), Figure(.bad(failed), "refused at once")], chart: chart,
      refusals: refusals(
        try await search.failures(ofServer: id, since: now - 7 * 86_400, limit: Self.shownRefusals)),
      refusedRegistrations: Self.refusedRegistrations(
        try await counts.refusedRegistrations(ofServer: id, hours: 7 * 24)),
      realms: self.realms(realms, count, of: id, census))
    return (server.hostname, page)
  }
}

extension Dashboard {
  /// The results of a search for devices.
  func find(_ text: String) async throws -> FindPage {
    let query: DeviceQuery
    do { query = try DeviceQuery(text) } catch {
      let sentence =
        error == .empty
        ? "Type a hostname, a realm, a user's number, a token id or a device identifier." : error.description
      return FindPage(title: "Find a device", advice: sentence)
    }
    let search = DeviceSearch(database: sources.database, storageKey: sources.storageKey)
    let answer = try await search.find(query)
    let known = await latestRecent()?.value.servers ?? []
    let pages = Dictionary(known.map { ($0.server.uuid.canonical, $0.server.id) }) { first, _ in first }
    let count =
      answer.isCut
      ? "the first \(answer.devices.count) devices" : Phrase.count(answer.devices.count, "device")
    return FindPage(
      title: "\(text): \(count)", servers: answer.servers.map { .init(id: $0.id, hostname: $0.hostname) },
      advice: answer.advice, devices: answer.devices.map { device($0, pages) })
  }

  /// - Parameter pages: the row ids of the chat servers that have a page, by UUID.
  private func device(_ device: FoundDevice, _ pages: [String: Int64]) -> FindPage.Device {
    .init(
      style: device.state.style,
      state: device.state.words.capitalizedFirst,
      kind: Self.kind(device), name: device.name, advice: device.advice,
      facts: device.facts.map { name, fact in
        .init(title: name.capitalizedFirst, content: content(of: fact, pages))
      })
  }

  private func content(of fact: FoundDevice.Fact, _ pages: [String: Int64]) -> PageText {
    let now = sources.now()
    return switch fact {
    case .server(let place): PageText(place.host, link: pages[place.uuid].map { "/admin/servers/\($0)" })
    case .text(let text, let code):
      PageText(text.isEmpty || code.isEmpty ? text : "\(text) ") + (code.isEmpty ? .empty : .code(code))
    case .time(let time, _): .age(time, at: now)
    case .failure(let failure): .code(failure.reason) + ", " + .age(failure.at, at: now)
    case .waiting(0, _): "none"
    case .waiting(let count, let since):
      PageText("\(Phrase.count(count, "notification")), the oldest since ") + .age(since, at: now)
    }
  }

  private static func kind(_ device: FoundDevice) -> String {
    switch device.wire {
    case .e2ee: "an end-to-end encrypted registration"
    case .legacy: "a legacy registration"
    case .nextcloud: "a Nextcloud device"
    case .nextcloudWebPush: "a Nextcloud Web Push subscription"
    case .gateway: "a subscription to the Web Push gateway"
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
  var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}
