import Delivery
import Foundation
import HTTP
import ProviderSimulator
import SQL
import TestSupport
import Testing

@testable import NextcloudProxy

/// Anybody may register a device with any token, and send to it with the operator's credential. Tests that
/// one device gets no more than its share.
@Suite("A device that is sent two thousand notifications in one go")
struct DevicePaceTests {
  @Test(arguments: [true, false])
  func `has 60 of them tried at once and a hundred more, one after the other`(isTokenGood: Bool) async throws
  {
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
      #expect(answer.failed == (isTokenGood ? 1840 : 1900))
      func tried() -> Int { bench.simulator.deliveries(includingRefused: true).count }
      #expect(tried() == 60)
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox") == 100)

      // They go when there is room, and none before.
      let next = (bench.clock.now + 9).timeIntervalSince1970 * 1000
      #expect(try await bench.number("SELECT COUNT(*) FROM outbox WHERE due_at < \(Int(next))") == 0)
      try await eventually {
        bench.clock.advance(5)
        return try await bench.number("SELECT COUNT(*) FROM outbox") == 0
      }
      #expect(tried() == 160)
    }
  }

  @Test
  func `gets at once the messages that come after two thousand deletions, or in place of one`() async throws {
    try await ProxyBench.test { bench in
      let phone = ProxyPhone()
      #expect(try await phone.register(at: bench).status == 200)
      bench.clock.stop()
      func waiting(_ condition: String) async throws -> Int64 {
        try await bench.number("SELECT COUNT(*) FROM outbox WHERE \(condition)")
      }
      let deletions = (0..<2000).map { _ in phone.entry("background", priority: "normal") }
      #expect(try await bench.notify(deletions).failed == 1870)
      #expect(try await waiting("is_background = 1") == 100)
      // The deletions have used half of what it may have.
      #expect(try await bench.notify([phone.entry("voip")]).failed == 0)
      #expect(bench.simulator.deliveries().count == 31)
      func told() async throws -> Int64 {
        try await bench.number("SELECT COUNT(*) FROM registrations WHERE failure = 'backlogged'")
      }
      _ = try await bench.database.execute(Statement("UPDATE registrations SET failure = NULL"))
      #expect(try await bench.notify((0..<120).map { _ in phone.entry() }).failed == 0)
      #expect(bench.simulator.deliveries().count == 60)
      #expect(try await told() == 1)
      #expect(try await waiting("is_background = 0") == 91)
      #expect(try await waiting("is_background = 1") == 9)
      // None of the deletions that come now takes its place.
      #expect(try await bench.notify([phone.entry("background")]).failed == 1)
      try await eventually {
        bench.clock.advance(5)
        return try await waiting("TRUE") == 0
      }
      #expect(bench.simulator.deliveries().count == 160)
    }
  }

  @Test
  func `is sent the next one at once when nothing waits any more, as the refused ones count for no pace`()
    async throws
  {
    try await ProxyBench.test { bench in
      let phone = ProxyPhone()
      #expect(try await phone.register(at: bench).status == 200)
      bench.clock.stop()
      #expect(try await bench.notify((0..<1000).map { _ in phone.entry() }).failed == 840)
      try await eventually {
        bench.clock.advance(1)
        return try await bench.number("SELECT COUNT(*) FROM outbox") == 0
      }
      // Refused ones alone would take minutes.
      bench.clock.advance(10)
      #expect(try await bench.notify([phone.entry()]).failed == 0)
      #expect(bench.simulator.deliveries().count == 161)
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
