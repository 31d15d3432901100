package import Basics
package import Foundation
import HTTPClient
import Registrations

/// Settings of access to the bouncer, of its rate limits, and of how long it keeps chat servers' reports.
package struct BouncerSettings: Sendable {
  package init() {}

  @Setting(
    "bouncer.registration", "closed", .choice([("closed", false), ("open", true)], "open"),
    "who may register as a chat server: closed (only servers that were let in) or open (everybody)")
  package var isOpen: Bool

  @Setting(
    "bouncer.allowed_hostnames", "", .hostnames,
    "hostnames that may register although registration is closed; *.example.org too; comma-separated")
  package var allowedHostnames: [HostnamePattern]

  @Setting(
    "bouncer.verify_hostnames", "false", .flag,
    "whether a new server must prove that its hostname is its own (register_server --registration-transfer)"
  )
  package var verifyHostnames: Bool

  @Setting(
    "bouncer.verify_ca_file", .file("/etc/push-bouncer/intranet-ca.pem"),
    "certificates, besides the system's, that are trusted when a server's hostname is verified")
  package var verifyCAFile: String?

  @Setting(
    "bouncer.verify_allow_private_addresses", "false", .flag,
    "whether a server whose hostname is verified may have a private address")
  package var verifyAllowPrivateAddresses: Bool

  @Setting(
    "bouncer.rate_limit.per_server", "1000/60s", .rate,
    "calls per chat server, not counting notifications and registrations of devices; 0 also lifts the limit on these"
  )
  package var rateLimitPerServer: RateLimit?

  @Setting(
    "bouncer.notifications_per_server", "60000/60s", .rate,
    "pace of one chat server's notifications; more are queued and sent at this pace; 0 switches it off")
  package var notificationsPerServer: RateLimit?

  @Setting(
    "bouncer.max_registrations_per_server", "1000000", .count(atLeast: 1, example: 1_000_000),
    "registrations of devices that one chat server may have here; more are refused")
  package var maxRegistrationsPerServer: Int

  @Setting(
    "retention.reports_days", "365", .days(example: 365),
    "days for which the figures and events are kept that chat servers report")
  package var reportRetention: TimeInterval
}

extension SettingShape<[HostnamePattern]> {
  package static var hostnames: SettingShape {
    .list(
      "hostnames like chat.example.org, *.example.org or chat.example.org:8443, in ASCII",
      example: "chat.example.org, *.example.net"
    ) { try? HostnamePattern($0) }
  }
}
