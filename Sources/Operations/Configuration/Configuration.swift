package import Foundation
package import HTTP
package import Logging
package import Registrations
package import SQL
package import Sealing

/// The configuration. Each ``Setting`` is declared once, here: its key, default, values and help. The
/// declarations are in the order of the sample file and of `Documentation/Configuration.md`, which are
/// generated from them. A class, because the parts that keep it would copy some sixty values with each call.
package final class Configuration: Sendable {
  /// The public listener.
  package struct HTTP: Sendable {
    @Setting("http.host", "127.0.0.1", .host("0.0.0.0"), "address of the public listener")
    package var host: String

    @Setting(
      "http.port", "8080", .port(443), "port of the public listener; 0 picks a free one and logs it")
    package var port: Int

    @Setting(
      "http.tls.certificate_file", .file("/etc/ssl/push.example.org.pem"),
      "certificate chain in PEM; with it and its key the listener speaks TLS. A renewed one is reloaded")
    var certificateFile: String?

    @Setting(
      "http.tls.key_file", .file("/etc/ssl/private/push.example.org.pem"),
      "private key of http.tls.certificate_file, in PEM")
    var keyFile: String?

    @Setting(
      "http.trusted_proxies", "", .networks,
      "reverse proxies whose X-Forwarded-For is believed: addresses and ranges such as 10.0.0.0/8, comma-separated"
    )
    package var trustedProxies: [ClientAddress.Network]

    @Setting(
      "http.public_url", .address("https://push.example.org"),
      "address by which the outside reaches this service; default: http:// with host and port")
    package var publicURL: String?

    @Setting(
      "http.max_connections", .count(atLeast: 1, example: 2000),
      "connections at a time; more are closed. Default: three quarters of the descriptor limit, at most 4096")
    package var maxConnections: Int?

    @Setting(
      "http.max_connections_per_address", "256", .count(atLeast: 1, example: 256),
      "connections at a time from one address; an IPv6 /64 counts as one address")
    package var maxConnectionsPerAddress: Int

    @Setting(
      "http.max_body_bytes", "1 MiB", .size,
      "largest body of a request; larger ones are refused with 413. server/analytics and /notifications: 16 MiB"
    )
    package var maxBodyBytes: Int

    @Setting(
      "http.max_bytes_in_flight", "64 MiB", .size,
      "bytes of all bodies in memory, of one address a quarter; as much again for chat servers' notifications under way, and for the push proxy's"
    )
    package var maxBytesInFlight: Int

    @Setting(
      "http.rate_limit.per_address", "100/60s", .rate,
      "calls without credentials, per client address; 0 switches the limit off")
    package var rateLimitPerAddress: RateLimit?

    /// The largest allowed request body, which is that of `server/analytics` and of the push proxy's
    /// `/notifications`.
    package var largestBodyBytes: Int { max(maxBodyBytes, 16 << 20) }

    /// The certificate and key files; nil if the listener does not speak TLS.
    package var tls: TLS? {
      guard let certificateFile, let keyFile else { return nil }
      return TLS(certificateFile: certificateFile, keyFile: keyFile)
    }
  }

  /// PEM files: a certificate chain, and the private key of its first certificate.
  package struct TLS: Sendable {
    let certificateFile: String
    package let keyFile: String
  }

  package struct Operator: Sendable {
    @Setting("operator.email", .text("push@example.org"), "contact that error texts name")
    package var email: String?
  }

  /// The operator's listener.
  package struct Admin: Sendable {
    @Setting(
      "admin.host", "127.0.0.1", .host("10.0.0.5"),
      "address of the operator's listener; never a public one. Other than loopback needs admin.token")
    package var host: String

    @Setting("admin.port", "8081", .port(9081), "port of the operator's listener")
    package var port: Int

    @Setting(
      "admin.token", .token,
      "where set, /metrics, /admin and the checks of /readyz want it as a bearer token", secrecy: .whole)
    package var token: String?
  }

  package struct Database: Sendable {
    @Setting(
      "database.url", "sqlite:push-bouncer.sqlite", .database,
      "the database: sqlite: and a path, or postgres://user:password@host:port/name", secrecy: .password)
    package var url: DatabaseURL
  }

  package struct Keys: Sendable {
    @Setting(
      "keys.directory", "Keys", .folder("/var/lib/push-bouncer/Keys"), "the folder of keys and credentials")
    package var directory: String
  }

  /// Access to the bouncer and its rate limits.
  package struct Bouncer: Sendable {
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
  }

  /// Another bouncer, for chat servers with a second app.
  package struct Upstream: Sendable {
    @Setting(
      "upstream.url", .bouncerAddress,
      "bouncer of the store's app, for servers that also serve that app (push-bouncer server upstream enable)"
    )
    package var url: URL?

    /// Where it is: the host, with the port if the address has one.
    package var authority: String? {
      url.flatMap { url in
        url.host(percentEncoded: false).map { "\($0)\(url.port.map { ":\($0)" } ?? "")" }
      }
    }
  }

  package struct APNs: Sendable {
    @Setting(
      "apns.endpoint", .url("https://127.0.0.1:2197"),
      "address in the place of Apple's, for the simulator: https://127.0.0.1:2197")
    package var endpoint: URL?
  }

  package struct FCM: Sendable {
    @Setting(
      "fcm.endpoint", "https://fcm.googleapis.com", .url("https://127.0.0.1:2198"),
      "address of FCM: Google's, or the simulator's")
    package var endpoint: URL?

    @Setting(
      "fcm.default_project", .text("example-chat"),
      "Firebase project of a message that names none: its file in Keys/fcm, without .json")
    package var defaultProject: String?
  }

  /// Settings for all push providers.
  package struct Providers: Sendable {
    @Setting(
      "providers.ca_file", .file("Keys/ca.pem"),
      "certificates, besides the system's, that are trusted in all calls to the outside")
    package var caFile: String?

    @Setting(
      "providers.proxy", .proxy,
      "HTTP CONNECT proxy for outgoing calls: http://user:password@host:port", secrecy: .password)
    package var proxy: URL?
  }

  package struct WebPush: Sendable {
    @Setting(
      "webpush.enabled", "true", .flag, "Web Push, for phones without Google's services and for browsers")
    package var isEnabled: Bool

    @Setting(
      "webpush.contact", .contact,
      "whom push services may write to; default: mailto: and operator.email, else http.public_url if it has https://"
    )
    var contact: String?

    @Setting(
      "webpush.allow_private_hosts", "", .hosts,
      "push services that may have private addresses, such as an own ntfy; no other may")
    package var privateHosts: [String]
  }

  package struct Delivery: Sendable {
    @Setting("delivery.deadline", "3s", .duration, "how long a notify request waits for the providers")
    package var deadline: Duration

    @Setting(
      "delivery.max_age", "24h", .duration,
      "how long an undelivered notification is tried again before it is given up")
    package var maxAge: Duration
  }

  /// How long data is kept. The settings are in days, the values in seconds.
  package struct Retention: Sendable {
    @Setting(
      "retention.expired_days", "30", .days(example: 30),
      "days after which expired registrations are removed")
    package var expired: TimeInterval

    // A device's last use is written once a day, so a shorter period than two days would be inexact.
    @Setting(
      "retention.nextcloud_days", "400", .days(atLeast: 2, example: 400),
      "days after which the push proxy forgets a device that nobody renews or sends to; 2 at least")
    package var nextcloud: TimeInterval

    @Setting(
      "retention.notifications_days", "90", .days(example: 90),
      "days for which Nextcloud's apps can fetch a notification")
    package var notifications: TimeInterval

    @Setting(
      "retention.reports_days", "365", .days(example: 365),
      "days for which the figures and events are kept that chat servers report")
    package var reports: TimeInterval
  }

  /// The API for host applications.
  package struct Backend: Sendable {
    @Setting(
      "backend.token", .token,
      "bearer token of the backend API, 16 random characters at least; without one the API is off",
      secrecy: .whole)
    package var token: String?
  }

  /// The built-in chat-server side.
  package struct Server: Sendable {
    /// The bouncer at which the built-in chat server registers devices.
    package enum Bouncer: Sendable, Hashable {
      /// The bouncer of this process.
      case local
      /// No bouncer, and therefore no push notifications.
      case off
      /// Another bouncer at this address; `orgID` and `orgKey` authenticate this server there.
      case remote(URL)
    }

    @Setting(
      "server.bouncer", "local", .bouncer,
      "bouncer of the built-in chat-server side: local (this program), another one's URL, or off")
    package var bouncer: Bouncer

    @Setting(
      "server.org_id", .text("6b6f9a52-3c1e-4f0e-9d8a-0c8f6f0b7a11"),
      "id of the built-in chat-server side at another bouncer")
    package var orgID: String?

    @Setting(
      "server.org_key", .text("what that bouncer has given"),
      "key of the built-in chat-server side at another bouncer", secrecy: .whole)
    package var orgKey: String?

    @Setting(
      "server.rate_limit.per_user", "200/60s", .rate,
      "calls per user of the built-in chat-server side; 0 switches the limit off")
    package var rateLimitPerUser: RateLimit?

    @Setting(
      "server.alert_removals", "false", .flag,
      "removals reach iPhones as alerts, for apps with Apple's filtering entitlement; others would show them")
    package var alertsOnRemoval: Bool

    @Setting(
      "server.name", "push-bouncer", .text("Example Chat"),
      "name of the realm that account add makes, and of the built-in Nextcloud server")
    package var name: String

    @Setting(
      "server.url", "http://localhost:8080", .address("https://chat.example.org"),
      "address of the realm that account add makes, and of the built-in Nextcloud server")
    package var url: String
  }

  package struct Nextcloud: Sendable {
    @Setting("nextcloud.enabled", "false", .flag, "the Nextcloud adapter: push proxy and server side")
    package var isEnabled: Bool

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
      "nextcloud.apps_file", .file("/etc/push-bouncer/apps.json"),
      "JSON file that lists your own builds and brands of the apps")
    package var appsFile: String?

    @Setting(
      "nextcloud.capabilities_file", .file("/etc/push-bouncer/capabilities.json"),
      "JSON file whose members are merged into the capabilities of the built-in Nextcloud server")
    package var capabilitiesFile: String?

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
      "nextcloud.subscription_server", "https://push-notifications.nextcloud.com",
      .address("https://push-notifications.nextcloud.com"), "the push proxy that gets the subscription key")
    package var subscriptionServer: String

    @Setting(
      "nextcloud.subscription_key", .text("what Nextcloud has given"),
      "X-Nextcloud-Subscription-Key for that proxy", secrecy: .whole)
    package var subscriptionKey: String?
  }

  package struct Log: Sendable {
    @Setting(
      "log.level", "info", .choice(Logger.Level.allCases.map { ($0.rawValue, $0) }, "debug"),
      "least level of what is logged: trace, debug, info, notice, warning, error or critical")
    package var level: Logger.Level

    @Setting(
      "log.format", "text", .choice(LogFormat.allCases.map { ($0.rawValue, $0) }, "json"),
      "form of the log: text, or json for machines")
    package var format: LogFormat
  }

  package let http = HTTP()
  package let `operator` = Operator()
  package let admin = Admin()
  package let database = Database()
  package let keys = Keys()
  package let bouncer = Bouncer()
  package let upstream = Upstream()
  package let apns = APNs()
  package let fcm = FCM()
  package let providers = Providers()
  package let webPush = WebPush()
  package let delivery = Delivery()
  package let retention = Retention()
  package let backend = Backend()
  package let server = Server()
  package let nextcloud = Nextcloud()
  package let log = Log()

  /// The values as written in the file, the environment or the command line, by key.
  let written: [String: WrittenValue]
  /// The file that was read; nil if there was none.
  package let file: String?

  init(written: [String: WrittenValue], file: String?) { (self.written, self.file) = (written, file) }

  /// The declarations of all settings, in order.
  package static let settings: [SettingDeclaration] = {
    let reader = SettingsReader([:])
    _ = SettingsReader.$current.withValue(reader) { Configuration(written: [:], file: nil) }
    return reader.declarations
  }()
}
