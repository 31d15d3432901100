import Basics
import Delivery
import Foundation
import HTTP
import HTTPTypes
import Providers
import Registrations
import SQL
import Sealing
import TestService
import TestSupport
import Testing

@testable import ZulipBouncer

@Suite("A server's pace")
struct PaceTests {
  private static let start = Date(timeIntervalSince1970: 1_790_000_000)
  private static let limit = RateLimit(calls: 4, seconds: 60)

  private func deliveries(_ count: Int) -> [RegisteredPush] {
    (0..<count).map { id in
      RegisteredPush(
        push: .fcm(FCMMessage(token: "a", data: [:])),
        registration: .init(.e2ee, id: Int64(id), registeredAt: Self.start), owner: .chatServer(1))
    }
  }

  /// In how many seconds each of so many is due; nil: at once.
  private func times(_ pace: NotificationPace, _ count: Int, of server: Int64 = 1, at now: TimeInterval = 0)
    throws -> [TimeInterval?]
  {
    try pace.pace(deliveries(count), of: server).map { delivery in
      delivery.notBefore.map { ($0.timeIntervalSince(Self.start) - now).rounded() }
    }
  }

  @Test
  func `lets as many as the limit go at once, and the rest one after the other`() throws {
    let clock = TestClock(Self.start)
    let pace = NotificationPace(Self.limit, now: { clock.now })
    #expect(try times(pace, 3) == [nil, nil, nil])
    #expect(try times(pace, 4) == [nil, 15, 30, 45])
    // Nobody pays for another.
    #expect(try times(pace, 4, of: 2) == [nil, nil, nil, nil])
    // Ten times the limit in excess comes out over ten windows.
    #expect(try times(pace, 37).last == 600)
    #expect([1, 2].map { pace.delay(of: $0).rounded() } == [600, 0])
    // What is late keeps its time, and the pace recovers with it.
    clock.advance(600)
    #expect(try times(pace, 1, at: 600) == [15])
    clock.advance(75)
    #expect(try times(pace, 5, at: 675) == [nil, nil, nil, nil, 15])
  }

  @Test
  func `has an end: what waits is bounded`() throws {
    let clock = TestClock(Self.start)
    let pace = NotificationPace(Self.limit, now: { clock.now })
    _ = try pace.pace(deliveries(4 + 60), of: 1)
    // A request is taken whole or not at all.
    _ = try pace.pace(deliveries(4), of: 1)
    let refusal = #expect(throws: APIError.self) { try pace.pace(deliveries(1), of: 1) }
    #expect(refusal?.status == .serviceUnavailable)
    #expect(refusal?.headers[.retryAfter] == "60")
    #expect(try pace.pace([], of: 1).isEmpty)
    #expect(try times(pace, 1, of: 2) == [nil])
    clock.advance(61)
    #expect(try times(pace, 1, at: 61).first == 15 * 60 + 14)
    // A clock that was wrong for a moment holds nobody up for longer than the share.
    clock.set(Self.start - 86_400)
    #expect(throws: APIError.self) { try pace.pace(deliveries(1), of: 1) }
    clock.advance(121)
    _ = try pace.pace(deliveries(1), of: 1)
    #expect(
      try NotificationPace(nil, now: { Self.start }).pace(deliveries(99), of: 1).allSatisfy {
        $0.notBefore == nil
      })
  }

  @Test
  func `holds nobody up after a clock that was ahead for a moment`() throws {
    let clock = TestClock(Self.start)
    let pace = NotificationPace(Self.limit, now: { clock.now })
    clock.advance(86_400)
    #expect(try times(pace, 2, at: 86_400) == [nil, nil])
    clock.set(Self.start)
    #expect(try times(pace, 3) == [nil, nil, 15])
  }
}
