import Foundation
import HTTP
import NextcloudServer
import Providers
import Registrations
import Sealing
import TestSupport
import Testing
import ZulipBouncer
import ZulipServer

@testable import Basics
@testable import HTTPClient
@testable import Operator
@testable import Platform
@testable import SQL

@Suite struct ConfigurationTests {
  private func load(
    yaml: String? = nil, environment: [String: String] = [:], _ overrides: [String: String] = [:]
  ) throws -> (Configuration, warnings: [String]) {
    try withTemporaryFolder { folder in
      if let yaml { try Data(yaml.utf8).write(to: folder.appending(path: "push-bouncer.yaml")) }
      return try Configuration.load(
        file: nil, environment: environment, overrides: overrides, workingDirectory: folder.path)
    }
  }

  /// What is wrong with a configuration.
  private func fault(yaml: String? = nil, _ overrides: [String: String] = [:]) throws -> Fault {
    try #require(throws: Fault.self) { try load(yaml: yaml, overrides) }
  }

  @Test func `Later layers win`() throws {
    let yaml = "http: {host: 192.0.2.1, port: 1}\nadmin.port: 2\noperator.email: a@example.org\n"
    #expect(try load().0.http.port == 8080)
    #expect(try load(yaml: yaml).0.http.port == 1)
    let environment = ["PUSH_BOUNCER_HTTP_PORT": "3", "PUSH_BOUNCER_ADMIN_PORT": "4", "HTTP_PORT": "9"]
    let (configuration, warnings) = try load(
      yaml: yaml, environment: environment, ["http.port": "5"])
    #expect(configuration.http.port == 5)
    #expect(configuration.admin.port == 4)
    #expect(configuration.http.host == "192.0.2.1")
    #expect(configuration.operator.email == "a@example.org")
    #expect(configuration.admin.host == "127.0.0.1")
    #expect(warnings == [])
  }

  @Test func `The named file is read instead of the usual one`() throws {
    try withTemporaryFolder { folder in
      try Data("http.port: 1".utf8).write(to: folder.appending(path: "push-bouncer.yaml"))
      let other = folder.appending(path: "other.yaml")
      try Data("admin.port: 2".utf8).write(to: other)
      let (configuration, _) = try Configuration.load(
        file: other.path, environment: [:], overrides: [:], workingDirectory: folder.path)
      #expect(configuration.http.port == 8080)
      #expect(configuration.admin.port == 2)
    }
  }

  @Test func `The system's file is read where the working folder has none`() throws {
    try withTemporaryFolder { folder in
      let (here, system) = (folder.appending(path: "here"), folder.appending(path: "system"))
      for place in [here, system] {
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
      }
      func port() throws -> Int {
        try Configuration.load(
          file: nil, environment: [:], overrides: [:], workingDirectory: here.path, systemFolder: system.path
        ).0.http.port
      }
      #expect(try port() == 8080)
      try Data("http.port: 1".utf8).write(to: system.appending(path: "push-bouncer.yaml"))
      #expect(try port() == 1)
      try Data("http.port: 2".utf8).write(to: here.appending(path: "push-bouncer.yaml"))
      #expect(try port() == 2)
    }
  }

  @Test func `Who may not read the system's file goes on without, or is told to use sudo`() throws {
    try withTemporaryFolder { folder in
      let (here, system) = (folder.appending(path: "here"), folder.appending(path: "system"))
      for place in [here, system] {
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
      }
      let file = system.appending(path: "push-bouncer.yaml").path
      try Data("http.port: 1".utf8).write(to: URL(filePath: file))
      if geteuid() == 0 {
        try #require(chmod(folder.path, 0o755) == 0 && chown(here.path, 65534, 65534) == 0)
      }
      func port(isNeeded: Bool) throws -> Int {
        try Configuration.load(
          file: nil, isNeeded: isNeeded, environment: [:], overrides: [:], workingDirectory: here.path,
          systemFolder: system.path
        ).0.http.port
      }
      var usual: String { Configuration.usualFile(workingDirectory: here.path, systemFolder: system.path) }

      // Root acts as somebody else meanwhile.
      func asNobody(_ body: () throws -> Void) throws {
        let isRoot = geteuid() == 0
        if isRoot { try #require(seteuid(65534) == 0) }
        defer { if isRoot { #expect(seteuid(0) == 0) } }
        try body()
      }

      try #require(chmod(file, 0) == 0)
      try asNobody { () throws in
        #expect(try port(isNeeded: false) == 8080)
        let fault = try #require(throws: Fault.self) { try port(isNeeded: true) }
        #expect(fault.description.hasPrefix("\(file) cannot be used: Permission denied; run this with sudo"))
        #expect(usual == "push-bouncer.yaml")
      }
      try #require(chmod(file, 0o644) == 0)
      try asNobody { () throws in
        #expect(try port(isNeeded: false) == 1)
        #expect(usual == file)
      }
    }
  }

  @Test(arguments: ["http.prot: 1", "http: {prot: 1}", "http:\n  prot: 1"])
  func `An unknown key is named with its file`(_ yaml: String) throws {
    let error = try fault(yaml: yaml)
    #expect(error.key == "http.prot")
    #expect(error.source?.hasSuffix("/push-bouncer.yaml, line \(yaml.contains("\n") ? 2 : 1)") == true)
    #expect(error.description.contains("http.prot is no setting"))
  }

  @Test func `An unknown key on the command line is an error`() throws {
    let error = try fault(["http.prot": "1"])
    #expect(error.description.hasPrefix("the command line: http.prot is no setting; "))
  }

  @Test(arguments: [
    ("http.port", "many"), ("http.port", "65536"), ("http.port", "-1"), ("http.port", "[1, 2]"),
    ("http.max_body_bytes", "lots"), ("http.max_body_bytes", "0"), ("http.rate_limit.per_address", "5"),
    ("http.rate_limit.per_address", "\"\""), ("bouncer.registration", "ajar"),
    ("bouncer.verify_hostnames", "maybe"), ("bouncer.allowed_hostnames", "a.example, https://b.example"),
    ("bouncer.allowed_hostnames", "bücher.example"),
    ("apns.endpoint", "127.0.0.1:2197"), ("delivery.deadline", "soon"), ("retention.expired_days", "1.5"),
    ("database.url", "mysql://x"), ("log.level", "loud"), ("log.format", "xml"),
    ("nextcloud.padding", "none"), ("retention.nextcloud_days", "1"), ("nextcloud.deadline", "soon"),
    ("nextcloud.enabled", "2"), ("server.rate_limit.per_user", "x"), ("server.bouncer", "elsewhere"),
    ("server.bouncer", "\"\""), ("server.url", "chat.example"), ("server.url", "\"\""),
    ("server.name", "\"\""),
    ("http.trusted_proxies", "proxy.example.org"), ("http.trusted_proxies", "10.0.0.0/33"),
    ("http.trusted_proxies", "[10.0.0.1, '']"), ("nextcloud.new_devices_per_address", "1000"),
    ("http.host", "\"\""), ("keys.directory", "\"\""), ("webpush.enabled", "perhaps"),
    ("webpush.contact", "push@example.org"), ("webpush.contact", "mailto:push"),
    ("webpush.contact", "mailto:a b@example.org"), ("webpush.contact", "http://push.example.org"),
    ("webpush.contact", "https://"), ("webpush.allow_private_hosts", "ntfy.lan:8443"),
    ("webpush.allow_private_hosts", "https://ntfy.lan"), ("webpush.allow_private_hosts", "'*.lan'"),
    ("webpush.allow_private_hosts", "[ntfy.lan, '']"), ("webpush.allow_private_hosts", "10.0.0.0/8"),
  ])
  func `A value of the wrong type is named with its file`(_ key: String, _ value: String) throws {
    let error = try fault(yaml: "\(key): \(value)")
    #expect(error.key == key)
    #expect(error.source?.hasSuffix("/push-bouncer.yaml, line 1") == true)
  }

  @Test(arguments: [
    "http.public_url: VALUE", "log.level: VALUEä", "? http.VALUE\n: 1", "? http.VALUE\n: [[a]]",
    "? VALUE\n: {a: 1}",
  ])
  func `What is long is shown in part`(_ yaml: String) throws {
    for value in [String(repeating: "g", count: 4000), String(repeating: "ü", count: 2000)] {
      let error = try fault(yaml: yaml.replacing("VALUE", with: value))
      #expect(error.description.utf8.count < 1200)
      #expect(error.description.contains("KiB left out"))
      #expect(!error.description.unicodeScalars.contains("\u{FFFD}"))
      #expect(error.description.contains(yaml.hasPrefix("log") ? "ä\"" : value.prefix(50)))
    }
  }

  @Test func `A wrong value in the environment names the variable`() throws {
    let error = try #require(throws: Fault.self) {
      try load(environment: ["PUSH_BOUNCER_HTTP_PORT": "x"])
    }
    #expect(error.source == "PUSH_BOUNCER_HTTP_PORT")
    #expect(error.description.contains("http.port"))
  }

  @Test(arguments: [
    "http: 8080", "http: [a]", "[1, 2]", "just text", "http: {port: {a: 1}}", "http: {port: 1}\nhttp.port: 2",
    "http.port: 1\nhttp.port: 2", "http: [unclosed", "? [a]\n: 1", "http.trusted_proxies: [[a]]",
    "admin: &a {port: 1}\nhttp: *a\nhttp.host: {x: *a}",
  ])
  func `What is no configuration is refused`(_ yaml: String) throws {
    #expect(try fault(yaml: yaml).source?.contains("/push-bouncer.yaml") == true)
  }

  @Test(arguments: ["[1, 2]", "just text"])
  func `A file without keys is told what its lines look like`(_ yaml: String) throws {
    #expect(try fault(yaml: yaml).problem == "must have lines of the form key: value")
  }

  @Test(arguments: [
    "", "# nothing\n", "http:\n", "http:\n  # port: 1\n", "http: {port: }\n", "http.port: ~\n",
    "http: {tls: null}\n",
  ])
  func `What says nothing leaves the defaults`(_ yaml: String) throws {
    #expect(try load(yaml: yaml).0.http.port == 8080)
  }

  @Test(arguments: [
    "bouncer.allowed_hostnames: a.example, *.example.org",
    "bouncer:\n  allowed_hostnames:\n    - a.example\n    - \"*.example.org\"",
    "bouncer: {allowed_hostnames: [a.example, '*.example.org']}",
  ])
  func `Lists are written either way`(_ yaml: String) throws {
    #expect(
      try load(yaml: yaml).0.bouncer.allowedHostnames == [
        HostnamePattern("a.example"), HostnamePattern("*.example.org"),
      ])
  }

  @Test(arguments: [
    ("10.9.9.9", true), ("::ffff:10.9.9.9", true), ("192.0.2.1", true), ("192.0.2.2", false),
    ("2001:db8::1", true), ("2001:db9::1", false),
  ])
  func `Proxies are trusted by address and by range`(_ address: String, _ isTrusted: Bool) throws {
    let yaml = "http.trusted_proxies: [10.0.0.0/8, '2001:db8::/32', 192.0.2.1]"
    let networks = try load(yaml: yaml).0.http.trustedProxies
    let address = try #require(ClientAddress(address))
    #expect(networks.contains { $0.contains(address) } == isTrusted)
  }

  @Test(
    arguments: [
      ([:], nil), (["backend.token": "0123456789abcdef"], nil),
      (["backend.token": "0123456789abcde"], "backend.token"),
      (["backend.token": String(repeating: "secret", count: 1)], "backend.token"),
      (["backend.token": String(repeating: "ab", count: 20)], "backend.token"),
      (["admin.host": "0.0.0.0"], "admin.host"), (["admin.host": "::"], "admin.host"),
      (["admin.host": "192.0.2.1"], "admin.host"), (["admin.host": "admin.example.org"], "admin.host"),
      (["admin.host": "::1"], nil), (["admin.host": "127.0.0.2"], nil), (["admin.host": "localhost"], nil),
      (["admin.host": "::1", "admin.token": "hunter2"], nil),
      (["admin.host": "0.0.0.0", "admin.token": "hunter2"], "admin.token"),
      (["admin.host": "0.0.0.0", "admin.token": "0123456789abcdef"], nil),
    ] as [([String: String], String?)])
  func `What strangers could use is weak`(_ overrides: [String: String], _ key: String?) throws {
    let weaknesses = try load(overrides).0.weaknesses
    #expect(weaknesses.map(\.key) == (key.map { [$0] } ?? []))
    for value in overrides.values where value.utf8.count > 5 && key?.hasSuffix("token") == true {
      #expect(!weaknesses.contains { $0.description.contains(value) })
    }
  }

  @Test(
    arguments: [
      ([:], false), (["admin.token": "1"], true), (["admin.host": "::1", "admin.token": "hunter2"], true),
      (["admin.token": "0123456789abcdef"], false), (["admin.host": "0.0.0.0", "admin.token": "1"], false),
    ] as [([String: String], Bool)])
  func `A weak token on loopback is told of`(_ overrides: [String: String], _ isWeak: Bool) throws {
    #expect(try load(overrides).0.weakToken?.key == (isWeak ? "admin.token" : nil))
  }

  @Test(arguments: ["", "  ", "\t", "\n"]) func `A variable without anything in it is unset`(_ blank: String)
    throws
  {
    let environment = [
      "PUSH_BOUNCER_HTTP_PORT": blank, "PUSH_BOUNCER_HTTP_HOST": blank, "PUSH_BOUNCER_ADMIN_TOKEN": blank,
      "PUSH_BOUNCER_NONSENSE": blank,
    ]
    let (configuration, warnings) = try load(yaml: "http.port: 9000", environment: environment)
    #expect(configuration.http.port == 9000)
    #expect(configuration.http.host == "127.0.0.1")
    #expect(configuration.admin.token == nil)
    #expect(!configuration.changed.contains { $0.key == "admin.token" } && warnings == [])
  }

  @Test(arguments: [
    ("http.port", "8080\r", "U+000D"), ("http.port", "80\u{1b}80", "U+001B"),
    ("admin.token", "hunter2hunter2hunter2\n", "U+000A"), ("operator.email", "a@example.org\u{7f}", "U+007F"),
    ("http.trusted_proxies", "10.0.0.1,\t10.0.0.2", "U+0009"), ("log.level", "info\u{85}", "U+0085"),
  ])
  func `A control character is refused wherever it was written, by its number`(
    _ key: String, _ value: String, _ number: String
  ) throws {
    let variable = "PUSH_BOUNCER_\(key.uppercased().replacing(".", with: "_"))"
    let written = value.unicodeScalars.map {
      $0.properties.generalCategory == .control ? String(format: "\\u%04x", $0.value) : "\($0)"
    }.joined()
    let faults = [
      try #require(throws: Fault.self) { try load(environment: [variable: value]) },
      try fault(yaml: "\(key): \"\(written)\""), try fault([key: value]),
    ]
    #expect(faults[0].source == variable)
    for fault in faults {
      #expect(fault.key == key && fault.problem.contains(number), "\(fault)")
      #expect(!fault.description.contains("hunter2"))
      #expect(fault.description.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control })
    }
  }

  /// What a pod is given where a Service beside it has the name of a section.
  @Test(arguments: [
    ("ADMIN_PORT", "tcp://10.0.0.1:8081", "admin.port"), ("HTTP_PORT", "tcp://10.0.0.1:80", "http.port"),
    ("HTTP_HOST", "udp://[2001:db8::1]:80", "http.host"),
  ])
  func `A Service's link in the place of a value is an error that says how to have none`(
    _ name: String, _ value: String, _ key: String
  ) throws {
    let error = try #require(throws: Fault.self) { try load(environment: ["PUSH_BOUNCER_\(name)": value]) }
    #expect(error.source == "PUSH_BOUNCER_\(name)" && error.key == key)
    #expect(error.advice?.contains("enableServiceLinks: false") == true, "\(error)")
  }

  @Test func `Links to Services of one's own name are one warning that says how to have none`() throws {
    let links = [
      "SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "80", "SERVICE_PORT_PUBLIC": "80",
      "PORT": "tcp://10.0.0.1:80", "PORT_80_TCP": "tcp://10.0.0.1:80", "PORT_80_TCP_PROTO": "tcp",
      "PORT_80_TCP_PORT": "80", "PORT_80_TCP_ADDR": "10.0.0.1", "OPERATOR_SERVICE_HOST": "10.0.0.2",
    ]
    let environment = Dictionary(uniqueKeysWithValues: links.map { ("PUSH_BOUNCER_\($0)", $1) })
    let (_, warnings) = try load(environment: environment)
    #expect(warnings.count == 1, "\(warnings)")
    #expect(warnings.first?.contains("PUSH_BOUNCER_SERVICE_HOST") == true)
    #expect(warnings.first?.contains("enableServiceLinks: false") == true)
  }

  @Test func `An unknown variable is a warning only`() throws {
    let (_, warnings) = try load(environment: ["PUSH_BOUNCER_HTTP_PROT": "secret-1"])
    #expect(warnings.count == 1)
    #expect(warnings[0].contains("PUSH_BOUNCER_HTTP_PROT"))
    #expect(!warnings[0].contains("secret-1"))
  }

  @Test(arguments: [
    ("admin.token", "hunter2"), ("backend.token", "hunter2"), ("server.org_key", "hunter2"),
    ("nextcloud.subscription_key", "hunter2"), ("providers.proxy", "http://me:hunter2@proxy.example:3128"),
    ("providers.proxy", "http://me:hunter2%40x@proxy.example:3128/"),
  ])
  func `What is logged holds no secret`(_ key: String, _ value: String) throws {
    let (configuration, _) = try load([key: value])
    let shown = try #require(configuration.effective.first { $0.key == key }?.value)
    #expect(!shown.contains("hunter2"))
    #expect(shown.contains("redacted"))
    if key == "providers.proxy" { #expect(shown.contains("proxy.example:3128")) }
  }

  @Test(arguments: [
    "postgres://user:hunter2@db.example/bouncer", "postgres://db.example/bouncer?user=me&password=hunter2",
    "postgres://user:hunter2 x@db.example/bouncer", "postgres://user:hunter2%@db.example/bouncer",
    "postgres://user:hunter2#1@db.example/bouncer", "postgres://user:a/hunter2@db.example/bouncer",
    "mysql://user:hunter2@db.example/bouncer",
  ])
  func `The database's password is shown nowhere`(_ url: String) throws {
    do {
      let (configuration, _) = try load(["database.url": url])
      let shown = try #require(configuration.effective.first { $0.key == "database.url" }?.value)
      #expect(!shown.contains("hunter2"))
    } catch let error as Fault {
      #expect(error.key == "database.url")
      #expect(!error.description.contains("hunter2"))
    }
  }

  @Test(arguments: ["socks5://me:hunter2@proxy.example", "me:hunter2@proxy.example:3128"])
  func `A wrong proxy is refused without showing its password`(_ proxy: String) throws {
    let error = try fault(["providers.proxy": proxy])
    #expect(error.key == "providers.proxy")
    #expect(!error.description.contains("hunter2"))
  }

  @Test(arguments: [
    ("https://me:hunter2@push.example.org", "has a user or a password, which would not be used"),
    ("https://me@push.example.org", "has a user or a password, which would not be used"),
    ("https://me:hunter2 x@push.example.org", "has a user or a password, which would not be used"),
    ("https://push.example.org/?key=hunter2", "has a part after ? or #"),
    ("https://push.example.org?", "has a part after ? or #"),
    ("https://push.example.org/#top", "has a part after ? or #"),
  ])
  func `An address with more than an address is refused, and not shown`(_ url: String, _ text: String) throws
  {
    for key in [
      "http.public_url", "upstream.url", "apns.endpoint", "fcm.endpoint", "server.url", "server.bouncer",
      "nextcloud.url", "nextcloud.default_proxy", "nextcloud.subscription_server",
    ] {
      let error = try fault([key: url])
      #expect(error.key == key)
      #expect(error.problem.hasPrefix(text), "\(error)")
      #expect(!error.description.contains("hunter2"))
    }
  }

  @Test(arguments: ["http.host: [a, b]", "http.port: [1]", "admin.token: [a]"])
  func `A list where there is one value is refused`(_ yaml: String) throws {
    let error = try fault(yaml: yaml)
    #expect(error.problem == "must be one value, not a list")
  }

  @Test func `Every key is logged once`() throws {
    let keys = try load().0.effective.map(\.key)
    #expect(keys == Configuration.settings.map(\.key))
    #expect(Set(keys).count == keys.count)
  }

  @Test func `Rates are calls per time`() throws {
    let (configuration, _) = try load(
      ["http.rate_limit.per_address": "0", "bouncer.rate_limit.per_server": "5/1m"])
    #expect(configuration.http.rateLimitPerAddress == nil)
    #expect(configuration.bouncer.rateLimitPerServer?.calls == 5)
    #expect(configuration.bouncer.rateLimitPerServer?.seconds == 60)
    #expect(configuration.bouncer.notificationsPerServer == RateLimit(calls: 60_000, seconds: 60))
  }

  @Test(arguments: ["", "5", "5/", "/5s", "0/5s", "5/0s", "5/5s/5s", "-1/5s"])
  func `A rate that is not calls per time is none`(_ text: String) {
    #expect(RateLimit.rate(text) == nil)
  }

  @Test(arguments: ["http.tls.certificate_file", "http.tls.key_file"])
  func `Half of a certificate is none`(_ key: String) {
    #expect(throws: Fault.self) { try load([key: "a.pem"]) }
  }

  @Test func `Values are of their types`() throws {
    let yaml = """
      http.tls: {certificate_file: a.pem, key_file: b.pem}
      http.public_url: https://push.example.org/
      nextcloud.padding: PKCS1
      server:
        name: Chat
        url: https://chat.example.org/
        bouncer: https://push.example.org
        org_id: i
        org_key: k
        rate_limit.per_user: 0
      """
    let configuration = try load(yaml: yaml).0
    #expect(configuration.http.tls?.keyFile == "b.pem")
    #expect(configuration.http.publicURL == "https://push.example.org")
    #expect(configuration.nextcloudServer.padding == .pkcs1)
    #expect(configuration.server.url == "https://chat.example.org")
    #expect(
      configuration.zulipServer.bouncer == .remote(try #require(URL(string: "https://push.example.org"))))
    #expect(configuration.server.rateLimitPerUser == nil)
    #expect(configuration.server.url == "https://chat.example.org")
    #expect(configuration.server.setURL == "https://chat.example.org")
    #expect(configuration.registrations.expiredRetention == 30 * 86_400)
    let standard = try load().0
    #expect(standard.http.tls == nil && standard.backend.token == nil && standard.http.trustedProxies.isEmpty)
    #expect(standard.server.url == "http://localhost:8080" && standard.server.setURL == nil)
  }

  @Test(arguments: ["server.org_id", "server.org_key"])
  func `Another bouncer wants to know who calls`(_ missing: String) throws {
    var overrides = [
      "server.bouncer": "https://push.example.org", "server.org_id": "i", "server.org_key": "k",
    ]
    overrides[missing] = nil
    #expect(try fault(overrides).key == missing)
    overrides["server.bouncer"] = "local"
    #expect(try load(overrides).0.zulipServer.bouncer == .local)
  }

  @Test func `The sample holds every key and loads to the defaults`() throws {
    let sample = Configuration.sampleYAML()
    let uncommented = sample.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      line.hasPrefix("#") && !line.hasPrefix("# ") ? String(line.dropFirst()) : String(line)
    }.joined(separator: "\n")
    for key in Configuration.settings.map(\.key) { #expect(uncommented.contains("\n\(key): "), "\(key)") }
    let standard = try load().0
    for yaml in [sample, uncommented] {
      let effective = try load(yaml: yaml).0.effective
      #expect(effective.map { "\($0)=\($1)" } == standard.effective.map { "\($0)=\($1)" })
    }
  }

  @Test(
    arguments: [
      (["webpush.contact": "mailto:push@example.org"], "mailto:push@example.org"),
      (["webpush.contact": "https://example.org/push"], "https://example.org/push"),
      (
        ["webpush.contact": "https://example.org/push", "operator.email": "a@example.org"],
        "https://example.org/push"
      ),
      (
        ["operator.email": "a@example.org", "http.public_url": "https://b.example.org"],
        "mailto:a@example.org"
      ), (["http.public_url": "https://push.example.org:8443"], "https://push.example.org:8443"),
      (
        ["operator.email": "Jane <a@example.org>", "http.public_url": "https://b.example.org"],
        "https://b.example.org"
      ),
      ([:], nil), (["operator.email": "the operator"], nil),
      (["http.public_url": "http://127.0.0.1:8080"], nil),
      (["http.public_url": "https://127.0.0.1:8080"], nil), (["http.public_url": "https://localhost"], nil),
      (["http.public_url": "https://[::1]:8080"], nil), (["http.public_url": "http://push.example.org"], nil),
    ] as [([String: String], String?)])
  func `The contact is the first that push services take`(
    _ settings: [String: String], _ contact: String?
  ) throws {
    #expect(try load(settings).0.webPushContact == contact)
  }

  @Test func `Private hosts have one spelling`() throws {
    let text = "NTFY.lan., b\u{fc}cher.example, ntfy, 10.0.0.7, [FD00::0:1], fd00::2, ntfy.example.org:443"
    let webPush = try load(["webpush.allow_private_hosts": text]).0.webPush
    #expect(
      webPush.privateHosts == [
        "ntfy.lan", "xn--bcher-kva.example", "ntfy", "10.0.0.7", "fd00::1", "fd00::2", "ntfy.example.org",
      ])
  }

  @Test(
    arguments: [
      ("http:\n  port: [80\nlog:\n  level: info\n", 3, "did not find expected ',' or ']'"),
      ("http:\n\tport: 80\n", 2, "found character that cannot start any token"),
      ("http.port: 1\nhttp.port: 2\n", 2, "http.port is there twice, first in line 1"),
      ("hunter2: *x\n", 1, "found undefined alias"), ("admin.token: \"hunter2\n  x: 1", 2, "unexpected end"),
    ])
  func `A file that is no YAML is refused with its line and without showing it`(
    _ yaml: String, _ line: Int, _ problem: String
  ) throws {
    let error = try fault(yaml: yaml)
    #expect(error.source?.hasSuffix("/push-bouncer.yaml, line \(line)") == true, "\(error)")
    #expect(error.description.contains(problem), "\(error)")
    #expect(error.advice != nil && !error.description.contains("hunter2"))
  }

  @Test func `Examples are values`() throws {
    for setting in Configuration.settings where !setting.example.contains("`") {
      let more = [
        "server.org_id": "i", "server.org_key": "k", "http.tls.certificate_file": "a.pem",
        "http.tls.key_file": "b.pem",
      ]
      _ = try load(more.merging([setting.key: setting.example]) { $1 })
    }
  }
}
