import Foundation
import Registrations
import SQL
import TestStore
import TestSupport
import Testing

@Suite struct LeasedQueueTests {
  /// A queue whose rows 1 to 4 came due 40, 30, 20 and 10 seconds ago, the odd ones in lane 1 and the others in lane 0.
  private struct Stage {
    let store: Store

    init() async throws {
      store = try await Store()
      let now = store.clock.now
      try await store.database.write { connection in
        try connection.run(
          Statement(
            """
            CREATE TABLE jobs (
              number BIGINT PRIMARY KEY, lane BIGINT NOT NULL, due_at BIGINT NOT NULL, attempts BIGINT NOT NULL,
              reason TEXT)
            """))
        for number in Int64(1)...4 {
          let due = now - TimeInterval(50 - 10 * number)
          try connection.run(
            Statement(
              "INSERT INTO jobs VALUES ($1, $2, $3, 0, NULL)", .integer(number), .integer(number % 2),
              .integer(due.milliseconds)))
        }
      }
    }

    func queue(
      where condition: String = "TRUE", changing change: String? = nil, order: String = "due_at"
    ) -> LeasedQueue {
      LeasedQueue(
        "jobs", key: "number", columns: "lane, reason", where: condition, changing: change, order: order,
        longestPause: 600, database: store.database, now: { [clock = store.clock] in clock.now })
    }

    func numbers(of taken: [(lease: LeasedQueue.Lease, row: Row)]) -> [Int64] {
      taken.map(\.lease.id).sorted()
    }
  }

  @Test func `The longest due are taken first, and by nobody else before their lease ends`() async throws {
    let stage = try await Stage()
    let queue = stage.queue()
    #expect(try await queue.take(limit: 0, for: 60).isEmpty)
    let first = try await queue.take(limit: 3, for: 60)
    #expect(stage.numbers(of: first) == [1, 2, 3])
    #expect(first.allSatisfy { $0.lease.attempts == 1 })
    #expect(stage.numbers(of: try await queue.take(limit: 9, for: 90)) == [4])
    #expect(try await queue.take(limit: 9, for: 60).isEmpty)
    stage.store.clock.advance(60)
    let second = try await queue.take(limit: 9, for: 60)
    #expect(stage.numbers(of: second) == [1, 2, 3])
    #expect(second.allSatisfy { $0.lease.attempts == 2 })
  }

  @Test func `A lease says what becomes of its row, and of nobody else's`() async throws {
    let stage = try await Stage()
    let queue = stage.queue()
    let now = stage.store.clock.now
    let leases = try await queue.take(limit: 9, for: 60).map(\.lease).sorted { $0.id < $1.id }
    try await queue.postpone(leases[0], until: now, changing: "reason = $5", .text("away"))
    try await queue.postpone([leases[1]], until: now + 30)
    let removal = queue.removal(of: leases[2])
    #expect(try await stage.store.database.write { try $0.run(removal) } == 1)
    let again = try await queue.take(limit: 9, for: 60)
    #expect(again.map(\.lease) == [.init(id: 1, attempts: 2, end: now + 60)])
    #expect(try again.first?.row.text("reason") == "away")

    // What the first lease of row 1 says counts no more; nor does one of a row that another was put in the place of.
    let newer = LeasedQueue.Lease(id: 4, attempts: 1, end: now + 61)
    try await queue.postpone([leases[0], newer], until: now)
    for lease in [leases[0], newer, leases[2]] {
      let removal = queue.removal(of: lease)
      #expect(try await stage.store.database.write { try $0.run(removal) } == 0)
    }
    #expect(try await queue.take(limit: 9, for: 60).isEmpty)
    #expect(try await queue.count() == 3)

    // What is done with is done with.
    try await queue.finish([])
    try await queue.finish([leases[0], leases[3]])
    #expect(try await queue.count() == 1)
    stage.store.clock.advance(30)
    #expect(stage.numbers(of: try await queue.take(limit: 9, for: 60)) == [2])
  }

  @Test func `Rows are taken by what else is asked, in another order, and changed by the way`() async throws {
    let stage = try await Stage()
    let queue = stage.queue(where: "lane = $4", changing: "reason = $5", order: "number DESC")
    let taken = try await queue.take(limit: 1, for: 60, .integer(1), .text("taken"))
    #expect(stage.numbers(of: taken) == [3])
    #expect(try taken.first?.row.int64("lane") == 1)
    #expect(try taken.first?.row.text("reason") == "taken")
    #expect(stage.numbers(of: try await queue.take(limit: 9, for: 60, .integer(0), .null)) == [2, 4])
  }

  @Test func `What a wrong clock has put off is brought forward, and no more than that`() async throws {
    let stage = try await Stage()
    let queue = stage.queue()
    let leases = try await queue.take(limit: 9, for: 60).map(\.lease).sorted { $0.id < $1.id }
    let now = stage.store.clock.now
    try await queue.postpone([leases[0]], until: now + 601)
    try await queue.postpone([leases[1]], until: now + 600)
    try await queue.bringForward()
    #expect(stage.numbers(of: try await queue.take(limit: 9, for: 60)) == [1])
  }

  @Test func `Where the time was set back, all goes that is due later than any lease`() async throws {
    let stage = try await Stage()
    let queue = stage.queue()
    let leases = try await queue.take(limit: 9, for: 60).map(\.lease).sorted { $0.id < $1.id }
    let now = stage.store.clock.now
    let longest = LeasedQueue.longestLease / .seconds(1)
    try await queue.postpone([leases[0]], until: now + longest + 1)
    try await queue.postpone([leases[1]], until: now + longest)
    try await queue.bringForward(isTimeSetBack: true)
    #expect(stage.numbers(of: try await queue.take(limit: 9, for: 60)) == [1])
  }

  @Test func `Of many who take at once each gets others`() async throws {
    let stage = try await Stage()
    let queue = stage.queue()
    let taken = try await withThrowingTaskGroup(of: [Int64].self) { group in
      for _ in 0..<8 {
        group.addTask { try await queue.take(limit: 1, for: 60).map(\.lease.id) }
      }
      return try await group.reduce(into: []) { $0 += $1 }
    }
    let rest = try await queue.take(limit: 9, for: 60).map(\.lease.id)
    #expect((taken + rest).sorted() == [1, 2, 3, 4])
  }
}
