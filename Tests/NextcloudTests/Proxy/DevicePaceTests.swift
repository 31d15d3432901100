import Foundation
import HTTP
import ProviderSimulator
import TestSupport
import Testing

@testable import NextcloudProxy

/// Anybody may register a device with any token, and send to it with the operator's credential. Tests that
/// one device gets no more than its share.
@Suite("A device that is sent two thousand notifications in one go")
struct DevicePaceTests {
  @Test(arguments: [true, false])
  func `has 240 of them tried at once and a hundred one after the other`(isTokenGood: Bool) async throws {
    try await ProxyBench.test { bench in
      let phone = ProxyPhone()
      #expect(try await phone.register(at: bench).status == 200)
      if !isTokenGood {
        bench.simulator.setToken(phone.token, TokenRule(status: 400, reason: "INVALID_ARGUMENT"))
      }
      bench.clock.stop()
      let answer = try await bench.notify((0..<2000).map { _ in phone.entry() })
      // Those that the provider refuses have failed, too.
      #expect(answer.status == 200 && answer.unknown == [])
      #expect(answer.failed == (isTokenGood ? 1660 : 1900))
      func tried() -> Int { bench.simulator.deliveries(includingRefused: true).count }
      #expect(tried() == 240)
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 100)

      // One more is due every quarter of a second at most, and nothing before.
      bench.clock.advance(10)
      await eventually { tried() > 240 }
      #expect(tried() <= 280)
      try await eventually {
        bench.clock.advance(1)
        return try await bench.number("SELECT COUNT(*) FROM outbox") == 0
      }
      #expect(tried() == 340)
    }
  }

  @Test
  func `is sent the next one at once when nothing waits any more, as the refused ones count for no pace`()
    async throws
  {
    try await ProxyBench.test({
      // Refused ones alone would take up all of the second.
      $0.notificationsPerDevice = [
        RateLimit(calls: 240, seconds: 60), RateLimit(calls: 400, seconds: 3600),
      ]
    }) { bench in
      let phone = ProxyPhone()
      #expect(try await phone.register(at: bench).status == 200)
      bench.clock.stop()
      #expect(try await bench.notify((0..<1000).map { _ in phone.entry() }).failed == 660)
      try await eventually {
        bench.clock.advance(1)
        return try await bench.number("SELECT COUNT(*) FROM outbox") == 0
      }
      bench.clock.advance(1)
      #expect(try await bench.notify([phone.entry()]).failed == 0)
      #expect(bench.simulator.deliveries().count == 341)
    }
  }

  @Test
  func `has those counted that were tried and then refused for the backlog`() async throws {
    try await ProxyBench.test({ $0.notificationsPerDevice = [RateLimit(calls: 240, seconds: 86_400)] }) {
      bench in
      let phone = ProxyPhone()
      #expect(try await phone.register(at: bench).status == 200)
      bench.clock.stop()
      bench.simulator.setToken(phone.token, TokenRule(status: 503, reason: "UNAVAILABLE"))
      #expect(try await bench.notify((0..<240).map { _ in phone.entry() }).failed == 140)
      bench.simulator.setToken(phone.token, nil)
      try await eventually {
        bench.clock.advance(1)
        return try await bench.number("SELECT COUNT(*) FROM outbox") == 0
      }
      let before = bench.simulator.deliveries().count
      // One becomes free every six minutes.
      #expect(try await bench.notify((0..<100).map { _ in phone.entry() }).failed == 0)
      #expect(bench.simulator.deliveries().count - before < 40)
    }
  }
}

@Suite("Notifications that were sent")
struct SentNotificationsTests {
  @Test
  func `are forgotten the oldest first where there are too many to remember`() {
    let time = Date()
    let sent = SentNotifications(now: { time })
    func keys(_ range: Range<UInt64>) -> [SentNotifications.Key] {
      range.map { .init(device: 1, signature: SIMD2($0, 0)) }
    }
    sent.add(keys(0..<100_000))
    #expect(sent.areRepeated(keys(0..<100_000)).allSatisfy { $0 })
    sent.add(keys(100_000..<100_001))
    #expect(sent.areRepeated(keys(50_000..<100_001)).allSatisfy { $0 })
    #expect(sent.areRepeated(keys(0..<50_000)).allSatisfy { !$0 })
  }
}
