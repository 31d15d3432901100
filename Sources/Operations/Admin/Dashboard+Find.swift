internal import Foundation
internal import Registrations
internal import Sealing

extension Dashboard {
  /// What a search has found.
  func find(_ text: String) async throws -> HTML {
    let query: DeviceQuery
    do { query = try DeviceQuery(text) } catch {
      return "<section><h1>Find a device</h1><p>\(error.description)</p></section>"
    }
    let answer = try await DeviceSearch(database: sources.database, storageKey: sources.storageKey).find(
      query)
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
      \(answer.devices.map(device))
      """
  }

  private func device(_ device: FoundDevice) -> HTML {
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
      ("Server", device.server.map { "\($0.host)" }),
      ("Realm", device.realm.map { "\($0.host) <span class=\"code\">\($0.uuid)</span>" }),
      ("User", device.user.map { "\($0)" }),
      ("App", "\(device.app ?? "not told") (\(device.provider)\(device.target.map { " to \($0)" } ?? ""))"),
      ("Token id", device.tokenID.map { "<span class=\"code\">\($0.base64)</span>" }),
      ("Token in the log", device.fingerprint.map { "<span class=\"code\">\($0)</span>" }),
      ("Device identifier", device.identifier.map { "<span class=\"code\">\($0)</span>" }),
      ("Bouncer key", device.bouncerKey.map { "<span class=\"code\">\($0)</span>" }),
      ("Registered", Shown.age(device.registeredAt, at: now)),
      ("Ended", device.expiredAt.map { Shown.age($0, at: now) }),
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
      <h2><span class="word">\(device.state.rawValue)</span>: \(device.name)</h2>
      <p>\(device.advice)</p>
      <dl>\(list)</dl>
      </section>

      """
  }
}
