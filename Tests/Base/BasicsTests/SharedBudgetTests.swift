import Testing

@testable import Basics

@Suite struct SharedBudgetTests {
  @Test func `Who is alone gets three quarters, and whoever comes next finds room`() {
    var budget = SharedBudget<Int>(1000)
    for holder in 0..<4 {
      while budget.take(of: holder) {}
    }
    #expect((0..<4).map { budget[$0] } == [750, 188, 47, 12])
    #expect(budget.total == 997)
    // Who has most is refused until it has less.
    budget.release(100, of: 0)
    #expect(budget.refusal(to: 0) == .share)
    #expect(budget.take(of: 1) && budget[1] == 189)
  }

  @Test func `As much is taken at once as one by one`() {
    for own in stride(from: 0, through: 1000, by: 50) {
      for others in stride(from: 0, through: 1000 - own, by: 50) {
        var budget = SharedBudget<Int>(1000)
        budget.add(own, of: 1)
        budget.add(others, of: 2)
        let room = budget.room(for: 1)
        #expect(budget.refusal(of: room, to: 1) == nil)
        #expect(budget.refusal(of: room + 1, to: 1) != nil)
        var count = 0
        while FairShare.allows(own: own + count, total: own + others + count, limit: 1000) { count += 1 }
        #expect(count == room)
      }
    }
  }

  @Test func `A fixed share is a bound for one, and the limit for all`() {
    var budget = SharedBudget<Int>(10, most: 4)
    #expect(!budget.take(5, of: 1) && budget.refusal(of: 5, to: 1) == .share)
    #expect(budget.take(4, of: 1) && budget.take(4, of: 2))
    #expect(budget.refusal(to: 1) == .share)
    #expect(budget.refusal(of: 3, to: 3) == .full && budget.room(for: 3) == 2 && !budget.take(3, of: 3))
    // Both: what is free is not kept for who may not have it.
    #expect(budget.refusal(of: 3, to: 1) == .share)
    #expect(budget.take(2, of: 3) && budget.refusal(to: 3) == .full)
    budget.release(4, of: 1)
    #expect(budget.take(2, of: 3) && budget.total == 8)
  }

  @Test func `What is nobody's counts for all, and needs no share`() {
    var budget = SharedBudget<Int>(10, most: 2)
    #expect(budget.take(7, of: nil) && budget.total == 7)
    #expect(!budget.take(4, of: nil) && budget.refusal(of: 4, to: nil) == .full)
    #expect(budget.take(2, of: 1) && budget.refusal(of: 2, to: 2) == .full)
    budget.release(7, of: nil)
    #expect(budget.total == 2)
  }

  @Test func `Nobody gives back what it does not have, and who has nothing takes no memory`() {
    var budget = SharedBudget<Int>(1000)
    for holder in 0..<100_000 {
      budget.add(of: holder)
      budget.release(2, of: holder)
      budget.release(of: holder)
    }
    #expect(budget.total == 0 && budget.held.isEmpty)
    budget.add(2000, of: 1)
    #expect(budget.room(for: 2) == 0 && !budget.take(of: 2))
    budget.release(1500, of: 1)
    #expect(budget.total == 500 && budget.take(of: 2))
  }
}
