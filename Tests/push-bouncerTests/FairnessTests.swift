import AsyncHTTPClient
import Foundation
import ProviderSimulator
import Sealing
import Testing

@testable import Demo

extension Chaos {
  /// Strangers whose tokens their provider refuses, or their push service, each in its own way: it is their trouble, and
  /// what a server that belongs here sends meanwhile over the same route arrives as soon as ever.
  @Suite struct FairnessTests {
    private static let quotaExceeded = TokenRule(status: 429, reason: "QUOTA_EXCEEDED")
    private static let thirdPartyAuthError = TokenRule(status: 401, reason: "THIRD_PARTY_AUTH_ERROR")
    private static let otherKey = TokenRule(status: 403)
    private static let inAnHour = TokenRule(status: 429, retryAfter: "3600")

    @Test func `Devices of a stranger's at the push proxy that get too many`() async throws {
      try await Stage.test { stage in
        try await stage.serve("--nextcloud.enabled", "true", "--log.level", "notice") { running, server in
          let cloud = StrangersCloud(devices: 30, at: running.url("public"), client: HTTPClient.shared)
          try await cloud.register()
          for token in cloud.tokens { stage.simulator.setToken(token, Self.quotaExceeded) }
          let phones = try await stage.androids(5, at: server)
          try await compare("30 devices of Nextcloud", Post(stage, server, to: phones), 25) {
            try? await cloud.notify(each: 20)
          }
        }
      }
    }

    @Test func `Devices of another chat server's that get too many`() async throws {
      try await beside(Self.quotaExceeded, of: 25, each: 20, count: 25) { stage, server, count in
        try await stage.androids(count, at: server)
      }
    }

    @Test func `A device for which FCM may not ask Apple`() async throws {
      try await beside(Self.thirdPartyAuthError, of: 1, each: 100, count: 100) { stage, server, count in
        try await stage.androids(count, at: server)
      }
    }

    @Test(arguments: [(otherKey, 20, 100), (otherKey, 12, 1), (inAnHour, 4, 1), (inAnHour, 4, 50)])
    func `Subscriptions that refuse at one's push service`(
      _ rule: TokenRule, devices: Int, each: Int
    ) async throws {
      try await Stage.test { stage in
        try await stage.serve("--log.level", "notice") { running, server in
          try await beside(rule, of: devices, each: each, count: 96, stage, running, server) {
            server, count in
            try await stage.subscribers(count, at: server, of: running)
          }
        }
      }
    }

    private func beside(
      _ rule: TokenRule, of devices: Int, each: Int, count: Int,
      phones: (Stage, ChatServer, Int) async throws -> [VirtualPhone]
    ) async throws {
      try await Stage.test { stage in
        try await stage.serve("--log.level", "notice") { running, server in
          try await beside(rule, of: devices, each: each, count: count, stage, running, server) {
            try await phones(stage, $0, $1)
          }
        }
      }
    }

    /// Another server has as many devices with that rule, to each of which it sends as many notifications at once.
    private func beside(
      _ rule: TokenRule, of devices: Int, each: Int, count: Int, _ stage: Stage, _ running: Running,
      _ server: ChatServer, phones: (ChatServer, Int) async throws -> [VirtualPhone]
    ) async throws {
      let stranger = try await stage.anotherServer("chat.example.net", at: running)
      let strangers = try await phones(stranger, devices)
      for phone in strangers { stage.simulator.setToken(phone.address, rule) }
      let what = "\(devices) devices, \(each) each, \(rule.status) \(rule.retryAfter ?? "")"
      try await compare(what, Post(stage, server, to: phones(server, 8)), count, isOnce: each == 1) {
        for _ in 0..<each where !Task.isCancelled { _ = try? await stranger.mark(strangers) }
      }
    }

    /// Sends so many in quiet, and as many once strangers have sent theirs, who go on meanwhile.
    ///
    /// - Parameter isOnce: the strangers do not go on.
    private func compare(
      _ what: String, _ post: Post, _ count: Int, isOnce: Bool = false,
      strangers send: @escaping @Sendable () async -> Void
    ) async throws {
      await post.send(count, every: .milliseconds(50))
      let quiet = await post.delays(until: .now + .seconds(25))
      await send()
      let others = Task {
        while !isOnce, !Task.isCancelled {
          try? await Task.sleep(for: .milliseconds(500))
          await send()
        }
      }
      await post.send(count, every: .milliseconds(50))
      let beset = await post.delays(until: .now + .seconds(25))
      others.cancel()
      await others.value
      print("\(what): in quiet \(quiet); beset \(beset)")
      #expect(post.lost == [] && post.twice == 0)
      #expect(quiet.isComplete && beset.isComplete)
      let (usual, p99) = (quiet.p99 ?? .zero, beset.p99 ?? .seconds(25))
      #expect(p99 <= max(usual * 3, .seconds(2)))
    }
  }
}

extension Stage {
  /// Brings in so many phones with Google.
  fileprivate func androids(_ count: Int, at server: ChatServer) async throws -> [VirtualPhone] {
    var phones: [VirtualPhone] = []
    for _ in 0..<count {
      let phone = Self.phone(.fcm)
      try await register(phone, at: server)
      phones.append(phone)
    }
    return phones
  }
}

extension VirtualPhone {
  /// What its provider knows it by.
  fileprivate var address: String { subscriptions.last.map { String($0.id) } ?? token }
}
