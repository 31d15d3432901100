import Foundation
import HTTP
import HTTPTypes
import TestService
import TestSupport
import Testing

@testable import Basics
@testable import HTTPClient
@testable import ZulipBouncer

@Suite("Whoever tries to prove a hostname")
struct ChallengeTurnsTests {
  /// A bouncer with a registered server at a host, whose addresses are those of this machine.
  private func withHost(
    _ settings: [String: String] = [:], _ test: @escaping @Sendable (Bouncer, OthersHost) async throws -> Void
  ) async throws {
    try await OthersHost.run { host in
      let own = [
        "bouncer.verify_ca_file": host.caFile, "bouncer.verify_allow_private_addresses": "true",
        "http.rate_limit.per_address": "0",
      ]
      try await Bouncer.test(own.merging(settings) { $1 }) { bouncer in
        _ = try await bouncer.server(host.name)
        try await test(bouncer, host)
      }
    }
  }

  private func verify(
    _ hostname: String, _ bouncer: Bouncer, from address: String, token: String = "abc"
  ) async throws -> Answer {
    try await bouncer.call(
      "server/register/verify_challenge", type: "application/x-www-form-urlencoded", from: address,
      body: Array("hostname=\(hostname)&access_token=\(token)".utf8))
  }

  @Test
  func `has ten tries an hour of each hostname, and takes none from others`() async throws {
    try await withHost { bouncer, host in
      for _ in 0..<30 { _ = try await verify(host.name, bouncer, from: "192.0.2.1") }
      #expect(host.seen.count == 10)
      let refused = try await verify(host.name, bouncer, from: "192.0.2.1")
      #expect(refused.status == 429 && refused.code == "RATE_LIMIT_HIT")
      #expect(refused.headers[.retryAfter] != nil)
      #expect(
        refused.message == """
          The global limits on recent usage of this endpoint have been reached. Please try again later or reach out \
          to the operator of this service for assistance.
          """)
      for address in ["192.0.2.2", "127.0.0.1"] {
        let secret = try await bouncer.post("server/register/transfer", [("hostname", host.name)])
        host.reply(200, secret.text)
        #expect(try await verify(host.name, bouncer, from: address).isSuccess, "\(address)")
      }
      // Of another hostname it has ten more.
      _ = try await bouncer.server("127.0.0.2")
      #expect(try await verify("127.0.0.2", bouncer, from: "192.0.2.1").status == 400)
      bouncer.clock.advance(3600)
      #expect(try await verify(host.name, bouncer, from: "192.0.2.1").status == 400)
    }
  }

  @Test
  func `at the hostname itself is counted apart, however many others there are`() async throws {
    try await withHost { (bouncer, host) async throws in
      for _ in 0..<10 { #expect(try await verify(host.name, bouncer, from: "127.0.0.1").status == 400) }
      #expect(try await verify(host.name, bouncer, from: "127.0.0.1").status == 429)
      #expect(try await verify(host.name, bouncer, from: "192.0.2.1").status == 400)
      bouncer.clock.advance(3600)
      #expect(try await verify(host.name, bouncer, from: "127.0.0.1").status == 400)
    }
  }

  @Test
  func `waits for its turn behind one call of each other caller, and for none at the hostname itself`()
    async throws
  {
    try await withHost { bouncer, host in
      let (opened, open) = AsyncStream.makeStream(of: Never.self)
      host.reply { _ in
        for await _ in opened {}
        return OthersHost.response(404, "")
      }
      let turns = bouncer.parts.challenges
      try await withThrowingTaskGroup(of: Int.self) { calls in
        func call(_ token: String, from address: String) {
          calls.addTask { try await verify(host.name, bouncer, from: address, token: token).status }
        }
        call("first", from: "192.0.2.1")
        await eventually("the first is at the host") { host.seen.count == 1 }
        call("second", from: "192.0.2.1")
        await eventually("the second waits") { turns.callers.waiting == 1 }
        call("other", from: "192.0.2.2")
        await eventually("the other one waits") { turns.registered.waiting == 1 }
        call("own", from: "127.0.0.1")
        await eventually("its own is at the host") { host.seen.count == 2 }
        open.finish()
        for try await status in calls { #expect(status == 400) }
      }
      #expect(
        host.seen.map(\.path)
          == ["first", "own", "other", "second"].map { "/api/v1/zulip-services/verify/\($0)/" })
    }
  }
  @Test
  func `has 32 of a kind beside it at most`() async throws {
    let turns = ChallengeTurns { Date() }
    let (opened, open) = AsyncStream.makeStream(of: Never.self)
    try await withThrowingTaskGroup(of: Void.self) { calls in
      for number in 1...33 {
        let hostname = try Hostname("192.0.2.\(number)")
        let caller = try #require(ClientAddress("198.51.100.\(number)"))
        calls.addTask {
          try await turns.run(hostname, isRegistered: false, for: caller) {
            for await _ in opened {}
          }
        }
      }
      await eventually("32 have begun, one waits") { turns.new.taken == 32 && turns.new.waiting == 1 }
      // Those of registered servers do not wait for them.
      let caller = try #require(ClientAddress("203.0.113.1"))
      try await turns.run(try Hostname("192.0.2.1"), isRegistered: true, for: caller) {}
      open.finish()
      try await calls.waitForAll()
    }
  }
}
