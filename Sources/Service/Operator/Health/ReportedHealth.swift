package import Delivery
package import HTTP

/// What `/readyz` of a running service says, read by another process: the counterpart of ``Health/json``.
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
