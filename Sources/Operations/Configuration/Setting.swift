internal import Foundation

/// One key of the configuration, with everything that is said about it anywhere.
struct Setting: Sendable {
  /// `http.port`
  let key: String
  /// The default, as it would be written in a file; empty if there is none.
  let standard: String
  /// What it sets, for the operator.
  let help: String
  /// Whether it is a list: a YAML list or values with commas.
  let isList: Bool
  /// Which part of its value is secret.
  let secrecy: Secrecy

  enum Secrecy {
    case none
    /// It is a URL that may have a password in it.
    case password
    case whole
  }

  init(_ key: String, _ standard: String, _ help: String, isList: Bool = false, secrecy: Secrecy = .none) {
    self.key = key
    self.standard = standard
    self.help = help
    self.isList = isList
    self.secrecy = secrecy
  }

  /// `PUSH_BOUNCER_HTTP_PORT`
  var variable: String {
    Self.prefix + key.uppercased().replacing(".", with: "_")
  }

  static let prefix = "PUSH_BOUNCER_"

  /// The setting with this key.
  static func named(_ key: String) -> Setting? { all.first { $0.key == key } }

  /// A value as the log may show it.
  func shown(_ value: String) -> String {
    switch secrecy {
    case .none: return value
    case .whole: return value.isEmpty ? "" : Self.redacted
    case .password:
      // A value that cannot be parsed is shown only if it has no place for a password.
      guard var url = URLComponents(string: value, encodingInvalidCharacters: false) else {
        return value.contains("@") || value.contains("?") ? Self.redacted : value
      }
      url.password = url.password.map { _ in "redacted" }
      url.queryItems = url.queryItems?.map { item in
        item.name.lowercased().contains("password") ? URLQueryItem(name: item.name, value: "redacted") : item
      }
      return url.string ?? Self.redacted
    }
  }

  private static let redacted = "(redacted)"

  /// Every key, in the order of the sample file.
  static let all: [Setting] = [
    Setting("http.host", "127.0.0.1", "address of the public listener"),
    Setting("http.port", "8080", "port of the public listener; 0 picks a free one and logs it"),
    Setting(
      "http.tls.certificate_file", "",
      "certificate chain in PEM; with it and its key the listener speaks TLS. A renewed one is taken up"
    ),
    Setting("http.tls.key_file", "", "private key of http.tls.certificate_file, in PEM"),
    Setting(
      "http.trusted_proxies", "",
      "reverse proxies whose X-Forwarded-For is believed: addresses and ranges such as 10.0.0.0/8, comma-separated",
      isList: true
    ),
    Setting(
      "http.public_url", "",
      "address by which the outside reaches this service; default: http:// with host and port"),
    Setting(
      "http.max_connections", "",
      "connections at a time; more are closed. Default: three quarters of the descriptor limit, at most 4096"),
    Setting(
      "http.max_connections_per_address", "256",
      "connections at a time from one address; an IPv6 /64 counts as one address"),
    Setting(
      "http.max_body_bytes", "1 MiB",
      "largest body of a request; larger ones are refused with 413. server/analytics and /notifications: 16 MiB"
    ),
    Setting(
      "http.max_bytes_in_flight", "64 MiB",
      "bytes of all bodies in memory, of one address a quarter of that; more are answered 503"),
    Setting(
      "http.rate_limit.per_address", "100/60s",
      "calls without credentials, per client address; 0 switches the limit off"),
    Setting("operator.email", "", "contact that error texts name"),
    Setting(
      "admin.host", "127.0.0.1",
      "address of the operator's listener; never a public one. Other than loopback needs admin.token"),
    Setting("admin.port", "8081", "port of the operator's listener"),
    Setting("admin.token", "", "where set, /metrics wants it as a bearer token", secrecy: .whole),
    Setting(
      "database.url", "sqlite:push-bouncer.sqlite",
      "the database: sqlite: and a path, or postgres://user:password@host:port/name",
      secrecy: .password),
    Setting("keys.directory", "Keys", "the folder of keys and credentials"),
    Setting(
      "bouncer.registration", "closed",
      "who may register as a chat server: closed (only servers that were let in) or open (everybody)"),
    Setting(
      "bouncer.allowed_hostnames", "",
      "hostnames that may register although registration is closed; *.example.org too; comma-separated",
      isList: true),
    Setting(
      "bouncer.verify_hostnames", "false",
      "whether a new server must prove that its hostname is its own (register_server --registration-transfer)"
    ),
    Setting(
      "bouncer.verify_email_domain", "false",
      "whether the mail domain of a server's contact address is looked up"),
    Setting(
      "bouncer.verify_ca_file", "",
      "certificates, besides the system's, that are trusted when a server's hostname is verified"),
    Setting(
      "bouncer.verify_allow_private_addresses", "false",
      "whether a server whose hostname is verified may have a private address"),
    Setting(
      "bouncer.rate_limit.per_server", "1000/60s",
      "calls per chat server, not counting notifications and registrations of devices; 0 also lifts the limit on these"
    ),
    Setting(
      "bouncer.notifications_per_server", "60000/60s",
      "pace of one chat server's notifications; more are queued and sent at this pace; 0 switches it off"),
    Setting(
      "apns.endpoint", "", "address in the place of Apple's, for the simulator: https://127.0.0.1:2197"),
    Setting("fcm.endpoint", "https://fcm.googleapis.com", "address of FCM: Google's, or the simulator's"),
    Setting(
      "fcm.default_project", "",
      "Firebase project of a message that names none: its file in Keys/fcm, without .json"),
    Setting(
      "providers.ca_file", "",
      "certificates, besides the system's, that are trusted in all calls to the outside"),
    Setting(
      "providers.proxy", "", "HTTP CONNECT proxy for outgoing calls: http://user:password@host:port",
      secrecy: .password),
    Setting("delivery.deadline", "3s", "how long a notify request waits for the providers"),
    Setting(
      "delivery.max_age", "24h", "how long an undelivered notification is tried again before it is given up"),
    Setting("retention.expired_days", "30", "days after which expired registrations are removed"),
    Setting(
      "retention.nextcloud_days", "400",
      "days after which the push proxy forgets a device that nobody renews or sends to; 2 at least"),
    Setting(
      "retention.notifications_days", "90", "days for which Nextcloud's apps can fetch a notification"),
    Setting(
      "backend.token", "",
      "bearer token of the backend API, 16 random characters at least; without one the API is off",
      secrecy: .whole
    ),
    Setting(
      "server.bouncer", "local",
      "bouncer of the built-in chat-server side: local (this program), another one's URL, or off"),
    Setting("server.org_id", "", "id of the built-in chat-server side at another bouncer"),
    Setting("server.org_key", "", "key of the built-in chat-server side at another bouncer", secrecy: .whole),
    Setting(
      "server.rate_limit.per_user", "200/60s",
      "calls per user of the built-in chat-server side; 0 switches the limit off"),
    Setting(
      "server.name", "push-bouncer",
      "name of the realm that account add makes, and of the built-in Nextcloud server"),
    Setting(
      "server.url", "http://localhost:8080",
      "address of the realm that account add makes, and of the built-in Nextcloud server"),
    Setting("nextcloud.enabled", "false", "the Nextcloud adapter: push proxy and server side"),
    Setting(
      "nextcloud.url", "",
      "address of the built-in Nextcloud server, which apps sign in at; default: server.url"),
    Setting("nextcloud.default_proxy", "", "push proxy of apps that name none; default: this service"),
    Setting(
      "nextcloud.allow_local_proxies", "false", "whether push proxies may have http:// or local addresses"),
    Setting(
      "nextcloud.proxies_ca_file", "", "certificates, besides the system's, that are trusted at push proxies"),
    Setting(
      "nextcloud.padding", "OAEP",
      "padding of encrypted notifications: OAEP, or PKCS1 for apps of Nextcloud 31 and older"),
    Setting("nextcloud.apps_file", "", "JSON file that lists your own builds and brands of the apps"),
    Setting(
      "nextcloud.default_app", "",
      "name of the app that an unknown one is taken for; without it, unknown apps are refused"
    ),
    Setting("nextcloud.deadline", "3s", "how long a request to the push proxy waits for the providers"),
    Setting(
      "nextcloud.rate_limit.per_address", "6000/60s",
      "calls to the push proxy, per client address; 0 switches the limit off"),
    Setting(
      "nextcloud.new_devices_per_address", "1000/1h",
      "new devices at the push proxy, per client address; 0 switches the limit off"),
    Setting(
      "nextcloud.subscription_server", "https://push-notifications.nextcloud.com",
      "the push proxy that gets the subscription key"),
    Setting("nextcloud.subscription_key", "", "X-Nextcloud-Subscription-Key for that proxy", secrecy: .whole),
    Setting(
      "log.level", "info",
      "least level of what is logged: trace, debug, info, notice, warning, error or critical"),
    Setting("log.format", "text", "form of the log: text, or json for machines"),
  ]
}
