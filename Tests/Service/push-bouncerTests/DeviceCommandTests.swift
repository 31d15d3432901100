import Foundation
import HTTP
import ProviderSimulator
import Sealing
import TestSupport
import Testing

@testable import Demo

/// `device` as an app at a chat server, here the one built in.
@Suite struct DeviceCommandTests {
  private static let token = "a-host-application"

  /// A service with an account, whose host application is `host`.
  private func test(
    _ body: (Stage, Running, _ host: HostApplication, _ user: Int64, _ arguments: [String]) async throws ->
      Void
  ) async throws {
    try await Stage.test { stage in
      let account = try await stage.place.run("account", "add", "--email", "iago@example.org", "--json").json
      try await stage.serve("--backend.token", Self.token) { running, server in
        let host = HostApplication(
          service: running.url("public"), token: Self.token,
          realm: try #require(account["realm_uuid"]?.string), client: server.bouncer.client)
        let arguments = [
          "device", "--server", running.url("public"), "--email", "iago@example.org", "--api-key",
          account["api_key"]?.string ?? "", "--public-key", stage.bouncerKey, "--simulator",
          stage.simulator.fcmEndpoint, "--json",
        ]
        try await body(stage, running, host, try #require(account["user_id"]?.integer), arguments)
      }
    }
  }

  @Test(arguments: ["apns", "fcm"])
  func `A phone registers rotates and reads its test`(_ kind: String) async throws {
    try await test { stage, _, host, user, arguments in
      let result = try await stage.place.run(
        arguments + ["--kind", kind, "--rotate", "--test", "--count", "1"])
      #expect(result.status == 0, "\(result.errors)")
      let plaintext = try JSON.parse(result.json["plaintext"]?.string ?? "")
      #expect(plaintext["type"] == "test")
      #expect(plaintext["user_id"]?.integer == user)
      // The new token and the new key are in use, and the device stays without --forget.
      let active = try result.errors.split(separator: "\n").map {
        try #require($0.split(separator: ": ").last)
      }
      #expect(active.count == 4 && Set(active).count == 4, "\(result.errors)")
      let token = try #require(result.json["token_id"]?.string)
      #expect(active.last?.hasPrefix("\(kind) token \(token), push key ") == true)
      #expect(stage.simulator.deliveries().map { TokenID(token: $0.token).base64 } == [token])
      #expect(try await host.notify(user, ["type": "message"])["devices"] == 1)
    }
  }

  @Test func `A phone without Google registers rotates and reads its test`() async throws {
    try await test { stage, _, host, user, arguments in
      let result = try await stage.place.run(
        arguments + stage.webPush + ["--rotate", "--test", "--count", "1"])
      #expect(result.status == 0, "\(result.errors)")
      #expect(try JSON.parse(result.json["plaintext"]?.string ?? "")["type"] == "test")
      let token = try #require(result.json["token_id"]?.string)
      let last = result.errors.split(separator: "\n").last
      #expect(last?.contains("webpush token \(token), push key ") == true, "\(result.errors)")
      // One key for the two subscriptions, and only the newer one is in use.
      #expect(stage.simulator.deliveries().map(\.provider) == [.webPush])
      let sent = try await host.notify(user, ["type": "message"])
      #expect(sent["devices"] == 1 && sent["android_successfully_sent_count"] == 1)
      #expect(Set(stage.simulator.deliveries().map(\.token)).count == 1)
    }
  }

  @Test func `A phone without a Firebase project is reached through Google`() async throws {
    try await test { stage, _, host, user, arguments in
      let result = try await stage.place.run(
        arguments + stage.webPush + ["--through-google", "--test", "--count", "1"])
      #expect(result.status == 0, "\(result.errors)")
      #expect(try JSON.parse(result.json["plaintext"]?.string ?? "")["type"] == "test")
      let deliveries = stage.simulator.deliveries()
      #expect(deliveries.map(\.provider) == [.webPush] && deliveries[0].token.contains(":APA91b"))
      stage.simulator.unsubscribe(deliveries[0].token)
      let ended = try await host.notify(user, ["type": "message"])
      #expect(ended["android_successfully_sent_count"] == 0 && ended["deleted_devices"] == 1)
    }
  }

  @Test func `An endpoint of Google's is for Web Push only`() async throws {
    try await Workplace.test(begun: true) { place in
      let result = try await place.run(
        "device", "--org-id", "a", "--org-key", "b", "--realm", "c", "--public-key",
        String(repeating: "A", count: 43) + "=", "--through-google")
      #expect(result.status == 64 && result.errors.contains("--kind webpush"))
    }
  }

  @Test func `A phone without Google whose bouncer has no Web Push hears so`() async throws {
    try await Stage.test { stage in
      try await stage.serve("--webpush.enabled", "false") { running, server in
        let result = try await stage.place.run(
          [
            "device", "--org-id", server.id, "--org-key", server.key, "--realm", server.realm, "--public-key",
            stage.bouncerKey, "--bouncer", running.url("public"), "--simulator", stage.simulator.fcmEndpoint,
            "--send", "Lunch?",
          ] + stage.webPush)
        #expect(result.status == 1 && result.output == "")
        #expect(result.errors.contains("webpush/vapid"), "\(result.errors)")
      }
    }
  }

  @Test func `A phone shows when the service took a notification and how long each leg was`() async throws {
    try await Stage.test { stage in
      let token = "an-operator-of-this-service"
      try await stage.serve("--admin.token", token) { running, server in
        let arguments = [
          "device", "--org-id", server.id, "--org-key", server.key, "--realm", server.realm, "--public-key",
          stage.bouncerKey, "--bouncer", running.url("public"), "--simulator", stage.simulator.fcmEndpoint,
          "--ca-file",
          "Keys/ca.pem", "--send", "Lunch?", "--send", "At noon?", "--count", "2", "--admin.port",
          "\(try #require(running.port(of: "admin")))",
        ]
        let result = try await stage.place.run(arguments + ["--json"])
        let lines = try result.output.split(separator: "\n").map { try JSON.parse(String($0)) }
        #expect(lines.count == 2, "\(result.errors)")
        var last = ""
        for line in lines {
          let delivery = line["delivery"]
          #expect(delivery?["provider"] == "fcm")
          #expect(delivery?["device"]?.string?.hasPrefix("e2ee:") == true)
          for leg in ["request_ms", "queue_ms", "provider_ms"] { #expect(delivery?[leg] != nil, "\(leg)") }
          let taken = delivery?["taken_at"]?.string ?? ""
          #expect(taken > last)
          last = taken
        }
        let text = try await stage.place.run(arguments)
        #expect(
          text.output.contains("\n  taken at ") && text.output.contains(" ms for the chat server's request, ")
        )
        // Who may not ask gets the notification all the same.
        let stranger = try await stage.place.run(arguments + ["--json", "--keys.directory", "Others"])
        let shown = try stranger.output.split(separator: "\n").map { try JSON.parse(String($0))["delivery"] }
        #expect(shown == [.null, .null])
      }
    }
  }

  @Test(arguments: [false, true])
  func `Nextcloud talk adds an account reads and signs out`(_ withoutGoogle: Bool) async throws {
    try await Stage.test { stage in
      let account = try await stage.place.run("account", "add", "--email", "iago@example.org", "--json").json
      let realm = try #require(account["realm_uuid"]?.string)
      let user = try #require(account["user_id"]?.integer)
      try await stage.serve(
        "--backend.token", Self.token, "--nextcloud.enabled", "true", "--nextcloud.allow_local_proxies",
        "true"
      ) { running, server in
        let host = HostApplication(
          service: running.url("public"), token: Self.token, realm: realm, client: server.bouncer.client)
        let arguments =
          [
            "device", "--nextcloud", running.url("public") + "/", "--simulator", stage.simulator.fcmEndpoint,
            "--json", "--count", "1", "--forget",
          ] + (withoutGoogle ? stage.webPush : [])
        try await stage.place.start(arguments) { phone in
          func line(_ beginning: String) async -> Substring {
            await eventually("a line that begins with \(beginning)") { phone.logged.contains(beginning) }
            return phone.logged.split(separator: "\n").first { $0.hasPrefix(beginning) } ?? ""
          }
          let page = await line("let the phone sign in: ")
          #expect(page.contains(running.url("public") + "/index.php/login/v2/flow/"))
          try await host.grantLogin(user, token: String(page.split(separator: "/").last ?? ""))
          _ = await line("registered: ")
          #expect(phone.logged.contains("signed in as iago at \(running.url("public"))\n"))
          let sent = try await host.notify(
            user,
            parts: ["nextcloud": ["nid": 1, "app": "spreed", "subject": "Hello", "type": "chat", "id": "a"]])
          #expect(sent["nextcloud"]?["devices"] == 1)
          _ = await line("signed out")
          #expect(await phone.status() == 0, "\(phone.logged)")
          #expect(phone.printed?["plaintext"]?.string?.contains(#""subject":"Hello""#) == true)
          #expect(phone.printed?["call"] == false)
          try Workplace.check(String(contentsOf: phone.output, encoding: .utf8), of: arguments)
          let none = try await host.notify(
            user,
            parts: ["nextcloud": ["nid": 2, "app": "spreed", "subject": "Hello", "type": "chat", "id": "a"]])
          #expect(none["nextcloud"]?["devices"] == 0)
          let providers: [Delivery.Provider] = withoutGoogle ? [.webPush, .webPush] : [.apns]
          #expect(stage.simulator.deliveries().map(\.provider) == providers)
        }
      }
    }
  }

  @Test func `A phone that rotates reads everything once`() async throws {
    try await test { stage, _, host, user, arguments in
      try await stage.place.start(arguments + ["--kind", "apns", "--rotate"]) { phone in
        func read() -> [String] {
          let lines = (try? String(contentsOf: phone.output, encoding: .utf8))?.split(separator: "\n") ?? []
          return lines.compactMap { line in
            let text = (try? JSON.parse(String(line)))?["plaintext"]?.string
            return text.flatMap { try? JSON.parse($0) }?["content"]?.string
          }
        }
        var sent: [String] = []
        await eventually("the rotation") {
          let text = "\(sent.count)"
          let result = try? await host.notify(user, ["type": "message", "content": .string(text)])
          if result?["devices"] == 1 { sent.append(text) }
          return phone.logged.contains("rotated its token: ")
        }
        #expect(!sent.isEmpty)
        await eventually("every notification") { read().count >= sent.count }
        #expect(read().sorted() == sent.sorted())
      }
    }
  }

  @Test func `A phone that forgets is gone after an interrupt`() async throws {
    try await test { stage, _, host, user, arguments in
      try await stage.place.start(arguments + ["--forget"]) { phone in
        await eventually("the registration") { phone.logged.contains("registered: ") }
        let sent = try await host.notify(user, ["type": "message", "content": "Hello"])
        #expect(sent["android_successfully_sent_count"] == 1)
        await eventually("the notification") {
          phone.printed?["plaintext"]?.string?.contains(#""content":"Hello""#) == true
        }
        phone.send(SIGINT)
        #expect(await phone.status() == 0, "\(phone.logged)")
      }
      #expect(try await host.notify(user, ["type": "message"])["devices"] == 0)
    }
  }

  @Test func `A phone with another bouncer's key hears why and leaves nothing`() async throws {
    try await test { stage, running, host, user, arguments in
      let other = Base64.encode([UInt8](repeating: 9, count: 32))
      let result = try await stage.place.run(
        arguments.map { $0 == stage.bouncerKey ? other : $0 } + ["--forget", "--test"])
      #expect(result.status == 1)
      #expect(result.output == "")
      #expect(result.errors.contains("INVALID_BOUNCER_PUBLIC_KEY"))
      #expect(try await host.notify(user, ["type": "message"])["devices"] == 0)
      let removed = try await running.call(
        path: "/api/v1/remove_client_device", method: "POST",
        headers: [("Content-Type", "application/x-www-form-urlencoded")],
        user: ("iago@example.org", arguments[6]), body: Array("device_id=1".utf8))
      #expect(removed.status == 400 && removed.text.contains("Invalid `device_id`"), "\(removed.text)")
    }
  }

  @Test func `What the chat server refuses, or that it is not there, is told`() async throws {
    try await test { stage, _, _, _, arguments in
      let key = String(repeating: "x", count: 32)
      for (option, told) in [
        (["--api-key", key], "Invalid API key"),
        (["--server", "http://127.0.0.1:1"], "http://127.0.0.1:1/api/v1 cannot be reached"),
      ] {
        let result = try await stage.place.run(arguments + option)
        #expect(result.status == 1 && result.errors.contains(told) && !result.errors.contains(key))
      }
    }
  }

  private static let app = ["--server", "http://127.0.0.1:1", "--email", "a@example.org", "--api-key", "k"]
  private static let own = ["--org-id", "1", "--org-key", "2", "--realm", "3"]

  @Test(arguments: [
    ([], "--server, --email and --api-key, or --org-id, --org-key and --realm"),
    (Array(app.prefix(2)), "--email and --api-key are missing"),
    (Array(app.prefix(4)), "--api-key is missing"),
    (["--test"], "--server and --email and --api-key are missing"),
    (["--org-id", "1", "--send", "x"], "--org-key and --realm are missing"),
    (app + ["--realm", "d"], "--server and --realm"), (own + ["--forget"], "--forget and --org-id"),
    (["--server", "a"] + app.dropFirst(2), "--server must be"),
    (own + ["--public-key", "x"], "--public-key must be"),
    (own + ["--count=-1"], "--count must be"),
    (app + ["--push-service", "127.0.0.1:2199"], "--push-service must be the address of a server"),
    (app + ["--bouncer", "push.example.org"], "--bouncer must be the address of a server"),
    (app + ["--kind", "gcm"], "'gcm' is invalid for '--kind <kind>'"),
    (app + ["--ca-file", "nowhere.pem"], "nowhere.pem is no file with a certificate in PEM"),
  ])
  func `A phone says what is wrong with its options, and wants one role whole`(
    _ arguments: [String], _ told: String
  ) async throws {
    try await Workplace.test { place in
      let key = Base64.encode([UInt8](repeating: 9, count: 32))
      let result = try await place.run(["device", "--public-key", key] + arguments)
      #expect(result.status == (arguments.contains("--ca-file") ? 1 : 64) && result.output == "")
      #expect(result.errors.contains(told), "\(result.errors)")
    }
  }
}
