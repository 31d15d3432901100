package import Basics
package import Foundation
package import Sealing

/// Settings of the built-in Nextcloud server.
package struct NextcloudServerSettings: Sendable {
  package init() {}

  @Setting(
    "nextcloud.url", .address("https://cloud.example.org"),
    "address of the built-in Nextcloud server, which apps sign in at; default: server.url")
  package var url: String?

  @Setting(
    "nextcloud.default_proxy", .address("https://push.example.org"),
    "push proxy of apps that name none; default: this service")
  package var defaultProxy: String?

  @Setting(
    "nextcloud.allow_local_proxies", "false", .flag,
    "whether push proxies may have http:// or local addresses")
  package var allowsLocalProxies: Bool

  @Setting(
    "nextcloud.proxies_ca_file", .file("/etc/push-bouncer/intranet-ca.pem"),
    "certificates, besides the system's, that are trusted at push proxies")
  package var proxiesCAFile: String?

  @Setting(
    "nextcloud.padding", "OAEP", .choice([("OAEP", .oaep), ("PKCS1", .pkcs1)], "PKCS1"),
    "padding of encrypted notifications: OAEP, or PKCS1 for apps of Nextcloud 31 and older")
  package var padding: RSAPadding

  @Setting(
    "nextcloud.webpush", "true", .flag,
    "whether apps of the built-in Nextcloud server may subscribe to Web Push; webpush.enabled false ends it, too"
  )
  package var webPush: Bool

  @Setting(
    "nextcloud.webpush_browsers", "false", .flag,
    "whether those may, too, that have signed in with an API key and no app password, as browsers do")
  package var webPushBrowsers: Bool

  @Setting(
    "nextcloud.capabilities_file", .file("/etc/push-bouncer/capabilities.json"),
    "JSON file whose members are merged into the capabilities of the built-in Nextcloud server")
  package var capabilitiesFile: String?

  @Setting(
    "nextcloud.subscription_server", "https://push-notifications.nextcloud.com",
    .address("https://push-notifications.nextcloud.com"), "the push proxy that gets the subscription key")
  package var subscriptionServer: String

  @Setting(
    "nextcloud.subscription_key", .text("what Nextcloud has given"),
    "X-Nextcloud-Subscription-Key for that proxy", secrecy: .whole)
  package var subscriptionKey: String?

  @Setting(
    "retention.notifications_days", "90", .days(example: 90),
    "days for which Nextcloud's apps can fetch a notification")
  package var notificationRetention: TimeInterval
}
