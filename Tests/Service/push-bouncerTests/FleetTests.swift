import AsyncHTTPClient
import Foundation
import HTTP
import ProviderSimulator
import Providers
import Sealing
import Synchronization
import TestSupport
import Testing

@testable import Demo

/// Tests the transition of many phones from legacy apps to encrypted ones while notifications flow: each
/// phone gets each notification once, with whichever app it has at that moment.
@Suite struct FleetTests {
  /// `FLEET_PHONES` sets how many phones there are.
  private static let phones =
    ProcessInfo.processInfo.environment["FLEET_PHONES"].flatMap(Int.init) ?? 240
  private static let topic = "org.example.chat"

  @Test func `Everybody gets each notification once while the fleet moves to encryption`() async throws {
    let service = [
      "--backend.token", Stage.backendToken, "--server.rate_limit.per_user", "0", "--log.level", "notice",
    ]
    try await Stage.test { stage in
      // One chat server is built into the bouncer, the other one calls it from outside.
      try await stage.serve(service) { bouncer, _ in
        try await Workplace.test { place in
          let outside = [
            "--server.bouncer", bouncer.url("public"), "--server.org_id",
            try #require(stage.credentials["org_id"]?.string), "--server.org_key",
            try #require(stage.credentials["org_key"]?.string),
          ]
          try await place.serve(service + outside) { chat in
            let fleet = try await Fleet(servers: [bouncer, chat], stage: stage, phones: Self.phones)
            try await fleet.live()
            await fleet.expectEachOnce()
          }
        }
      }
    }
  }

  /// An account on a phone: a user of one of the servers.
  private struct Account: Sendable {
    let number: Int64
    let host: HostApplication
    let chat: ChatClient
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
      case twoServers
      /// Two accounts in one realm.
      case twoAccounts
    }

    let life: Life
    let kind: PushToken.Kind
    let token: String
    let accounts: [Account]

    var spellings: [String] { life == .respelled && kind == .apns ? [token, token.uppercased()] : [token] }
    /// As the new app spells it.
    var newToken: String { spellings.last ?? token }
    var movesOn: Bool { [.upgraded, .respelled, .twoServers, .twoAccounts].contains(life) }
  }

  private final class Fleet: Sendable {
    private struct State {
      var apps: [UInt32: VirtualPhone] = [:]
      /// By the account's number.
      var devices: [Int64: Int64] = [:]
      /// By mark.
      var promised: [String: Phone] = [:]
    }

    private let stage: Stage
    private let phones: [Phone]
    private let state = Mutex(State())

    init(servers: [Running], stage: Stage, phones count: Int) async throws {
      self.stage = stage
      let hosts = servers.map {
        HostApplication(
          service: $0.url("public"), token: Stage.backendToken, realm: UUID().uuidString.lowercased(),
          client: HTTPClient.shared)
      }
      for host in hosts { try await host.putRealm() }
      var phones: [Phone] = []
      for number in 0..<count {
        let life = Phone.Life.allCases[number % Phone.Life.allCases.count]
        let kind: PushToken.Kind = (number / Phone.Life.allCases.count).isMultiple(of: 2) ? .apns : .fcm
        let home = (number / 3) % 2
        let others = life == .twoServers ? [1 - home] : life == .twoAccounts ? [home] : []
        var accounts: [Account] = []
        for (place, server) in ([home] + others).enumerated() {
          let (id, email) = (Int64(10 + number * 2 + place), "user\(number).\(place)@example.org")
          let key = try await hosts[server].putUser(id, email: email)
          let chat = ChatClient(
            server: servers[server].url("public"), email: email, apiKey: key, client: HTTPClient.shared)
          accounts.append(Account(number: id, host: hosts[server], chat: chat))
        }
        let token = VirtualPhone(kind, appID: topic).token
        phones.append(Phone(life: life, kind: kind, token: token, accounts: accounts))
      }
      self.phones = phones
      try await each(phones) { try await self.begin($0) }
    }

    /// Moves everybody on while notifications flow.
    func live() async throws {
      try await notifyAll("before")
      // What a server knows of the realm's devices does not tell accounts apart: between the two
      // registrations of such a phone its second account is nowhere.
      try await moveOn { $0.life == .twoAccounts }
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { for round in 1...4 { try await self.notifyAll("during \(round)") } }
        group.addTask { try await self.moveOn(workers: 2) { $0.movesOn && $0.life != .twoAccounts } }
        try await group.waitForAll()
      }
      try await notifyAll("after")
    }

    func expectEachOnce() async {
      let promised = state.withLock { $0.promised }
      await eventually("all that was promised") {
        self.stage.simulator.counts.apns + self.stage.simulator.counts.fcm >= promised.count
      }
      let arrived = arrived()
      let wrong = promised.filter { mark, phone in arrived[mark] != [phone.token.lowercased()] }.map {
        "\($0.key) (\($0.value.life), \($0.value.kind)): \(arrived[$0.key] ?? [])"
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
        let mark: String?
        if let keyID = fields["push_key_id"].flatMap({ $0.integer ?? $0.string.flatMap { Int64($0) } }) {
          let text = try? apps[UInt32(truncatingIfNeeded: keyID)]?.open(payload)
          mark = text.flatMap { try? JSON.parse($0)["content"]?.string }
        } else {
          mark = fields["content"]?.string ?? payload["aps"]?["alert"]?.string
        }
        arrived[mark ?? "unreadable", default: []].append(delivery.token.lowercased())
      }
      return arrived
    }

    private func begin(_ phone: Phone) async throws {
      if phone.life == .new { return try await moveOn(phone) }
      for account in phone.accounts {
        for token in phone.spellings {
          try await account.chat.registerLegacy(phone.kind, token: token, appID: FleetTests.topic)
        }
        if phone.life == .halfway { _ = try await account.chat.addDevice() }
      }
      if phone.life == .refused { try await start(phone, bouncerKey: BouncerKeyPair().publicKeyBase64) }
    }

    private func moveOn(workers: Int = 8, _ isMeant: (Phone) -> Bool) async throws {
      try await each(phones.filter(isMeant), workers: workers) { try await self.moveOn($0) }
    }

    /// Has the new app register all its accounts, and waits until notifications come to it.
    private func moveOn(_ phone: Phone) async throws {
      try await start(phone, bouncerKey: stage.bouncerKey)
      for account in phone.accounts {
        let device = try #require(state.withLock { $0.devices[account.number] })
        try await account.chat.wait(for: TokenID(token: phone.newToken), of: device)
      }
    }

    private func start(_ phone: Phone, bouncerKey: String) async throws {
      for account in phone.accounts {
        let app = VirtualPhone(phone.kind, appID: FleetTests.topic, token: phone.newToken)
        let device = try await account.chat.addDevice()
        state.withLock { ($0.apps[app.keyID], $0.devices[account.number]) = (app, device) }
        try await account.chat.register(app, as: device, bouncerKey: bouncerKey)
      }
    }

    private func notifyAll(_ round: String) async throws {
      try await each(phones) { phone in
        for account in phone.accounts {
          let mark = "\(round), to \(account.number)"
          let answer = try await account.host.notifyBothWays(account.number, mark)
          try #require(answer["zulip"]?["result"] == nil && answer["legacy"]?["result"] == nil)
          self.state.withLock { $0.promised[mark] = phone }
        }
      }
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
