import Foundation
import Testing

@testable import Delivery

@Suite struct LineBudgetTests {
  private static let start = Date(timeIntervalSince1970: 1_800_000_000)

  @Test func `So many lines are written in a minute, and the rest is counted`() {
    var budget = LineBudget(perMinute: 60)
    #expect(budget.spend(40, now: Self.start) == 40)
    #expect(budget.spend(40, now: Self.start + 30) == 20)
    #expect(budget.spend(1, now: Self.start + 59) == 0)
    #expect(budget.takeLeftOut(now: Self.start + 59) == 0)
    #expect(budget.takeLeftOut(now: Self.start + 60) == 21)
    #expect(budget.takeLeftOut(now: Self.start + 61) == 0)
    #expect(budget.spend(100, now: Self.start + 60) == 60)
  }

  @Test func `A clock that is put back begins a new minute`() {
    var budget = LineBudget(perMinute: 60)
    _ = budget.spend(100, now: Self.start)
    #expect(budget.takeLeftOut(now: Self.start - 3600) == 40)
    #expect(budget.spend(1, now: Self.start - 3600) == 1)
  }
}
