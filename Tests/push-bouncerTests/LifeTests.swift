import Foundation
import HTTP
import ProviderSimulator
import Sealing
import Synchronization
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// A phone's life at the built-in chat-server side, against a bouncer that is another process and has
  /// troubles of its own.
  @Suite struct LifeTests {
    @Test(arguments: [PushToken.Kind.apns, .fcm])
    func `A phone rotates is reinstalled and logs out while notifications flow`(_ kind: PushToken.Kind)
      async throws
    {
      let port = try await freePort()
      try await Stage.test { stage in
        try await stage.serve("--http.port", "\(port)", "--log.level", "notice") { _, _ in
          try await App.test(of: stage, bouncerPort: port) { app in
            try await app.serve { server in
              var phone = VirtualPhone(kind, appID: "org.example.chat")
              var tokens: Set<String> = [phone.token]
              var device = try await app.addDevice(server)
              try await app.register(phone, as: device, bouncerKey: stage.bouncerKey, on: server)
              try await app.waitUntilActive(device, phone, on: server)

              // Months go by: keys and tokens rotate, and nobody stops writing meanwhile.
              let promised = Texts()
              try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<3 {
                  group.addTask {
                    var number = 0
                    while promised.isOpen {
                      number += 1
                      let text = "\(writer).\(number)"
                      let result = try await app.notify(text, on: server)
                      #expect(result?["devices"] == 1 && result?["deleted_devices"] == 0, "\(text)")
                      promised.add(text)
                    }
                  }
                }
                for _ in 0..<5 {
                  phone.rotateKey()
                  try await app.register(phone, as: device, .key, bouncerKey: stage.bouncerKey, on: server)
                  phone.rotateToken()
                  tokens.insert(phone.token)
                  try await app.register(phone, as: device, .token, bouncerKey: stage.bouncerKey, on: server)
                  try await app.waitUntilActive(device, phone, on: server)
                  phone.rotateKey()
                  phone.rotateToken()
                  tokens.insert(phone.token)
                  try await app.register(phone, as: device, .both, bouncerKey: stage.bouncerKey, on: server)
                  try await app.waitUntilActive(device, phone, on: server)
                }
                promised.close()
                try await group.waitForAll()
              }
              let texts = promised.all
              #expect(texts.count > 20)
              let arrived = try stage.texts(for: phone, tokens: tokens)
              #expect(arrived.sorted() == texts.sorted())

              // Reinstalled: the old token is dead, the app begins anew.
              let old = device
              stage.simulator.setToken(
                phone.token, TokenRule(status: kind == .apns ? 410 : 404))
              let dead = phone
              phone = VirtualPhone(kind, appID: "org.example.chat")
              device = try await app.addDevice(server)
              try await app.register(phone, as: device, bouncerKey: stage.bouncerKey, on: server)
              try await app.waitUntilActive(device, phone, on: server)
              let result = try await app.notify("after", on: server)
              #expect(result?["devices"] == 2 && result?["deleted_devices"] == 1)
              #expect(try await app.state(of: old, on: server)?["push_token_id"] == .null)
              #expect(try stage.texts(for: phone, tokens: [phone.token]) == ["after"])
              #expect(try stage.texts(for: dead, tokens: [dead.token]).allSatisfy { $0 != "after" })
              #expect(try await app.notify("again", on: server)?["devices"] == 1)

              // Logged out.
              _ = try await app.call(server, "remove_client_device", [("device_id", "\(device)")])
              #expect(try await app.notify("nobody", on: server)?["devices"] == 0)
              #expect(try stage.texts(for: phone, tokens: [phone.token]) == ["after", "again"])
            }
          }
        }
      }
    }

    /// What keeps a bouncer from taking a registration for now.
    enum Trouble: String, CaseIterable {
      case down, silent, failing, deactivated
    }

    @Test(arguments: Trouble.allCases, [false, true])
    func `A registration outlasts the bouncers trouble and its own servers death`(
      _ trouble: Trouble, isKilled: Bool
    )
      async throws
    {
      let port = try await freePort()
      try await Stage.test { stage in
        try await App.test(of: stage, bouncerPort: port) { app in
          let phone = VirtualPhone(.fcm, appID: nil)
          var device: Int64 = 0
          func register(_ server: Running) async throws {
            device = try await app.addDevice(server)
            let began = ContinuousClock.now
            try await app.register(phone, as: device, bouncerKey: stage.bouncerKey, on: server)
            // Whatever the bouncer does, the app does not wait for it.
            #expect(.now - began < .seconds(5))
            // It was tried, unless the bouncer still keeps it waiting, and is still wanted.
            if trouble != .silent {
              await eventually("a try") { server.logged.contains("is tried again") }
            }
            let state = try await app.state(of: device, on: server)
            #expect(state?["pending_push_token_id"]?.string == phone.tokenID.base64)
            #expect(state?["push_registration_error_code"] == .null)
            if isKilled {
              server.send(SIGKILL)
              #expect(await server.status() == SIGKILL)
            }
          }
          func finish(_ server: Running?) async throws {
            if let server, !isKilled { return try await app.waitUntilActive(device, phone, on: server) }
            try await app.serve { server in try await app.waitUntilActive(device, phone, on: server) }
          }
          let bouncer = ["--http.port", "\(port)", "--log.level", "notice"]
          try await app.serve { server in
            if trouble == .down {
              // The bouncer has been there once, so that the realm is known; then it is gone.
              try await stage.serve(bouncer[0], bouncer[1]) { _, _ in }
              try await register(server)
              try await stage.serve(bouncer[0], bouncer[1]) { _, _ in try await finish(server) }
              return
            }
            try await stage.serve(bouncer[0], bouncer[1], bouncer[2], bouncer[3]) { running, _ in
              switch trouble {
              case .down: break
              case .silent: running.send(SIGSTOP)
              case .failing: try await DiskTrouble.fileLimit.begin(running, stage.place.folder)
              case .deactivated:
                #expect(try await stage.place.run("server", "deactivate", "chat.example.org").status == 0)
              }
              try await register(server)
              switch trouble {
              case .down: break
              case .silent: running.send(SIGCONT)
              case .failing: try await DiskTrouble.fileLimit.end(running, stage.place.folder)
              case .deactivated:
                #expect(try await stage.place.run("server", "reactivate", "chat.example.org").status == 0)
              }
              try await finish(server)
            }
          }
        }
      }
    }

    @Test func `What the bouncer will never take is told and can be mended`() async throws {
      let port = try await freePort()
      try await Stage.test { stage in
        try await stage.serve("--http.port", "\(port)", "--log.level", "notice") { _, _ in
          try await App.test(of: stage, bouncerPort: port) { app in
            try await app.serve { server in
              let phone = VirtualPhone(.apns, appID: "org.example.chat")
              let device = try await app.addDevice(server)
              let foreign = BouncerKeyPair().publicKeyBase64
              try await app.register(phone, as: device, bouncerKey: foreign, on: server)
              try await app.waitUntilRefused(device, "INVALID_BOUNCER_PUBLIC_KEY", on: server)
              try await app.register(
                phone, as: device, .token, bouncerKey: stage.bouncerKey, at: Date() - 25 * 3600, on: server)
              try await app.waitUntilRefused(device, "REQUEST_EXPIRED", on: server)
              // Sealed for another token than the one that is named.
              _ = try await app.call(
                server, "mobile_push/register",
                [
                  ("device_id", "\(device)"), ("token_kind", "apns"), ("token_id", phone.tokenID.base64),
                  ("bouncer_public_key", stage.bouncerKey),
                  (
                    "encrypted_push_registration",
                    try #require(
                      VirtualPhone(.apns, appID: "org.example.chat").sealedRegistration(
                        to: stage.bouncerKey, at: Date()))
                  ),
                ])
              try await app.waitUntilRefused(device, "BAD_REQUEST", on: server)
              #expect(try await app.notify("nobody", on: server)?["devices"] == 0)
              try await app.register(phone, as: device, .token, bouncerKey: stage.bouncerKey, on: server)
              try await app.waitUntilActive(device, phone, on: server)
              #expect(try await app.notify("hello", on: server)?["apple_successfully_sent_count"] == 1)
              #expect(try stage.texts(for: phone, tokens: [phone.token]) == ["hello"])
            }
          }
        }
      }
    }

    @Test func `Who waits for events does not hold up the shutdown`() async throws {
      try await Workplace.test(begun: true) { place in
        let account = try await place.run("account", "add", "--email", "iago@example.org", "--json").json
        let user = ("iago@example.org", try #require(account["api_key"]?.string))
        try await place.serve("--log.level", "notice") { running in
          let queue = try await running.call(path: "/api/v1/register", method: "POST", user: user).json
          let id = try #require(queue["queue_id"]?.string)
          async let waiting = running.call(path: "/api/v1/events?queue_id=\(id)&last_event_id=0", user: user)
          try await eventually("a waiting client") {
            try await running.call("admin", path: "/metrics").text.contains("push_bouncer_event_waiters 1")
          }
          let began = ContinuousClock.now
          running.send(SIGTERM)
          #expect(try await waiting.json["events"] == [["type": "heartbeat", "id": 0]])
          #expect(await running.status() == 0)
          #expect(.now - began < .seconds(20))
        }
      }
    }
  }
}

/// What the host application was promised to be sent.
private final class Texts: Sendable {
  private let state = Mutex((texts: [String](), isOpen: true))
  var all: [String] { state.withLock { $0.texts } }
  var isOpen: Bool { state.withLock { $0.isOpen } }
  func add(_ text: String) { state.withLock { $0.texts.append(text) } }
  func close() { state.withLock { $0.isOpen = false } }
}
