package import Delivery
package import HTTP

/// What a running service tells a command of itself.
package struct ReportedState: Sendable {
  package let health: ReportedHealth
  /// The address of the public listener's socket if systemd holds it, such as `127.0.0.1:8080`.
  package let heldAddress: String?
  /// What it serves with, by key: as ``Configuration/effective``.
  let settings: [String: String]

  package init?(_ json: JSON) {
    guard let health = json["health"].flatMap(ReportedHealth.init) else { return nil }
    self.health = health
    heldAddress = json["held_address"]?.string
    guard case .object(let settings)? = json["settings"] else { return nil }
    self.settings = settings.members.reduce(into: [:]) { $0[$1.name.text] = $1.value.string }
  }

  static func json(_ health: Health, heldAddress: String?, settings: [(key: String, value: String)]) -> JSON {
    [
      "health": health.json, "held_address": .optional(heldAddress),
      "settings": .object(JSON.Object(settings.map { .init($0.key, .string($0.value)) })),
    ]
  }
}

/// The counterpart of ``Health/json``.
package struct ReportedHealth: Sendable {
  /// By name.
  package let checks: [String: StatusReport]
  /// How many push services fail.
  package let failingServices: Int
  /// The listed ones of them, by the name of their route.
  package let services: [String: StatusReport]

  package init?(_ json: JSON) {
    guard case .object(let checks)? = json["checks"] else { return nil }
    self.checks = checks.members.reduce(into: [:]) { $0[$1.name.text] = StatusReport($1.value) }
    let webPush = checks["webpush"]
    failingServices = Int(webPush?["failing"]?.integer ?? 0)
    services = (webPush?["failing_services"]?.elements ?? []).reduce(into: [:]) { services, service in
      if let route = service["route"]?.string { services[route] = StatusReport(service) }
    }
  }
}
