import Basics
import Foundation
import Testing

@testable import Delivery

@Suite struct ScheduleTests {
  private let now = Date(timeIntervalSince1970: 1_790_000_000)

  @Test func `While APNs is out of order pauses double from a quarter of a minute to one of an hour`() {
    let backoff = Backoff.outage
    #expect((1...8).map { backoff.pause(after: $0, random: 0) } == [15, 30, 60, 120, 240, 480, 900, 900])
    #expect(backoff.pause(after: 1, random: 1) == 18)
  }

  @Test(arguments: [0, 0.3, 1])
  func `Nothing is tried before the provider allows it, and not by all at that very moment`(random: Double) {
    let backoff = Backoff(first: 2, longest: 300)
    #expect(backoff.next(after: 1, now: now, notBefore: now + 60, random: random) == now + 60 + 2 * random)
    #expect(backoff.next(after: 9, now: now, notBefore: now + 600, random: random) <= now + 602)
  }

  @Test func `What the provider allowed long ago does not shorten the pause`() {
    let backoff = Backoff(first: 2, longest: 300)
    #expect(backoff.next(after: 5, now: now, notBefore: now - 60, random: 1) == now + 32)
    #expect(backoff.next(after: 3, now: now, notBefore: nil, random: 0.5) == now + 4)
  }

  @Test func `A sendWindow doubles while it goes well, to its largest, and falls to one`() {
    var sendWindow = SendWindow()
    var windows: [Int] = []
    for _ in 0..<8 {
      windows.append(sendWindow.window)
      sendWindow.ended(tries: sendWindow.window, failures: 0, notBefore: nil, now: now)
    }
    #expect(windows == [1, 2, 4, 8, 16, 32, 64, 64])
    #expect(!sendWindow.isPaused(at: now))
    sendWindow.ended(tries: 64, failures: 33, notBefore: nil, now: now)
    #expect(sendWindow.window == 1)
  }

  @Test func `Failures that are not more than half hold up only their own`() {
    var sendWindow = SendWindow()
    for _ in 0..<4 { sendWindow.ended(tries: sendWindow.window, failures: 0, notBefore: nil, now: now) }
    sendWindow.ended(tries: 16, failures: 8, notBefore: now + 60, now: now)
    #expect(sendWindow.window == 16)
    #expect(!sendWindow.isPaused(at: now))
  }

  @Test func `Failures pause a route for as long as its provider asks, and for a moment at least`() {
    var sendWindow = SendWindow()
    for (notBefore, pausedUntil) in [(nil, now + 0.5), (now - 5, now + 0.5), (now + 30, now + 30)] {
      sendWindow.ended(tries: 1, failures: 1, notBefore: notBefore, now: now)
      #expect(sendWindow.isPaused(at: now) && sendWindow.isPaused(at: pausedUntil - 0.001))
      #expect(!sendWindow.isPaused(at: pausedUntil))
      // The clock was put back.
      #expect(!sendWindow.isPaused(at: now - 3600))
    }
  }
}
