import Foundation
import HTTP
import ProviderSimulator
import Sealing
import Synchronization
import TestSupport
import Testing

@testable import Demo

/// A fleet of phones that moves from old apps, which are notified in clear, to new ones, while
/// notifications flow: each phone gets each notification once, whichever app it has at that moment.
@Suite struct FleetTests {
  /// `FLEET_PHONES` sets how many phones there are.
  private static let phones =
    ProcessInfo.processInfo.environment["FLEET_PHONES"].flatMap(Int.init) ?? 240
  private static let topic = "org.example.chat"
  private static let backendToken = "host-application-token"
  private static let apiKey = String(repeating: "k", count: 32)

  @Test func `Everybody gets each notification once while the fleet moves to encryption`() async throws {
    let service = ["--backend.token", Self.backendToken, "--server.rate_limit.per_user", "0"]
    try await Stage.test { stage in
      // One chat server is built into the bouncer, the other one calls it from outside.
      try await stage.serve(service + ["--log.level", "notice"]) { bouncer, _ in
        try await Workplace.test { place in
          let outside = [
            "--server.bouncer", bouncer.url("public"), "--server.org_id",
            try #require(stage.credentials["org_id"]?.string), "--server.org_key",
            try #require(stage.credentials["org_key"]?.string), "--log.level", "notice",
          ]
          try await place.serve(service + outside) { chat in
            let fleet = try await Fleet(servers: [bouncer, chat], stage: stage, phones: Self.phones)
            try await fleet.live()
            try await fleet.settle()
            fleet.expectEachOnce()
          }
        }
      }
    }
  }

  /// An account on a phone: a user of one of the servers.
  private struct Account: Sendable {
    let server: Int
    let realm: String
    let number: Int
    var email: String { "user\(number)@example.org" }
  }

  private struct Phone: Sendable {
    enum Life: CaseIterable {
      /// The old app, to the end.
      case old
      /// The new app, from the beginning.
      case new
      /// The old one, then the new one.
      case upgraded
      /// The new one has been started, and has got no further.
      case halfway
      /// The new one was shipped with a key that its bouncer does not have.
      case refused
      /// The old app has spelled the token in both ways, and the new one spells it in capitals.
      case respelled
      /// Two accounts, on two servers.
      case twoServers
      /// Two accounts in one realm.
      case twoAccounts
    }

    let life: Life
    let kind: PushToken.Kind
    let token: String
    let accounts: [Account]

    /// As the new app spells it.
    var newToken: String { life == .respelled && kind == .apns ? token.uppercased() : token }
    var movesOn: Bool { [.upgraded, .respelled, .twoServers, .twoAccounts].contains(life) }
  }

  private final class Fleet: Sendable {
    private static let rounds = 4

    private let servers: [Running]
    private let stage: Stage
    private let phones: [Phone]
    private let state = Mutex((apps: [UInt32: VirtualPhone](), promised: [String: Phone]()))

    init(servers: [Running], stage: Stage, phones count: Int) async throws {
      self.servers = servers
      self.stage = stage
      var phones: [Phone] = []
      let realms = servers.map { _ in UUID().uuidString.lowercased() }
      for number in 0..<count {
        let life = Phone.Life.allCases[number % Phone.Life.allCases.count]
        let kind: PushToken.Kind = (number / Phone.Life.allCases.count).isMultiple(of: 2) ? .apns : .fcm
        let home = (number / 3) % 2
        let others = life == .twoServers ? [1 - home] : life == .twoAccounts ? [home] : []
        let accounts = ([home] + others).enumerated().map { place, server in
          Account(server: server, realm: realms[server], number: 10 + number * 2 + place)
        }
        phones.append(
          Phone(
            life: life, kind: kind, token: VirtualPhone(kind, appID: topic).token, accounts: accounts))
      }
      self.phones = phones
      for (server, realm) in zip(servers, realms) {
        _ = try await Self.backend(
          server, "PUT", "realms/\(realm)", ["name": "Example", "url": "https://chat.example.org"])
      }
      try await each(phones) { try await self.begin($0) }
    }

    /// Moves everybody on while notifications flow.
    func live() async throws {
      try await notifyAll("before")
      // What a server knows of the realm's devices does not tell accounts apart: between the two
      // registrations of such a phone its second account is nowhere.
      try await each(phones.filter { $0.life == .twoAccounts }) { try await self.moveOn($0) }
      try await waitUntilActive(phones.filter { $0.life == .twoAccounts })
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask {
          for round in 1...Self.rounds { try await self.notifyAll("during \(round)") }
        }
        group.addTask {
          try await self.each(self.phones.filter { $0.movesOn && $0.life != .twoAccounts }, workers: 2) {
            try await self.moveOn($0)
          }
        }
        try await group.waitForAll()
      }
      try await waitUntilActive(phones.filter { $0.movesOn || $0.life == .new })
      try await notifyAll("after")
    }

    /// Waits until all that was promised has had the time to arrive.
    func settle() async throws {
      let promised = state.withLock { $0.promised.count }
      await eventually("all that was promised", within: .seconds(60)) {
        let counts = self.stage.simulator.counts
        return counts.apns + counts.fcm >= promised
      }
    }

    func expectEachOnce() {
      let arrived = arrived()
      let promised = state.withLock { $0.promised }
      var wrong: [String] = []
      for (mark, phone) in promised {
        let tokens = arrived[mark] ?? []
        if tokens.count != 1 || tokens.first != phone.token.lowercased() {
          wrong.append("\(mark) (\(phone.life), \(phone.kind)): \(tokens.count) times")
        }
      }
      #expect(wrong.isEmpty, "\(wrong.count) of \(promised.count): \(wrong.sorted().prefix(10))")
      #expect(Set(arrived.keys).subtracting(promised.keys).isEmpty)
      print("fleet: \(phones.count) phones, \(promised.count) notifications, \(wrong.count) not once")
    }

    /// The phones that each notification has reached, by its mark.
    private func arrived() -> [String: [String]] {
      let apps = state.withLock { $0.apps }
      var arrived: [String: [String]] = [:]
      for delivery in stage.simulator.deliveries() {
        guard let payload = try? JSON.parse(Array(delivery.payload)) else { continue }
        let fields = payload["message"]?["data"] ?? payload
        let keyID = fields["push_key_id"].flatMap { $0.integer ?? $0.string.flatMap { Int64($0) } }
        let mark: String?
        if let keyID {
          let text = apps[UInt32(truncatingIfNeeded: keyID)]?.open(payload)
          mark = text.flatMap { try? JSON.parse($0)["content"]?.string }
        } else {
          mark = fields["content"]?.string ?? payload["aps"]?["alert"]?.string
        }
        arrived[mark ?? "unreadable", default: []].append(delivery.token.lowercased())
      }
      return arrived
    }

    // MARK: - Phones

    private func begin(_ phone: Phone) async throws {
      for account in phone.accounts {
        _ = try await Self.backend(
          servers[account.server], "PUT", "realms/\(account.realm)/users/\(account.number)",
          ["email": .string(account.email), "api_key": .string(FleetTests.apiKey)])
        if phone.life == .new { continue }
        let tokens =
          phone.life == .respelled && phone.kind == .apns
          ? [phone.token, phone.token.uppercased()] : [phone.token]
        for token in tokens {
          let endpoint = phone.kind == .apns ? "apns_device_token" : "android_gcm_reg_id"
          _ = try await call(
            account, "users/me/\(endpoint)", [("appid", FleetTests.topic), ("token", token)])
        }
      }
      switch phone.life {
      case .new:
        try await moveOn(phone)
        try await waitUntilActive([phone])
      case .halfway: for account in phone.accounts { _ = try await call(account, "register_client_device") }
      case .refused: try await moveOn(phone, bouncerKey: BouncerKeyPair().publicKeyBase64)
      default: break
      }
    }

    /// The new app starts and registers all its accounts.
    private func moveOn(_ phone: Phone, bouncerKey: String? = nil) async throws {
      let bouncerKey = bouncerKey ?? stage.bouncerKey
      for account in phone.accounts {
        let app = VirtualPhone(phone.kind, appID: FleetTests.topic, token: phone.newToken)
        state.withLock { $0.apps[app.keyID] = app }
        let device = try #require(try await call(account, "register_client_device")["device_id"]?.integer)
        _ = try await call(
          account, "mobile_push/register",
          [
            ("device_id", "\(device)"), ("push_key", app.key.base64), ("push_key_id", "\(app.keyID)"),
            ("token_kind", app.kind.rawValue), ("token_id", app.tokenID.base64),
            ("bouncer_public_key", bouncerKey),
            (
              "encrypted_push_registration",
              try #require(app.sealedRegistration(to: bouncerKey, at: Date()))
            ),
          ])
      }
    }

    private func waitUntilActive(_ phones: [Phone]) async throws {
      try await each(phones) { phone in
        for account in phone.accounts {
          let id = TokenID(token: phone.newToken).base64
          try await eventually("an active device", within: .seconds(60)) {
            let answer = try await self.call(account, "register", [("event_types", #"["device"]"#)])
            guard case .object(let devices)? = answer["devices"] else { return false }
            return devices.members.contains { $0.value["push_token_id"]?.string == id }
          }
        }
      }
    }

    // MARK: - Servers

    private func notifyAll(_ round: String) async throws {
      try await each(phones) { phone in
        for account in phone.accounts {
          let mark = "\(round), to \(account.number)"
          let answer = try await Self.backend(
            self.servers[account.server], "POST",
            "realms/\(account.realm)/users/\(account.number)/notifications",
            [
              "zulip": ["type": "message", "content": .string(mark)],
              "legacy": [
                "apns_payload": ["alert": .string(mark), "custom": ["zulip": ["event": "message"]]],
                "gcm_payload": ["event": "message", "content": .string(mark)],
              ],
            ])
          try #require(answer["zulip"]?["result"] == nil && answer["legacy"]?["result"] == nil)
          self.state.withLock { $0.promised[mark] = phone }
        }
      }
    }

    private func call(_ account: Account, _ endpoint: String, _ form: [(String, String)] = []) async throws
      -> JSON
    {
      let answer = try await servers[account.server].call(
        path: "/api/v1/\(endpoint)", method: "POST",
        headers: [("Content-Type", "application/x-www-form-urlencoded")],
        user: (account.email, FleetTests.apiKey), body: Form.encode(form.map { ($0, $1) }))
      try #require(answer.status == 200, "\(endpoint): \(answer.text)")
      return answer.json
    }

    private static func backend(
      _ server: Running, _ method: String, _ path: String, _ body: JSON
    ) async throws -> JSON {
      let answer = try await server.call(
        path: "/backend/v1/\(path)", method: method,
        headers: [("Authorization", "Bearer \(FleetTests.backendToken)")], body: body.bytes)
      try #require((200...201).contains(answer.status), "\(path): \(answer.text)")
      return answer.json
    }

    /// Does it for all phones, several at a time.
    private func each(
      _ phones: [Phone], workers: Int = 8, _ body: @escaping @Sendable (Phone) async throws -> Void
    ) async throws {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for worker in 0..<workers {
          group.addTask {
            for index in stride(from: worker, to: phones.count, by: workers) { try await body(phones[index]) }
          }
        }
        try await group.waitForAll()
      }
    }
  }
}
