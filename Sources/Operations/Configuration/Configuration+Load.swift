internal import Foundation
internal import HTTP
internal import Logging
internal import Registrations
internal import SQL

extension Configuration {
  /// Reads the configuration; later wins: defaults, file, environment, command line.
  ///
  /// - Parameters:
  ///   - file: the file that was named; without one, `push-bouncer.yaml` of the working folder, else of the system.
  ///   - environment: of it, the variables that begin with `PUSH_BOUNCER_`.
  ///   - overrides: values from the command line, by key.
  /// - Returns: the configuration, and what deserves a warning.
  /// - Throws: ``Fault``, which names the key and where it stands.
  package static func load(
    file: String?, environment: [String: String], overrides: [String: String], workingDirectory: String,
    systemFolder: String = Configuration.systemFolder
  ) throws(Fault) -> (Configuration, warnings: [String]) {
    let source = try ConfigurationSource(
      file: file, environment: environment, overrides: overrides, workingDirectory: workingDirectory,
      systemFolder: systemFolder)
    return (try Configuration(ConfigurationReader(source: source)), source.warnings)
  }

  /// Where a package puts the file.
  package static let systemFolder = "/etc/push-bouncer"

  /// The file that is read, and that `init` writes, if none is named.
  package static func usualFile(workingDirectory: String) -> String {
    ConfigurationSource.usualFile(workingDirectory: workingDirectory, systemFolder: systemFolder)
      ?? ConfigurationSource.file
  }

  private init(_ reader: ConfigurationReader) throws(Fault) {
    http = HTTP(
      host: try reader.text("http.host"), port: try reader.port("http.port"), tls: try Self.tls(reader),
      trustedProxies: try reader.networks("http.trusted_proxies"),
      publicURL: try Self.address("http.public_url", reader),
      maxConnections: try reader.optionalCount("http.max_connections"),
      maxConnectionsPerAddress: try reader.count("http.max_connections_per_address", atLeast: 1),
      maxBodyBytes: try reader.size("http.max_body_bytes"),
      maxBytesInFlight: try reader.size("http.max_bytes_in_flight"),
      rateLimitPerAddress: try reader.rate("http.rate_limit.per_address"))
    operatorEmail = reader.optionalText("operator.email")
    admin = Admin(
      host: try reader.text("admin.host"), port: try reader.port("admin.port"),
      token: reader.optionalText("admin.token"))
    database = Database(url: try Self.databaseURL(reader))
    keys = Keys(directory: try reader.text("keys.directory"))
    bouncer = Bouncer(
      registration: try reader.choice("bouncer.registration", Bouncer.Registration.self),
      allowedHostnames: try Self.hostnames("bouncer.allowed_hostnames", reader),
      verifyHostnames: try reader.flag("bouncer.verify_hostnames"),
      verifyCAFile: reader.optionalText("bouncer.verify_ca_file"),
      verifyAllowPrivateAddresses: try reader.flag("bouncer.verify_allow_private_addresses"),
      rateLimitPerServer: try reader.rate("bouncer.rate_limit.per_server"),
      notificationsPerServer: try reader.rate("bouncer.notifications_per_server"))
    apns = APNs(endpoint: try reader.url("apns.endpoint"))
    fcm = FCM(
      endpoint: try reader.url("fcm.endpoint"), defaultProject: reader.optionalText("fcm.default_project"))
    providers = Providers(
      caFile: reader.optionalText("providers.ca_file"), proxy: try reader.url("providers.proxy"))
    webPush = try Self.webPush(reader)
    delivery = RegisteredPush(
      deadline: try reader.duration("delivery.deadline"), maxAge: try reader.duration("delivery.max_age"))
    // The last use of a device is written once a day, so less than two days cannot be told apart.
    retention = Retention(
      expiredDays: try reader.count("retention.expired_days"),
      nextcloudDays: try reader.count("retention.nextcloud_days", atLeast: 2),
      notificationsDays: try reader.count("retention.notifications_days"))
    backendToken = reader.optionalText("backend.token")
    server = try Self.server(reader)
    nextcloud = try Self.nextcloud(reader, server)
    log = Log(
      level: try reader.choice("log.level", Logger.Level.self),
      format: try reader.choice("log.format", LogFormat.self))
    effective = Setting.all.map { setting in
      (setting.key, setting.shown(reader.optionalText(setting.key) ?? ""))
    }
    changed = Setting.all.compactMap { setting in
      let value = reader.optionalText(setting.key) ?? ""
      return value == setting.standard ? nil : (setting.key, setting.shown(value))
    }
    file = reader.source.file
  }

  private static func tls(_ reader: ConfigurationReader) throws(Fault) -> TLS? {
    let files = ["http.tls.certificate_file", "http.tls.key_file"].map(reader.optionalText)
    switch (files[0], files[1]) {
    case (nil, nil): return nil
    case (let certificate?, let key?): return TLS(certificateFile: certificate, keyFile: key)
    case (nil, _):
      throw reader.fault("http.tls.certificate_file", "must be set when http.tls.key_file is")
    case (_, nil):
      throw reader.fault("http.tls.key_file", "must be set when http.tls.certificate_file is")
    }
  }

  private static func server(_ reader: ConfigurationReader) throws(Fault) -> Server {
    let server = Server(
      name: try reader.text("server.name"), url: try Self.requiredAddress("server.url", reader),
      bouncer: try reader.bouncer("server.bouncer"), orgID: reader.optionalText("server.org_id"),
      orgKey: reader.optionalText("server.org_key"),
      rateLimitPerUser: try reader.rate("server.rate_limit.per_user"),
      alertsOnRemoval: try reader.flag("server.alert_removals"))
    guard case .remote = server.bouncer else { return server }
    for (key, value) in [("server.org_id", server.orgID), ("server.org_key", server.orgKey)]
    where value == nil {
      throw reader.fault(key, "must be set when server.bouncer is another bouncer")
    }
    return server
  }

  private static func requiredAddress(_ key: String, _ reader: ConfigurationReader) throws(Fault)
    -> String
  {
    guard let address = try address(key, reader) else {
      throw reader.fault(key, "wants a URL")
    }
    return address
  }

  private static func address(_ key: String, _ reader: ConfigurationReader) throws(Fault)
    -> String?
  {
    guard let url = try reader.url(key)?.absoluteString else { return nil }
    return url.hasSuffix("/") ? String(url.dropLast()) : url
  }

  private static func hostnames(_ key: String, _ reader: ConfigurationReader) throws(Fault)
    -> [HostnamePattern]
  {
    var patterns: [HostnamePattern] = []
    for text in reader.list(key) {
      guard let pattern = try? HostnamePattern(text) else {
        throw reader.fault(key, "wants \(Setting.Shape.hostnames.wants)")
      }
      patterns.append(pattern)
    }
    return patterns
  }

  private static func databaseURL(_ reader: ConfigurationReader) throws(Fault) -> DatabaseURL {
    let text = try reader.text("database.url")
    do {
      return try DatabaseURL(text)
    } catch {
      throw reader.fault("database.url", error.message)
    }
  }

  private static func nextcloud(_ reader: ConfigurationReader, _ server: Server) throws(Fault)
    -> Nextcloud
  {
    let url = try address("nextcloud.url", reader)
    return Nextcloud(
      isEnabled: try reader.flag("nextcloud.enabled"),
      url: url ?? server.url, address: url ?? (reader.isSet("server.url") ? server.url : nil),
      defaultProxy: try address("nextcloud.default_proxy", reader),
      allowsLocalProxies: try reader.flag("nextcloud.allow_local_proxies"),
      proxiesCAFile: reader.optionalText("nextcloud.proxies_ca_file"),
      padding: try reader.choice("nextcloud.padding", Nextcloud.Padding.self),
      webPush: try reader.flag("nextcloud.webpush"),
      webPushBrowsers: try reader.flag("nextcloud.webpush_browsers"),
      appsFile: reader.optionalText("nextcloud.apps_file"),
      defaultApp: reader.optionalText("nextcloud.default_app"),
      deadline: try reader.duration("nextcloud.deadline"),
      rateLimitPerAddress: try reader.rate("nextcloud.rate_limit.per_address"),
      newDevicesPerAddress: try reader.rate("nextcloud.new_devices_per_address"),
      subscriptionServer: try requiredAddress("nextcloud.subscription_server", reader),
      subscriptionKey: reader.optionalText("nextcloud.subscription_key"))
  }

  /// The file that `init` writes: every key, commented out, with its default and its meaning.
  package static func sampleYAML() -> String {
    var text = """
      # push-bouncer: what is commented out has the value that stands there. Each key can also be set in the
      # environment (http.port is PUSH_BOUNCER_HTTP_PORT) or on the command line (--http.port).

      """
    var section: Substring = ""
    for setting in Setting.all {
      if setting.section != section {
        text += "\n"
        section = setting.section
      }
      text += "# \(setting.help)\n#\(setting.key): \(setting.standard)\n"
    }
    return text
  }
}

extension Configuration {
  /// A value that would let strangers do what only the operator may.
  package struct Weakness: Sendable, Hashable {
    /// The key.
    package let key: String
    /// What is wrong with its value.
    package let problem: String
    /// What would mend it.
    package let advice: String
  }

  /// What `serve` refuses to start with.
  package var weaknesses: [Weakness] {
    var found: [Weakness] = []
    if let backendToken, Self.isWeak(backendToken) { found.append(Self.weak("backend.token")) }
    if !Self.isLoopback(admin.host) {
      if let token = admin.token {
        if Self.isWeak(token) { found.append(Self.weak("admin.token")) }
      } else {
        found.append(
          Weakness(
            key: "admin.host", problem: "is not a loopback address, and there is no admin.token",
            advice: "set admin.token, or let admin.host be 127.0.0.1"))
      }
    }
    return found
  }

  private static func weak(_ key: String) -> Weakness {
    Weakness(
      key: key, problem: "is too easily guessed: it wants 16 characters at least, random ones",
      advice: "make one: openssl rand -hex 32")
  }

  private static func isWeak(_ token: String) -> Bool { token.utf8.count < 16 || Set(token.utf8).count < 6 }

  private static func isLoopback(_ host: String) -> Bool {
    if host == "localhost" { return true }
    let loopback = ["127.0.0.0/8", "::1"].compactMap(ClientAddress.Network.init)
    return ClientAddress(host).map { address in loopback.contains { $0.contains(address) } } ?? false
  }
}
