import AsyncHTTPClient
import Foundation
import ProviderSimulator
import Providers
import Sealing
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// Tests that strangers whose tokens a provider or push service refuses, in various ways, do not delay the
  /// notifications of a regular server on the same route.
  @Suite(.stage) struct FairnessTests {
    private let stage = Fixture<Stage>.current

    private static let quotaExceeded = TokenRule(status: 429, reason: "QUOTA_EXCEEDED")
    private static let thirdPartyAuthError = TokenRule(status: 401, reason: "THIRD_PARTY_AUTH_ERROR")
    private static let otherKey = TokenRule(status: 403)
    private static let inAnHour = TokenRule(status: 429, retryAfter: "3600")

    @Test func `Devices of a stranger's at the push proxy that get too many`() async throws {
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

    /// How another chat server's devices are refused, how many, how often each is sent to at once, and how much the server
    /// that belongs here sends.
    typealias Neighbour = (rule: TokenRule, isWebPush: Bool, devices: Int, each: Int, count: Int)

    private static let neighbours: [Neighbour] = [
      (quotaExceeded, false, 25, 20, 25), (thirdPartyAuthError, false, 1, 100, 100),
      (otherKey, true, 20, 100, 96), (otherKey, true, 12, 1, 96), (inAnHour, true, 4, 1, 96),
      (inAnHour, true, 4, 50, 96),
    ]

    @Test(arguments: neighbours) func `Another chat server's devices that are refused`(_ one: Neighbour)
      async throws
    {
      try await stage.serve("--log.level", "notice") { running, server in
        func phones(_ count: Int, at server: ChatServer) async throws -> [VirtualPhone] {
          one.isWebPush
            ? try await stage.subscribers(count, at: server, of: running)
            : try await stage.androids(count, at: server)
        }
        let stranger = try await stage.anotherServer("chat.example.net", at: running)
        let strangers = try await phones(one.devices, at: stranger)
        for phone in strangers { stage.simulator.setToken(phone.address, one.rule) }
        let what = "\(one.devices) devices, \(one.each) each, \(one.rule.status)"
        let post = Post(stage, server, to: try await phones(8, at: server))
        try await compare(what, post, one.count, isOnce: one.each == 1) {
          for _ in 0..<one.each where !Task.isCancelled { _ = try? await stranger.mark(strangers) }
        }
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
      let quiet = await post.delays(until: .now + longestWait)
      await send()
      let others = Task {
        while !isOnce, !Task.isCancelled {
          try? await Task.sleep(for: .milliseconds(500))
          await send()
        }
      }
      await post.send(count, every: .milliseconds(50))
      let beset = await post.delays(until: .now + longestWait)
      others.cancel()
      await others.value
      print("\(what): in quiet \(quiet); beset \(beset)")
      #expect(post.lost == [] && post.twice == 0)
      #expect(quiet.isComplete && beset.isComplete)
      let (usual, p99) = (quiet.p99 ?? .zero, beset.p99 ?? longestWait)
      #expect(p99 <= max(usual * 3, .seconds(2)))
    }
  }
}

extension Stage {
  /// Registers `count` phones with FCM.
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
  /// Its token at the provider.
  fileprivate var address: String { subscriptions.last.map { String($0.id) } ?? token }
}
