import Foundation
import HTTP
import ProviderSimulator
import Providers
import Sealing
import Synchronization
import TestSupport
import Testing

@testable import Demo

/// Holds `Documentation/JSON.md`, which is made from the commands' encoders, against what they print. ``Workplace`` holds every document of the other tests
/// against it.
@Suite struct JSONPageTests {
  @Test(.place()) func `Every command with a document is on the page and no other`() async throws {
    let help = try await Fixture<Workplace>.current.run("--experimental-dump-help").json
    func commands(_ command: JSON, _ words: [String]) -> [String] {
      let subcommands = (command["subcommands"]?.elements ?? []).filter { $0["shouldDisplay"] == true }
      let below = subcommands.flatMap { commands($0, words + [$0["commandName"]?.string ?? ""]) }
      let names = (command["arguments"]?.elements ?? []).flatMap { $0["names"]?.elements ?? [] }
      let hasDocument = below.isEmpty && names.contains { $0["name"]?.string == "json" }
      return below + (hasDocument ? [words.joined(separator: " ")] : [])
    }
    let made = Set(commands(try #require(help["command"]), []).filter { !$0.hasPrefix("help") })
    #expect(made.isSuperset(of: JSONPage.silent))
    let described = JSONPage.page.shapes.keys.map { $0.components(separatedBy: " --")[0] }
    #expect(made.subtracting(JSONPage.silent).subtracting(described).sorted() == [], "not on the page")
    #expect(Set(described).subtracting(made).sorted() == [], "no command")
  }

  @Test func `What differs from the page is found`() throws {
    let page = JSONPage(
      """
      ## a list, a show

      - `rows[].name` *`x` or `y`*
      - `rows[].at` *time or null*: when
      - `rows[].note` *string or absent*
      - `counts.b` *integer*
      """)
    func differences(_ text: String) throws -> [String] {
      try page.differences(JSON.parse(text), from: "a show")
    }
    #expect(try differences(#"{"rows":[{"name":"y","at":null}],"counts":{"b":1}}"#) == [])
    #expect(
      try differences(#"{"rows":[{"name":"z","at":"today","new":1}],"counts":{"b":"1"}}"#) == [
        "a list: rows[].name is \"z\"", "a list: rows[].at is \"today\"",
        "a list: rows[].new is not on the page",
        "a list: counts.b is \"1\"",
      ])
    #expect(
      try differences(#"{"rows":[{"at":null,"note":"n"}]}"#).sorted() == [
        "a list: counts is missing", "a list: rows[].name is missing",
      ])
    #expect(page.heading(["a", "list", "--json"]) == "a list")
    #expect(page.heading(["a", "--json"]) == "a list")
    #expect(page.heading(["b", "--json"]) == nil)
  }

  /// Values that need another bouncer, a device of Nextcloud's, a second key or a failure; other tests print them.
  private static let elsewhere: Set = [
    "device list: devices[].device_identifier", "device list: devices[].environment",
    "device list: devices[].token_changed_at",
    "device phone --nextcloud: call",
    "device phone --nextcloud: plaintext", "keys generate: last_used_at",
    "outbox list: servers_over_pace[].hostname", "outbox list: servers_over_pace[].org_id",
    "outbox list: servers_over_pace[].waiting",
    "server show: upstream.last_report_at", "server show: upstream.last_report_failure",
    "server show: upstream.sending_refused_at",
    "server upstream show: last_report_at", "server upstream show: last_report_failure",
    "server upstream show: sending_refused_at",
  ]

  @Test(.stage) func `Every value on the page is printed`() async throws {
    let stage = Fixture<Stage>.current
    let run = Session(place: stage.place)
    try await prepare(stage, run)
    let providers = [
      "--providers.ca_file", "Keys/ca.pem", "--apns.endpoint", stage.simulator.apnsEndpoint,
      "--fcm.endpoint", stage.simulator.fcmEndpoint,
    ]
    // However slow this machine is, every answer is waited for.
    try await stage.serve("--delivery.deadline", "60s", "--delivery.max_age", "1h") { running, server in
      let admin = ["--admin.port", "\(running.port(of: "admin") ?? 0)"]
      _ = try await run(
        "device", "--org-id", server.id,
        with: [
          "--org-key", server.key, "--realm", server.realm, "--public-key", stage.bouncerKey, "--bouncer",
          running.url("public"), "--simulator", stage.simulator.fcmEndpoint, "--ca-file", "Keys/ca.pem",
          "--send", "Lunch?", "--count", "1",
        ] + admin)
      _ = try await stage.subscribers(1, at: server, of: running)
      // So many at once are not believed.
      var dead: [VirtualPhone] = []
      for _ in 0..<60 {
        dead.append(Stage.phone(.fcm))
        try await stage.register(dead[dead.count - 1], at: server)
      }
      for phone in dead { stage.simulator.setToken(phone.token, TokenRule(status: 404)) }
      _ = try await server.mark(dead)
      try await eventually("a route that fails") {
        try await run("routes", with: admin)["routes"]?.elements.contains { $0["reason"]?.string != nil }
          == true
      }
      try await eventually("a device that was delivered to") {
        let devices = try await run("device", "list", "--server", "chat.example.org")["devices"]?.elements
        return devices?.contains { $0["last_success_at"]?.string != nil } == true
      }
      let port = ["--http.port", "\(running.port(of: "public") ?? 0)"]
      _ = try await run("doctor", with: providers + admin + port)
      await running.end()
    }
    _ = try await run("routes", "trust", "fcm:default")
    try await stage.serve("--delivery.deadline", "200ms") { running, server in
      let phone = Stage.phone(.apns)
      try await stage.register(phone, at: server)
      stage.simulator.setToken(phone.token, TokenRule(status: 503))
      _ = try await server.mark([phone])
      try await eventually("one that waits") { try await run("outbox")["waiting"] == 1 }
      _ = try await run("device", "list", "--server", "chat.example.org")
      _ = try await run("routes")
      await running.end()
    }
    _ = try await run("outbox", "drop", "--all", "--yes")
    try await finish(stage, run)

    let missing = JSONPage.page.paths.subtracting(run.met)
    #expect(missing.subtracting(Self.elsewhere).sorted() == [])
    #expect(Self.elsewhere.subtracting(missing).sorted() == [])
  }

  /// Before the service runs.
  private func prepare(_ stage: Stage, _ run: Session) async throws {
    _ = try await run("init")
    let key = try #require(try await run("keys", "generate")["public_key"]?.string)
    _ = try await run("keys", "retire", key)
    _ = try await run("keys", "remove", key)
    let pair = BouncerKeyPair()
    try stage.place.write(
      "secrets.conf",
      """
      [secrets]
      push_registration_encryption_keys = {"\(pair.publicKeyBase64)": "\(pair.privateKeyBase64)"}

      """)
    _ = try await run("keys", "import", "--zulip-secrets", "secrets.conf")
    _ = try await run("account", "add", "--email", "a@example.org")
    _ = try await run("account", "list")
    _ = try await run("account", "remove", "a@example.org")
    _ = try await run("server", "add", "--hostname", "other.example.org")
    _ = try await run("server", "deactivate", "other.example.org")
    _ = try await run("server", "reactivate", "other.example.org")
    _ = try await run("server", "rotate-key", "other.example.org")
    _ = try await run("device", "find", "other.example.org")
    try stage.place.write(
      "app/lib/model/push_device.dart", "  static final bouncerPublicKey = base64Decode('\(key)');\n")
    try stage.place.write(
      "app/android/app/build.gradle",
      "android { productFlavors { gplay { applicationId 'org.example.a' } } }\n")
    try stage.place.write(
      "app/ios/Runner.xcodeproj/project.pbxproj",
      """
      { objects = {
        P = { targets = (T); };
        T = { name = Runner; productType = "com.apple.product-type.application"; buildConfigurationList = L; };
        L = { buildConfigurations = (C); };
        C = { name = Release; buildSettings = { PRODUCT_BUNDLE_IDENTIFIER = org.example.a; }; };
      }; rootObject = P; }

      """)
    _ = try await run("app", "check", "app")
    _ = try await run("app", "check", "nowhere")
    try stage.place.write(
      "apps.json",
      #"""
      [{"name": "A", "user_agent": "A", "kind": "talk", "platform": "ios", "apns_topic": "org.example.a"},
       {"name": "B", "user_agent": "B", "kind": "files", "platform": "android", "fcm_project": "b"}]
      """#)
    _ = try await run(
      "app", "expect", "--nextcloud.apps_file", "apps.json", "--nextcloud.default_app", "A",
      "--http.public_url",
      "https://push.example.org")
    _ = try await run("clock", "trust")
    try MigrateCommandTests.write(to: stage.place, hostname: "old.example.org")
    _ = try await run("migrate", "zulip", "--from", "zulip")
    _ = try await run("device", "list", "--server", "old.example.org")
  }

  /// Once it has stopped.
  private func finish(_ stage: Stage, _ run: Session) async throws {
    _ = try await run("keys", "list")
    _ = try await run("server", "list")
    let upstream = ["--upstream.url", "http://127.0.0.1:9"]
    _ = try await run("server", "upstream", "enable", "chat.example.org", with: upstream)
    _ = try await run("server", "upstream", "show", "chat.example.org", with: upstream)
    _ = try await run("server", "show", "chat.example.org", with: upstream)
    _ = try await run("server", "upstream", "disable", "chat.example.org")
    _ = try await run("stats")
    _ = try await run("stats", "--server", "chat.example.org")
    let realms = try await run("server", "show", "chat.example.org")["realm_list"]?.elements
    _ = try await run("server", "release-realm", try #require(realms?.first?["uuid"]?.string))
    _ = try await run("keys", "rotate-storage")
    _ = try await run("copy", "--from", "sqlite:push-bouncer.sqlite", "--to", "sqlite:copy.sqlite")
    let arguments = [
      "simulate", "--json", "--apns-port", "0", "--fcm-port", "0", "--webpush-port", "0", "--keys-out",
      "Simulated",
    ]
    try await stage.place.start(arguments) { running in
      await eventually("its addresses") { running.printed != nil }
      try run.check(String(contentsOf: running.output, encoding: .utf8), of: arguments)
    }
  }
}

/// Runs commands and remembers which values of the page they have printed.
private final class Session: Sendable {
  private let place: Workplace
  private let paths = Mutex<Set<String>>([])

  init(place: Workplace) { self.place = place }

  var met: Set<String> { paths.withLock(\.self) }

  func callAsFunction(_ arguments: String..., with more: [String] = []) async throws -> JSON {
    let document = try await place.run(arguments + more + ["--json"])
    #expect(!document.output.isEmpty, "\(arguments): \(document.errors)")
    try check(document.output, of: arguments)
    return try document.json
  }

  func check(_ output: String, of arguments: [String]) throws {
    try Workplace.check(output, of: arguments) { path in _ = paths.withLock { $0.insert(path) } }
  }
}
