import Delivery
import Providers
import Testing

@Suite("The memory for notifications under way")
struct WorkBudgetTests {
  @Test
  func `is never all one owner's, and has room for who has none`() throws {
    let budget = WorkBudget(limit: 1000)
    let first = try budget.charge(750, to: .chatServer(1))
    #expect(throws: WorkBudget.Exceeded.self) { try budget.charge(1, to: .chatServer(1)) }
    for (server, room) in [(2, 188), (3, 47), (4, 12)] as [(Int64, Int)] {
      #expect(throws: WorkBudget.Exceeded.self) { try budget.charge(room + 1, to: .chatServer(server)) }
      _ = try budget.charge(room, to: .chatServer(server))
    }
    first.release()
    #expect(budget.bytes == 247)
    try budget.charge(500, to: .chatServer(1)).release()
    #expect(budget.bytes == 247)
  }
}
