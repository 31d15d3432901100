import Foundation
import Logging
import SQL
import Testing
import Wire

@testable import Operations

@Suite struct ConfigurationTests {
  private let folder: Folder

  init() throws {
    folder = try Folder()
  }

  private func load(
    _ yaml: String? = nil, environment: [String: String] = [:], overrides: [String: String] = [:]
  ) throws -> (Configuration, warnings: [String]) {
    let file = try yaml.map { try folder.write($0, to: "test.yaml") }
    return try Configuration.load(
      file: file, environment: environment, overrides: overrides, workingDirectory: folder.path)
  }

  private func fault(
    _ yaml: String? = nil, environment: [String: String] = [:], overrides: [String: String] = [:]
  ) -> String? {
    do {
      _ = try load(yaml, environment: environment, overrides: overrides)
      return nil
    } catch {
      return "\(error)".replacing(folder.path + "/", with: "")
    }
  }

  @Test func `Defaults are those of the operator's contract`() throws {
    let (configuration, warnings) = try load()
    #expect(warnings.isEmpty)
    #expect(configuration.http.host == "127.0.0.1")
    #expect(configuration.http.port == 8080)
    #expect(configuration.http.maxBodyBytes == 1_048_576)
    #expect(configuration.http.rateLimitPerAddress == .init(calls: 100, seconds: 60))
    #expect(configuration.http.tls == nil)
    #expect(configuration.admin.port == 8081)
    #expect(configuration.admin.token == nil)
    #expect(configuration.database.url == DatabaseURL(sqlitePath: "push-bouncer.sqlite"))
    #expect(configuration.keys.directory == "Keys")
    #expect(configuration.bouncer.registration == .closed)
    #expect(configuration.bouncer.rateLimitPerServer == .init(calls: 1000, seconds: 60))
    #expect(configuration.apns.endpoint == nil)
    #expect(configuration.fcm.endpoint?.absoluteString == "https://fcm.googleapis.com")
    #expect(configuration.delivery.deadline == .seconds(10))
    #expect(configuration.delivery.maxAge == .seconds(24 * 3600))
    #expect(configuration.retention.expiredDays == 30)
    #expect(configuration.log.level == .info)
    #expect(configuration.log.format == .text)
  }

  @Test func `Later wins: file, environment, command line`() throws {
    let yaml = "http.port: 1\nadmin.port: 1\nretention.expired_days: 1"
    let environment = ["PUSH_BOUNCER_ADMIN_PORT": "2", "PUSH_BOUNCER_RETENTION_EXPIRED_DAYS": "2"]
    let (configuration, _) = try load(
      yaml, environment: environment, overrides: ["retention.expired_days": "3"])
    #expect(configuration.http.port == 1)
    #expect(configuration.admin.port == 2)
    #expect(configuration.retention.expiredDays == 3)
  }

  @Test func `A file may be nested, dotted or both, with lists either way`() throws {
    let yaml = """
      http:
        port: 9000
        rate_limit.per_address: 5/1s
        trusted_proxies: [10.0.0.1, 10.0.0.2]
        tls:
      bouncer:
        allowed_hostnames: "a.example.org, *.b.example.org"
        rate_limit: {per_server: 0}
      delivery.deadline: 500ms
      log:
      """
    let (configuration, _) = try load(yaml)
    #expect(configuration.http.port == 9000)
    #expect(configuration.http.rateLimitPerAddress == .init(calls: 5, seconds: 1))
    #expect(configuration.http.trustedProxies == ["10.0.0.1", "10.0.0.2"])
    #expect(configuration.bouncer.allowedHostnames == ["a.example.org", "*.b.example.org"])
    #expect(configuration.bouncer.rateLimitPerServer == nil)
    #expect(configuration.delivery.deadline == .milliseconds(500))
  }

  @Test func `Every key can be set in the environment and has a meaning`() throws {
    #expect(Set(Configuration.keys).count == Configuration.keys.count)
    for setting in Setting.all {
      #expect(!setting.help.isEmpty)
      let (_, warnings) = try load(environment: [setting.variable: setting.standard])
      #expect(warnings.isEmpty)
    }
    #expect(
      Setting.named("bouncer.rate_limit.per_server")?.variable == "PUSH_BOUNCER_BOUNCER_RATE_LIMIT_PER_SERVER"
    )
  }

  @Test func `push-bouncer.yaml in the working folder counts if no file is named`() throws {
    try folder.write("http.port: 7", to: "push-bouncer.yaml")
    #expect(try load().0.http.port == 7)
    #expect(try load("admin.port: 1").0.http.port == 8080)
  }

  @Test func `An unknown variable with the prefix is a warning`() throws {
    let (_, warnings) = try load(environment: ["PUSH_BOUNCER_HTTP_PROT": "1", "HTTP_PORT": "2"])
    #expect(warnings.count == 1)
    #expect(warnings.first?.contains("PUSH_BOUNCER_HTTP_PROT") == true)
  }

  @Test(arguments: [
    ("htpp:\n  port: 1", "test.yaml: htpp.port is no key of the configuration"),
    ("http:\n  prot: 1", "test.yaml: http.prot is no key of the configuration"),
    ("http: 5", "test.yaml: http is a section, not a value"),
    ("http.port: [1]", "test.yaml: http.port wants one value, not a list"),
    ("http.host: [a, b]", "test.yaml: http.host wants one value, not a list"),
    ("http.port: many", #"test.yaml: http.port wants a port, 0 to 65535, not "many""#),
    ("http.port: 65536", #"test.yaml: http.port wants a port, 0 to 65535, not "65536""#),
    ("http.max_body_bytes: 0", "test.yaml: http.max_body_bytes wants a size"),
    ("http.rate_limit.per_address: 5", "test.yaml: http.rate_limit.per_address wants a rate"),
    ("delivery.deadline: soon", "test.yaml: delivery.deadline wants a duration"),
    ("nextcloud.enabled: maybe", "test.yaml: nextcloud.enabled wants true or false"),
    ("nextcloud.padding: NONE", "test.yaml: nextcloud.padding wants one of OAEP, PKCS1"),
    ("bouncer.registration: half", "test.yaml: bouncer.registration wants one of closed, open"),
    ("log.level: loud", "test.yaml: log.level wants one of"),
    ("server.bouncer: elsewhere", "test.yaml: server.bouncer wants a URL"),
    ("database.url: mysql://x", "test.yaml: database.url a database URL is"),
    ("retention.expired_days: -1", "test.yaml: retention.expired_days wants a whole number"),
    ("http.tls.key_file: x", "the configuration: http.tls.certificate_file must be set"),
    ("http.port: 1\nhttp:\n  port: 2", "test.yaml: http.port is there twice"),
    ("nonsense", "test.yaml: wants lines of the form key: value"),
    ("[1]", "test.yaml: wants lines of the form key: value"),
    ("http: {port: 1", "test.yaml: is no YAML in line"),
  ])
  func `What is wrong in a file is named with file and key`(_ yaml: String, _ message: String) {
    #expect(fault(yaml)?.hasPrefix(message) == true, "\(fault(yaml) ?? "no fault")")
  }

  @Test func `What is wrong elsewhere is named too`() throws {
    #expect(
      fault(environment: ["PUSH_BOUNCER_HTTP_PORT": "x"])?.hasPrefix(
        "PUSH_BOUNCER_HTTP_PORT: http.port wants") == true)
    #expect(fault(overrides: ["http.port": "x"])?.hasPrefix("the command line: http.port wants") == true)
    #expect(fault(overrides: ["http.prot": "1"])?.hasPrefix("the command line: http.prot is no key") == true)
    #expect(
      throws: ConfigurationError.self,
      performing: {
        try Configuration.load(
          file: "/nowhere/x.yaml", environment: [:], overrides: [:], workingDirectory: "/")
      })
  }

  @Test func `No error shows a secret`() throws {
    let secret = "s3cret"
    let faults = [
      fault("providers.proxy: socks://user:\(secret)@proxy"), fault("providers.proxy: \(secret)@"),
      fault("database.url: mysql://user:\(secret)@host/name"),
      fault("database.url: \"postgres://user:\(secret) @host/name\""),
      fault("admin.token: \"\(secret)\n  x: 1"), fault("admin.token: {\(secret)"),
    ]
    for fault in faults { #expect(fault?.contains(secret) == false, "\(fault ?? "no fault")") }
  }

  @Test func `The effective configuration shows every key and no secret`() throws {
    let secret = "s3cret"
    let (configuration, _) = try load(overrides: [
      "admin.token": secret, "backend.token": secret, "server.org_key": secret,
      "nextcloud.subscription_key": secret,
      "database.url": "postgres://user:\(secret)@host:5432/name?sslmode=require&sslpassword=\(secret)",
      "providers.proxy": "http://user:\(secret)@proxy:3128",
    ])
    let shown = Dictionary(uniqueKeysWithValues: configuration.effective.map { ($0.key, $0.value) })
    #expect(Set(shown.keys) == Set(Configuration.keys))
    #expect(shown.values.allSatisfy { !$0.contains(secret) })
    #expect(shown["admin.token"] == "(redacted)")
    #expect(shown["providers.proxy"] == "http://user:redacted@proxy:3128")
    #expect(
      shown["database.url"]?.hasPrefix("postgres://user:redacted@host:5432/name?sslmode=require") == true)
    #expect(shown["http.port"] == "8080")
  }

  @Test func `The sample file says every key and changes nothing`() throws {
    let sample = Configuration.sampleYAML()
    for key in Configuration.keys { #expect(sample.contains("\n#\(key):")) }
    #expect(try load(sample).0.effective.map(\.value) == load().0.effective.map(\.value))
    // Nor does taking the comments away: what stands there are the defaults.
    let uncommented = sample.replacing("\n#", with: "\n").replacing("\n ", with: "\n# ")
    #expect(try load(uncommented).0.effective.map(\.value) == load().0.effective.map(\.value))
  }

  @Test(arguments: [
    ("500ms", Duration.milliseconds(500)), ("10s", .seconds(10)), ("1.5s", .milliseconds(1500)),
    ("5m", .seconds(300)),
    ("24h", .seconds(86_400)), ("30d", .seconds(30 * 86_400)), ("7", .seconds(7)), ("0s", .zero),
  ])
  func `Durations are read`(_ text: String, _ duration: Duration) {
    #expect(Configuration.duration(text) == duration)
  }

  @Test(arguments: ["", "s", "-1s", "1w", "nan", "inf", "1e99h"])
  func `What is no duration is refused`(_ text: String) {
    #expect(Configuration.duration(text) == nil)
  }

  @Test func `Sizes and rates are read`() {
    #expect(Configuration.size("1048576") == 1 << 20)
    #expect(Configuration.size("512 KiB") == 512 << 10)
    #expect(Configuration.size("16MiB") == 16 << 20)
    #expect(Configuration.size("1 GiB") == 1 << 30)
    for text in ["", "0", "-1", "1 MB", "9999999999999 GiB"] { #expect(Configuration.size(text) == nil) }
    #expect(Configuration.rate("0") == .some(nil))
    #expect(Configuration.rate("100/60s") == .some(.init(calls: 100, seconds: 60)))
    for text in ["", "5", "0/60s", "5/0s", "5/", "-5/1s", "1/2/3"] {
      #expect(Configuration.rate(text) == nil)
    }
  }
}
