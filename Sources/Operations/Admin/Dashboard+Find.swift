internal import Foundation
internal import Registrations
internal import Sealing

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
