import Foundation
import TestSupport
import Testing

@testable import Platform

/// Two clocks that a test sets, and the guard that compares them.
private struct Clocks {
  var reading: ClockGuard.Reading
  var clock: ClockGuard

  /// - Parameter newest: the newest time in the database, from now; nil if there is none.
  init(newest: TimeInterval?) {
    reading = .init(wall: Date(timeIntervalSince1970: 1_790_000_000), monotonic: .seconds(5))
    clock = ClockGuard(reading)
    hear(newest)
  }

  var now: Date { clock.now(reading) }
  var isTrusted: Bool { clock.isClockTrusted }
  var reason: ClockDoubt.Reason? { clock.doubt?.reason }

  /// Time passes, by both clocks.
  mutating func pass(_ seconds: TimeInterval) {
    reading.wall += seconds
    reading.monotonic += .seconds(seconds)
    clock.compareWithMonotonicClock(reading)
  }

  mutating func jump(_ seconds: TimeInterval) {
    reading.wall += seconds
    clock.compareWithMonotonicClock(reading)
  }

  mutating func hear(_ newest: TimeInterval?) {
    clock.compareWithDatabase(newest.map { reading.wall + $0 }, reading)
  }
}

@Suite struct ClockGuardTests {
  private static let hour: TimeInterval = 3600

  @Test func `It says nothing before the database was heard`() {
    let reading = ClockGuard.Reading(wall: Date(), monotonic: .zero)
    var clock = ClockGuard(reading)
    clock.compareWithMonotonicClock(reading)
    #expect(!clock.isClockTrusted && clock.doubt == nil)
    clock.compareWithDatabase(nil, reading)
    #expect(clock.isClockTrusted)
  }

  @Test(
    arguments: [
      (nil, nil), (0.0, nil), (60, nil), (-12 * hour, nil), (61, .behind(by: 61)),
      (6 * hour, .behind(by: 6 * hour)),
      (-12 * hour - 1, .ahead(by: 12 * hour + 1)), (-25 * hour, .ahead(by: 25 * hour)),
    ] as [(TimeInterval?, ClockDoubt.Reason?)])
  func `At the start it is compared with the newest time in the database`(
    newest: TimeInterval?, reason: ClockDoubt.Reason?
  ) {
    let clocks = Clocks(newest: newest)
    #expect(clocks.reason == reason)
    #expect(clocks.isTrusted == (reason == nil))
  }

  @Test(arguments: [25 * hour, -25 * hour, 61, -61])
  func
    `A clock that does not go along with the other one is doubted, until it has been steady for ten minutes`(
      jump: TimeInterval
    )
  {
    var clocks = Clocks(newest: -30)
    clocks.pass(7 * 86_400)
    #expect(clocks.isTrusted)
    clocks.jump(jump)
    #expect(clocks.reason == .jumped(by: jump))
    clocks.pass(599)
    #expect(!clocks.isTrusted)
    clocks.jump(-jump)
    clocks.pass(599)
    #expect(!clocks.isTrusted)
    clocks.pass(1)
    #expect(clocks.isTrusted && clocks.clock.doubt == nil)
  }

  @Test func `Corrections of a clock that is in order raise no doubt, and those that add up do`() {
    var clocks = Clocks(newest: 0)
    for _ in 0..<100 {
      clocks.pass(601)
      clocks.jump(50)
      clocks.pass(601)
      clocks.jump(-50)
    }
    #expect(clocks.isTrusted)
    clocks.pass(601)
    clocks.jump(50)
    clocks.pass(5)
    clocks.jump(50)
    #expect(!clocks.isTrusted)
  }

  @Test func `A service that was off for a long weekend expires nothing for ten minutes, no longer`() {
    var clocks = Clocks(newest: -3 * 86_400)
    #expect(!clocks.isTrusted)
    clocks.pass(599)
    clocks.clock.compareWithDatabase(clocks.reading.wall - 3 * 86_400 - 599, clocks.reading)
    #expect(!clocks.isTrusted)
    clocks.pass(1)
    #expect(clocks.isTrusted)
  }

  @Test func `Time does not go back before a time that is known, until the clock is trusted`() {
    var clocks = Clocks(newest: 6 * Self.hour)
    let newest = clocks.reading.wall + 6 * Self.hour
    #expect(clocks.now == newest)
    clocks.pass(100)
    #expect(clocks.now == newest + 100)
    // It is set right meanwhile, and a little more.
    clocks.jump(7 * Self.hour)
    #expect(clocks.now == clocks.reading.wall)
    clocks.pass(600)
    #expect(clocks.isTrusted)

    clocks.jump(-6 * Self.hour)
    #expect(clocks.now == clocks.reading.wall + 6 * Self.hour)
    clocks.pass(599)
    #expect(clocks.now == clocks.reading.wall + 6 * Self.hour)
    clocks.pass(1)
    #expect(clocks.isTrusted && clocks.now == clocks.reading.wall)
  }

  @Test func `A clock that was ahead for a moment leaves nothing behind`() {
    var clocks = Clocks(newest: 0)
    clocks.jump(25 * Self.hour)
    #expect(clocks.now == clocks.reading.wall)
    clocks.pass(3)
    clocks.jump(-25 * Self.hour)
    #expect(clocks.now == clocks.reading.wall)
    clocks.jump(-5 * Self.hour)
    #expect(clocks.now == clocks.reading.wall + 5 * Self.hour)
  }

  @Test func `While another node says otherwise it is not trusted, and is as soon as one agrees`() {
    var clocks = Clocks(newest: -25 * Self.hour)
    for _ in 0..<30 {
      clocks.pass(60)
      clocks.hear(-25 * Self.hour)
    }
    #expect(!clocks.isTrusted)
    // That they are an hour apart is not enough.
    clocks.hear(-Self.hour)
    #expect(!clocks.isTrusted)
    clocks.hear(-30)
    #expect(clocks.isTrusted)
  }

  @Test func `A trusted clock is doubted when another one is found ahead of it, or far behind`() {
    var clocks = Clocks(newest: 0)
    clocks.pass(60)
    // Within what a long pause explains, and what nodes differ by.
    clocks.hear(-Self.hour)
    clocks.hear(60)
    #expect(clocks.isTrusted)
    clocks.hear(2 * Self.hour)
    #expect(clocks.reason == .behind(by: 2 * Self.hour))
    clocks.hear(0)
    #expect(clocks.isTrusted)
    clocks.hear(-25 * Self.hour)
    #expect(clocks.reason == .ahead(by: 25 * Self.hour))
  }

  @Test func `What it has written itself tells it nothing`() {
    var clocks = Clocks(newest: 0)
    let written = clocks.reading.wall
    clocks.clock.recordOwnWrite(written)
    // The database was away for a day.
    clocks.pass(25 * Self.hour)
    clocks.clock.compareWithDatabase(written, clocks.reading)
    #expect(clocks.isTrusted)
  }

  @Test func `A time that was set back is told until it is dealt with`() {
    // Ahead while it is doubted: the service's time goes back with it.
    var doubted = Clocks(newest: 0)
    doubted.jump(2 * Self.hour)
    doubted.pass(30)
    doubted.jump(-2 * Self.hour)
    // Trusted until it is put back: the service's time goes on, until it is trusted again.
    var trusted = Clocks(newest: 0)
    trusted.jump(-2 * Self.hour)
    trusted.pass(599)
    #expect(!trusted.clock.isSetBack(for: .zero, trusted.reading))
    trusted.pass(1)
    #expect(trusted.isTrusted)
    for var clocks in [doubted, trusted] {
      #expect(clocks.clock.isSetBack(for: .zero, clocks.reading))
      #expect(!clocks.clock.isSetBack(for: .seconds(2), clocks.reading))
      clocks.pass(2)
      #expect(clocks.clock.isSetBack(for: .seconds(2), clocks.reading))
      clocks.clock.forgetSetBack()
      #expect(!clocks.clock.isSetBack(for: .zero, clocks.reading))
    }
  }

  @Test func `A clock that was put ahead has not set the time back`() {
    var clocks = Clocks(newest: 0)
    clocks.jump(2 * Self.hour)
    clocks.pass(600)
    #expect(clocks.isTrusted)
    #expect(!clocks.clock.isSetBack(for: .zero, clocks.reading))
  }
}
