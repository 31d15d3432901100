import AsyncHTTPClient
import ProviderSimulator
import Sealing
import TestSupport

@testable import Demo

/// Chat servers and a Nextcloud server of strangers, whose devices their providers refuse in every way that is known, or
/// whose push services take connections and say nothing.
struct RefusedDevices {
  private let servers: [(server: ChatServer, phones: [VirtualPhone])]
  private let cloud: StrangersCloud
  /// Held for as long as these live.
  private let silent: [HeldSocket]

  init(_ stage: Stage, _ running: Running) async throws {
    let rules: [TokenRule] = [
      TokenRule(status: 429, reason: "QUOTA_EXCEEDED"),
      TokenRule(status: 401, reason: "THIRD_PARTY_AUTH_ERROR"),
      TokenRule(status: 200, delayMilliseconds: 600_000),
    ]
    let silent = try (0..<20).map { _ in try HeldSocket() }
    var servers: [(ChatServer, [VirtualPhone])] = []
    for number in 0..<3 {
      var server = try await stage.anotherServer("chat\(number).example.net", at: running)
      server.bouncer.headers = [("X-Forwarded-For", "198.51.100.\(number)")]
      var phones: [VirtualPhone] = []
      for device in 0..<8 {
        let phone = Stage.phone(.fcm)
        try await stage.register(phone, at: server)
        stage.simulator.setToken(phone.token, rules[(number + device) % rules.count])
        phones.append(phone)
      }
      for phone in try await stage.subscribers(4, at: server, of: running) {
        let rule =
          number == 0 ? TokenRule(status: 429, retryAfter: "3600") : TokenRule(status: 403)
        for subscription in phone.subscriptions { stage.simulator.setToken(String(subscription.id), rule) }
        phones.append(phone)
      }
      for socket in silent where socket.port % 3 == number {
        let phone = VirtualPhone(PushSubscription(endpoint: "https://127.0.0.1:\(socket.port)/push/x"))
        try await stage.register(phone, at: server)
        phones.append(phone)
      }
      servers.append((server, phones))
    }
    cloud = StrangersCloud(
      devices: 10, at: running.url("public"), from: "203.0.113.9", client: HTTPClient.shared)
    try await cloud.register()
    for token in cloud.tokens { stage.simulator.setToken(token, rules[0]) }
    (self.servers, self.silent) = (servers, silent)
  }

  /// Each sends to all of its devices at once.
  var deeds: [@Sendable () async -> Void] {
    var deeds: [@Sendable () async -> Void] = [{ [cloud] in try? await cloud.notify(each: 2) }]
    for (server, phones) in servers { deeds.append { _ = try? await server.mark(phones) } }
    return deeds
  }
}
