internal import Logging

/// One key of the configuration, with everything that is said about it anywhere.
struct Setting: Sendable {
  /// `http.port`
  let key: String
  /// The default, as it would be written in a file; empty if there is none.
  let standard: String
  /// What a value looks like.
  let shape: Shape
  /// For the person who writes the file: a sentence without its full stop.
  let help: String
  /// What of it nobody may see.
  let secrecy: Secrecy

  enum Secrecy {
    case none
    /// It is a URL that may have a password in it.
    case password
    case whole
  }

  init(_ key: String, _ standard: String, _ shape: Shape, _ help: String, secrecy: Secrecy = .none) {
    self.key = key
    self.standard = standard
    self.shape = shape
    self.help = help
    self.secrecy = secrecy
  }

  /// Every key, in the order of the sample file.
  static let all: [Setting] = [
    Setting("http.host", "127.0.0.1", .host("0.0.0.0"), "address of the public listener"),
    Setting("http.port", "8080", .port(443), "port of the public listener; 0 picks a free one and logs it"),
    Setting(
      "http.tls.certificate_file", "", .file("/etc/ssl/push.example.org.pem"),
      "certificate chain in PEM; with it and its key the listener speaks TLS. A renewed one is taken up"
    ),
    Setting(
      "http.tls.key_file", "", .file("/etc/ssl/private/push.example.org.pem"),
      "private key of http.tls.certificate_file, in PEM"),
    Setting(
      "http.trusted_proxies", "", .networks,
      "reverse proxies whose X-Forwarded-For is believed: addresses and ranges such as 10.0.0.0/8, comma-separated"
    ),
    Setting(
      "http.public_url", "", .url("https://push.example.org"),
      "address by which the outside reaches this service; default: http:// with host and port"),
    Setting(
      "http.max_connections", "", .count(atLeast: 1, example: 2000),
      "connections at a time; more are closed. Default: three quarters of the descriptor limit, at most 4096"),
    Setting(
      "http.max_connections_per_address", "256", .count(atLeast: 1, example: 256),
      "connections at a time from one address; an IPv6 /64 counts as one address"),
    Setting(
      "http.max_body_bytes", "1 MiB", .size,
      "largest body of a request; larger ones are refused with 413. server/analytics and /notifications: 16 MiB"
    ),
    Setting(
      "http.max_bytes_in_flight", "64 MiB", .size,
      "bytes of all bodies in memory, of one address a quarter of that; more are answered 503"),
    Setting(
      "http.rate_limit.per_address", "100/60s", .rate,
      "calls without credentials, per client address; 0 switches the limit off"),
    Setting("operator.email", "", .text("push@example.org"), "contact that error texts name"),
    Setting(
      "admin.host", "127.0.0.1", .host("10.0.0.5"),
      "address of the operator's listener; never a public one. Other than loopback needs admin.token"),
    Setting("admin.port", "8081", .port(9081), "port of the operator's listener"),
    Setting(
      "admin.token", "", .token,
      "where set, /metrics, /admin and the checks of /readyz want it as a bearer token", secrecy: .whole),
    Setting(
      "database.url", "sqlite:push-bouncer.sqlite", .database,
      "the database: sqlite: and a path, or postgres://user:password@host:port/name",
      secrecy: .password),
    Setting(
      "keys.directory", "Keys", .folder("/var/lib/push-bouncer/Keys"), "the folder of keys and credentials"),
    Setting(
      "bouncer.registration", "closed", .choice(Configuration.Bouncer.Registration.self, .open),
      "who may register as a chat server: closed (only servers that were let in) or open (everybody)"),
    Setting(
      "bouncer.allowed_hostnames", "", .hostnames,
      "hostnames that may register although registration is closed; *.example.org too; comma-separated"),
    Setting(
      "bouncer.verify_hostnames", "false", .flag,
      "whether a new server must prove that its hostname is its own (register_server --registration-transfer)"
    ),
    Setting(
      "bouncer.verify_ca_file", "", .file("/etc/push-bouncer/intranet-ca.pem"),
      "certificates, besides the system's, that are trusted when a server's hostname is verified"),
    Setting(
      "bouncer.verify_allow_private_addresses", "false", .flag,
      "whether a server whose hostname is verified may have a private address"),
    Setting(
      "bouncer.rate_limit.per_server", "1000/60s", .rate,
      "calls per chat server, not counting notifications and registrations of devices; 0 also lifts the limit on these"
    ),
    Setting(
      "bouncer.notifications_per_server", "60000/60s", .rate,
      "pace of one chat server's notifications; more are queued and sent at this pace; 0 switches it off"),
    Setting(
      "apns.endpoint", "", .url("https://127.0.0.1:2197"),
      "address in the place of Apple's, for the simulator: https://127.0.0.1:2197"),
    Setting(
      "fcm.endpoint", "https://fcm.googleapis.com", .url("https://127.0.0.1:2198"),
      "address of FCM: Google's, or the simulator's"),
    Setting(
      "fcm.default_project", "", .text("example-chat"),
      "Firebase project of a message that names none: its file in Keys/fcm, without .json"),
    Setting(
      "providers.ca_file", "", .file("Keys/ca.pem"),
      "certificates, besides the system's, that are trusted in all calls to the outside"),
    Setting(
      "providers.proxy", "", .url("http://user:password@proxy.example.org:3128"),
      "HTTP CONNECT proxy for outgoing calls: http://user:password@host:port",
      secrecy: .password),
    Setting(
      "webpush.enabled", "true", .flag, "Web Push, for phones without Google's services and for browsers"),
    Setting(
      "webpush.contact", "", .contact,
      "whom push services may write to; default: mailto: and operator.email, else http.public_url if it has https://"
    ),
    Setting(
      "webpush.allow_private_hosts", "", .hosts,
      "push services that may have private addresses, such as an own ntfy; no other may"),
    Setting("delivery.deadline", "3s", .duration, "how long a notify request waits for the providers"),
    Setting(
      "delivery.max_age", "24h", .duration,
      "how long an undelivered notification is tried again before it is given up"),
    Setting(
      "retention.expired_days", "30", .count(example: 30),
      "days after which expired registrations are removed"),
    Setting(
      "retention.nextcloud_days", "400", .count(atLeast: 2, example: 400),
      "days after which the push proxy forgets a device that nobody renews or sends to; 2 at least"),
    Setting(
      "retention.notifications_days", "90", .count(example: 90),
      "days for which Nextcloud's apps can fetch a notification"),
    Setting(
      "backend.token", "", .token,
      "bearer token of the backend API, 16 random characters at least; without one the API is off",
      secrecy: .whole
    ),
    Setting(
      "server.bouncer", "local", .bouncer,
      "bouncer of the built-in chat-server side: local (this program), another one's URL, or off"),
    Setting(
      "server.org_id", "", .text("6b6f9a52-3c1e-4f0e-9d8a-0c8f6f0b7a11"),
      "id of the built-in chat-server side at another bouncer"),
    Setting(
      "server.org_key", "", .text("what that bouncer has given"),
      "key of the built-in chat-server side at another bouncer",
      secrecy: .whole),
    Setting(
      "server.rate_limit.per_user", "200/60s", .rate,
      "calls per user of the built-in chat-server side; 0 switches the limit off"),
    Setting(
      "server.alert_removals", "false", .flag,
      "removals reach iPhones as alerts, for apps with Apple's filtering entitlement; others would show them"),
    Setting(
      "server.name", "push-bouncer", .text("Example Chat"),
      "name of the realm that account add makes, and of the built-in Nextcloud server"),
    Setting(
      "server.url", "http://localhost:8080", .url("https://chat.example.org"),
      "address of the realm that account add makes, and of the built-in Nextcloud server"),
    Setting("nextcloud.enabled", "false", .flag, "the Nextcloud adapter: push proxy and server side"),
    Setting(
      "nextcloud.url", "", .url("https://cloud.example.org"),
      "address of the built-in Nextcloud server, which apps sign in at; default: server.url"),
    Setting(
      "nextcloud.default_proxy", "", .url("https://push.example.org"),
      "push proxy of apps that name none; default: this service"),
    Setting(
      "nextcloud.allow_local_proxies", "false", .flag,
      "whether push proxies may have http:// or local addresses"),
    Setting(
      "nextcloud.proxies_ca_file", "", .file("/etc/push-bouncer/intranet-ca.pem"),
      "certificates, besides the system's, that are trusted at push proxies"),
    Setting(
      "nextcloud.padding", "OAEP", .choice(Configuration.Nextcloud.Padding.self, .PKCS1),
      "padding of encrypted notifications: OAEP, or PKCS1 for apps of Nextcloud 31 and older"),
    Setting(
      "nextcloud.webpush", "true", .flag,
      "whether apps of the built-in Nextcloud server may subscribe to Web Push; webpush.enabled false ends it, too"
    ),
    Setting(
      "nextcloud.webpush_browsers", "false", .flag,
      "whether those may, too, that have signed in with an API key and no app password, as browsers do"),
    Setting(
      "nextcloud.apps_file", "", .file("/etc/push-bouncer/apps.json"),
      "JSON file that lists your own builds and brands of the apps"),
    Setting(
      "nextcloud.default_app", "", .text("Talk for iOS"),
      "name of the app that an unknown one is taken for; without it, unknown apps are refused"
    ),
    Setting(
      "nextcloud.deadline", "3s", .duration, "how long a request to the push proxy waits for the providers"),
    Setting(
      "nextcloud.rate_limit.per_address", "6000/60s", .rate,
      "calls to the push proxy, per client address; 0 switches the limit off"),
    Setting(
      "nextcloud.new_devices_per_address", "1000/1h", .rate,
      "new devices at the push proxy, per client address; 0 switches the limit off"),
    Setting(
      "nextcloud.subscription_server", "https://push-notifications.nextcloud.com",
      .url("https://push-notifications.nextcloud.com"),
      "the push proxy that gets the subscription key"),
    Setting(
      "nextcloud.subscription_key", "", .text("what Nextcloud has given"),
      "X-Nextcloud-Subscription-Key for that proxy",
      secrecy: .whole),
    Setting(
      "log.level", "info", .choice(Logger.Level.self, .debug),
      "least level of what is logged: trace, debug, info, notice, warning, error or critical"),
    Setting(
      "log.format", "text", .choice(LogFormat.self, .json), "form of the log: text, or json for machines"),
  ]
}
