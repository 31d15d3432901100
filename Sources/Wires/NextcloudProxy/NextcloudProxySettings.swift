package import Basics
package import Foundation

/// Settings of the push proxy for Nextcloud servers.
package struct NextcloudProxySettings: Sendable {
  package init() {}

  @Setting("nextcloud.enabled", "false", .flag, "the Nextcloud adapter: push proxy and server side")
  package var isEnabled: Bool

  @Setting(
    "nextcloud.apps_file", .file("/etc/push-bouncer/apps.json"),
    "JSON file that lists your own builds and brands of the apps")
  package var appsFile: String?

  @Setting(
    "nextcloud.default_app", .text("Talk for iOS"),
    "name of the app that an unknown one is taken for; without it, unknown apps are refused")
  package var defaultApp: String?

  @Setting(
    "nextcloud.deadline", "3s", .duration, "how long a request to the push proxy waits for the providers")
  package var deadline: Duration

  @Setting(
    "nextcloud.rate_limit.per_address", "6000/60s", .rate,
    "calls to the push proxy, per client address; 0 switches the limit off")
  package var rateLimitPerAddress: RateLimit?

  @Setting(
    "nextcloud.new_devices_per_address", "1000/1h", .rate,
    "new devices at the push proxy, per client address; 0 switches the limit off")
  package var newDevicesPerAddress: RateLimit?

  @Setting(
    "nextcloud.max_devices", "1000000", .count(atLeast: 1, example: 1_000_000),
    "devices at the push proxy, which addresses share (an IPv6 /48 counts as one); more are refused")
  package var maxDevices: Int

  // A device's last use is written once a day, so a shorter period than two days would be inexact.
  @Setting(
    "retention.nextcloud_days", "400", .days(atLeast: 2, example: 400),
    "days after which the push proxy forgets a device that nobody renews or sends to (one never sent to: 30 at most); 2 at least"
  )
  package var deviceRetention: TimeInterval
}
