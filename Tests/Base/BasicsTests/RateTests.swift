import Foundation
import TestSupport
import Testing

@testable import Basics

@Suite struct RateTests {
  private let clock = TestClock()

  private func rate(_ calls: Int, per seconds: Double = 60) -> Rate<Int> {
    Rate(RateLimit(calls: calls, seconds: seconds)) { [clock] in clock.now }
  }

  /// Whether a call is within the limit.
  private func pass(_ rate: Rate<Int>, _ key: Int) -> Bool { rate.count(key).retryAfter == nil }

  @Test func `A window begins with the first call of its key`() {
    let rate = rate(2)
    let begin = clock.now
    #expect(pass(rate, 1))
    clock.advance(30)
    let second = rate.count(1)
    #expect(second.retryAfter == nil)
    #expect(second.window?.remaining == 0 && second.window?.end == begin + 60)
    #expect(rate.count(1).retryAfter == 30)
    #expect(pass(rate, 2))
    clock.advance(30)
    #expect(pass(rate, 1))
  }

  @Test func `Of many calls so many are within the limit`() {
    let rate = rate(10)
    #expect(rate.take(7, of: 1) == 7 && rate.take(7, of: 1) == 3 && rate.take(7, of: 1) == 0)
    #expect(Rate<Int>(nil) { Date() }.take(7, of: 1) == 7)
  }

  @Test func `Without a limit every call passes`() {
    let rate = Rate<Int>(nil) { Date() }
    #expect((0..<10_000).allSatisfy { _ in pass(rate, 1) })
    #expect(rate.count(1).window == nil)
  }

  @Test func `A clock that is put back holds nobody up`() {
    let rate = rate(1)
    #expect(pass(rate, 1) && !pass(rate, 1))
    clock.jump(-86_400)
    #expect(pass(rate, 1) && !pass(rate, 1))
    clock.jump(86_400)
    #expect(pass(rate, 1))
  }

  @Test func `Whom a limit holds back it does not forget because others came`() {
    let rate = rate(2)
    func use(_ key: Int) -> [Bool] { (0..<3).map { _ in pass(rate, key) } }
    #expect(use(-1) == [true, true, false])
    for key in 0..<200_000 { _ = rate.count(key) }
    #expect(!pass(rate, -1))
    // Keys that came when the memory was full share windows, which are kept as well.
    for _ in 0..<2 { _ = rate.count(1_000_000) }
    #expect(!pass(rate, 1_000_000))
    for key in 200_000..<300_000 { _ = rate.count(key) }
    clock.advance(59)
    #expect(!pass(rate, -1) && !pass(rate, 1_000_000))
    clock.advance(1)
    #expect(use(-1) == [true, true, false] && use(1_000_000) == [true, true, false])
  }

  @Test func `Calls over a rate get a later time each, up to what may be booked ahead`() {
    let rate = CellRate<Int>(RateLimit(calls: 10, seconds: 10), windows: 2) { [clock] in clock.now }
    let begin = clock.now
    let first = rate.book(12, of: 1)
    #expect(first.excess == 0 && first.time(of: 9) == nil)
    #expect(first.time(of: 10) == begin + 1 && first.time(of: 11) == begin + 2)
    #expect(rate.delay(of: 1) == 2 && rate.delay(of: 2) == 0)
    #expect(rate.book(30, of: 1).excess == 0)
    // It has 42 seconds, and may have 30: what is refused is not booked.
    #expect(rate.book(1, of: 1).excess == 12 && rate.book(1, of: 1).excess == 12)
    clock.advance(12)
    #expect(rate.book(1, of: 1).excess == 0)
  }

  @Test func `Who is booked ahead is not booked further when the clock is put back`() {
    let rate = CellRate<Int>(RateLimit(calls: 10, seconds: 10), windows: 2) { [clock] in clock.now }
    _ = rate.book(20, of: 1)
    clock.jump(-3600)
    #expect(rate.book(1, of: 1).time(of: 0) == clock.now + 11)
  }
}

@Suite struct BoundedMemoryTests {
  @Test func `A full memory makes room again, and who shared a place keeps what was counted there`() {
    var memory = BoundedMemory<Int, Int>(capacity: 4, lifetime: 10)
    for key in 0..<8 { memory.set(key, for: key, now: 0) }
    #expect((0..<4).allSatisfy { memory.value(of: $0) == $0 })
    #expect(memory.value(of: 7) == 7)
    // Once the old have gone it has a place of its own, with what was counted in the one that it shared.
    for time in [9.0, 11] { memory.set(0, for: 0, now: time) }
    let before = memory.update(7, now: 22) { value in
      defer { value = 71 }
      return value
    }
    #expect(before == 7)
    memory.set(6, for: 6, now: 22)
    #expect(memory.value(of: 7) == 71)
  }

  @Test func `Some keys find less room than others, and take none of theirs`() {
    var memory = BoundedMemory<Int, Int>(capacity: 100, lifetime: 10)
    func addOne(to value: inout Int?) -> Int {
      defer { value = (value ?? 0) + 1 }
      return value ?? 0
    }
    for key in 0..<3 { memory.set(key, for: key, now: 0) }
    // They share slots, each of which many come to.
    let shared = (1000..<100_000).map { memory.update($0, now: 0, capacity: 2, addOne) }
    #expect(shared.count { $0 == 0 } <= 1 << 14)
    // Others have slots of their own, which nobody has come to.
    #expect((3..<100).allSatisfy { memory.update($0, now: 0, addOne) == 0 })
    #expect((3..<100).allSatisfy { memory.update($0, now: 0, addOne) == 1 })
  }

  @Test func `What is kept for a lifetime takes room as long`() {
    var memory = BoundedMemory<Int, Int>(capacity: 4, lifetime: 10)
    for key in 0..<4 { memory.set(key, for: key, now: 0) }
    // It shares a slot, and what is there stays for good.
    memory.set(9, for: 9, now: 11)
    for time in [22.0, 33] { memory.set(0, for: 0, now: time) }
    #expect(memory.value(of: 9) == 9)
  }

  @Test func `Nothing is forgotten when the clock is put back`() {
    var memory = BoundedMemory<Int, Int>(lifetime: 10)
    memory.set(1, for: 1, now: 1000)
    memory.set(2, for: 2, now: 1010)
    memory.set(3, for: 3, now: 500)
    #expect((1...3).allSatisfy { memory.value(of: $0) == $0 })
  }
}
