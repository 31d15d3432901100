internal import Foundation

/// One key of the configuration: all that there is to say about it stands here.
struct Setting: Sendable {
  /// `http.port`
  let key: String
  /// As it would stand in a file; empty if there is no value.
  let standard: String
  /// For the person who writes the file.
  let help: String
  /// Whether it is a list: in a file also written as one, elsewhere with commas.
  let isList: Bool
  /// What of it nobody may see.
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
      // What cannot be taken apart is shown only if it has no place for a password.
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
    Setting("http.port", "8080", "its port; 0 picks a free one and logs it"),
    Setting(
      "http.tls.certificate_file", "",
      "PEM certificate chain: with it and its key TLS is spoken; taken up when renewed"),
    Setting("http.tls.key_file", "", "PEM key of that certificate"),
    Setting(
      "http.trusted_proxies", "",
      "addresses and ranges, like 10.0.0.0/8, whose X-Forwarded-For is believed, comma-separated",
      isList: true
    ),
    Setting("http.public_url", "", "what the outside calls this service; default: http:// host and port"),
    Setting(
      "http.max_connections", "",
      "connections at a time, more are closed; default: three quarters of the descriptor limit, at most 4096"),
    Setting(
      "http.max_connections_per_address", "256", "of them from one address; an IPv6 /64 is one"),
    Setting("http.max_body_bytes", "1 MiB", "larger bodies are refused with 413; server/analytics: 16 MiB"),
    Setting(
      "http.max_bytes_in_flight", "64 MiB",
      "bodies read or held at a time, a quarter from one address; more are answered 503"),
    Setting(
      "http.rate_limit.per_address", "100/60s", "calls without credentials, per client address; 0 is off"),
    Setting("operator.email", "", "where texts name a contact"),
    Setting(
      "admin.host", "127.0.0.1",
      "address of the operator's listener; never a public one, and other than loopback only with admin.token"),
    Setting("admin.port", "8081", "its port"),
    Setting("admin.token", "", "where set, /metrics wants it as a bearer token", secrecy: .whole),
    Setting(
      "database.url", "sqlite:push-bouncer.sqlite",
      "sqlite: and a path, or postgres://user:password@host:port/name",
      secrecy: .password),
    Setting("keys.directory", "Keys", "the folder of keys and credentials"),
    Setting(
      "bouncer.registration", "closed",
      "who may register as a chat server: closed (only those let in) or open"),
    Setting(
      "bouncer.allowed_hostnames", "", "hostnames that may register all the same, *.example.org too",
      isList: true),
    Setting(
      "bouncer.verify_hostnames", "false",
      "whether a new server must show that its hostname is its own (register_server --registration-transfer)"),
    Setting("bouncer.verify_email_domain", "false", "whether a contact's mail domain is looked up"),
    Setting("bouncer.verify_ca_file", "", "trust root for calls to a server that has lost its key"),
    Setting(
      "bouncer.verify_allow_private_addresses", "false", "whether such a server may be in a private network"),
    Setting(
      "bouncer.rate_limit.per_server", "1000/60s",
      "calls per chat server, notifications and registrations of devices not counted; 0 lifts the limit on these, too"
    ),
    Setting(
      "bouncer.notifications_per_server", "60000/60s",
      "notifications of a chat server sent at once; more are queued and sent at that pace; 0 is off"),
    Setting("apns.endpoint", "", "instead of Apple's, for a simulator: https://127.0.0.1:2197"),
    Setting("fcm.endpoint", "https://fcm.googleapis.com", "Google's, or a simulator's"),
    Setting(
      "fcm.default_project", "", "file name, without .json, of the Firebase project for whoever names none"),
    Setting("providers.ca_file", "", "trust root for both besides the system's"),
    Setting(
      "providers.proxy", "", "HTTP CONNECT proxy for outgoing calls: http://user:password@host:port",
      secrecy: .password),
    Setting("delivery.deadline", "3s", "how long a notify request waits for the providers"),
    Setting("delivery.max_age", "24h", "after this an undelivered notification is given up"),
    Setting("retention.expired_days", "30", "days after which expired registrations are removed"),
    Setting(
      "retention.nextcloud_days", "400",
      "days after which the push proxy forgets a device that nobody renews or sends to; 2 at least"),
    Setting(
      "retention.notifications_days", "90", "days for which Nextcloud's apps can fetch a notification"),
    Setting(
      "backend.token", "",
      "switches on the backend API and is its bearer token, of 16 random characters at least", secrecy: .whole
    ),
    Setting(
      "server.bouncer", "local",
      "the built-in chat-server side registers with: local, a bouncer's URL, or off"),
    Setting("server.org_id", "", "its id at that bouncer"),
    Setting("server.org_key", "", "its key there", secrecy: .whole),
    Setting("server.rate_limit.per_user", "200/60s", "calls per user; 0 is off"),
    Setting("server.name", "push-bouncer", "what notifications call the realm"),
    Setting("server.url", "http://localhost:8080", "its address in notifications"),
    Setting("nextcloud.enabled", "false", "the Nextcloud adapter: push proxy and server side"),
    Setting("nextcloud.url", "", "the instance's address in cloud ids; default: server.url"),
    Setting("nextcloud.default_proxy", "", "push proxy of clients that name none; default: this service"),
    Setting("nextcloud.allow_local_proxies", "false", "whether push proxies may be http:// or local"),
    Setting("nextcloud.proxies_ca_file", "", "trust root for push proxies besides the system's"),
    Setting("nextcloud.padding", "OAEP", "or PKCS1, for apps of Nextcloud 31 and older"),
    Setting("nextcloud.apps_file", "", "JSON file with own builds and brands"),
    Setting(
      "nextcloud.default_app", "",
      "name of the app that any other is taken for; without one, others are refused"
    ),
    Setting("nextcloud.deadline", "3s", "how long the push proxy lets a server wait for the providers"),
    Setting(
      "nextcloud.rate_limit.per_address", "6000/60s", "calls of the push proxy, per client address; 0 is off"),
    Setting(
      "nextcloud.new_devices_per_address", "1000/1h",
      "devices that the push proxy did not know before, per client address; 0 is off"),
    Setting(
      "nextcloud.subscription_server", "https://push-notifications.nextcloud.com",
      "the push proxy that gets the subscription key"),
    Setting("nextcloud.subscription_key", "", "X-Nextcloud-Subscription-Key for that proxy", secrecy: .whole),
    Setting("log.level", "info", "trace, debug, info, notice, warning, error or critical"),
    Setting("log.format", "text", "text, or json for machines"),
  ]
}
