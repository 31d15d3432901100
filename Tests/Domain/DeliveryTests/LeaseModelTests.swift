import Foundation
import SQL
import TestSupport
import Testing

@testable import Delivery
@testable import Registrations

/// Compares the real outbox with the model of its leases (`Documentation/Proof/LeaseModel.md`).
@Suite struct LeaseModelTests {
  /// A line of `outbox.steps`: what a step of the model does to a row.
  private struct Step {
    struct Row: Hashable {
      let attempts: Int
      let due: Int

      /// `ATTEMPTS@DUE`
      init?(_ text: Substring) {
        let numbers = text.split(separator: "@").compactMap { Int($0) }
        guard numbers.count == 2 else { return nil }
        (attempts, due) = (numbers[0], numbers[1])
      }

      init(attempts: Int, due: Int) { (self.attempts, self.due) = (attempts, due) }
    }

    let name: Substring
    let before: Row?
    let after: Row?
    let lease: Row?
    /// What the clock shows, or until when the row waits.
    let time: Int?

    init(_ line: Substring) throws {
      let words = line.split(separator: " ")
      (name, before, after) = (words[0], Row(words[1]), Row(try #require(words.last)))
      func argument(_ names: Substring...) -> Substring? {
        words.firstIndex { names.contains($0) }.map { words[$0 + 1] }
      }
      lease = argument("under").flatMap { Row($0) }
      time = argument("at", "until").flatMap { Int($0) }
    }
  }

  @Test func `The outbox's rows change as the model says`() async throws {
    let table = URL(filePath: #filePath).appending(path: "../../../Proof/Model/outbox.steps")
      .standardizedFileURL
    let lines = try String(contentsOf: table, encoding: .utf8).split(separator: "\n")
    let ticks = lines[0].split { !$0.isNumber }.compactMap { Int($0) }
    try #require(ticks.count == 3 && lines.count > 200)
    let tick = LeasedQueue.longestLease / .seconds(ticks[1])
    let store = try await OutboxStore()
    let outbox = Outbox(
      database: store.database, storageKey: store.outbox.storageKey, maxAge: 86_400,
      longestPause: TimeInterval(ticks[2]) * tick, now: { [clock = store.clock] in clock.now })
    let start = store.clock.now
    func date(_ ticks: Int) -> Date { start + TimeInterval(ticks) * tick }
    let push = RegisteredPush.sample("one", collapseID: "c")

    for line in lines.dropFirst() {
      let step = try Step(line)
      store.clock.set(date(0))
      var id: Int64 = 1
      _ = try await store.database.execute(Statement("DELETE FROM outbox"))
      if let row = step.before {
        let kept = try await outbox.keep([(push, OutboxStore.route, date(0))])
        id = try #require(kept[0].lease).id
        _ = try await store.database.execute(
          Statement(
            "UPDATE outbox SET attempts = $1, due_at = $2", .integer(Int64(row.attempts)),
            .integer(date(row.due).milliseconds)))
      }
      let lease = step.lease.map {
        Outbox.Lease(row: .init(id: id, attempts: $0.attempts, end: date($0.due)), share: nil)
      }
      let time = step.time.map(date)
      switch step.name {
      case "keep": try await outbox.keep([(push, OutboxStore.route, try #require(time))])
      case "lease":
        store.clock.set(try #require(time))
        let taken = try await outbox.lease(OutboxStore.route, limit: 1, for: TimeInterval(ticks[0]) * tick)
        #expect(taken.isEmpty == (step.before == step.after), "\(line)")
      case "remove": try await outbox.settle([(try #require(lease), nil)])
      case "postpone": try await outbox.settle([(try #require(lease), .init(until: try #require(time)))])
      case "bring-forward", "set-back":
        store.clock.set(try #require(time))
        try await outbox.queue.bringForward(isTimeSetBack: step.name == "set-back")
      default: Issue.record("an unknown step: \(line)")
      }
      let rows = try await store.database.query(Statement("SELECT attempts, due_at FROM outbox"))
      let after = try rows.map { row in
        let due = TimeInterval(try row.int64("due_at") - start.milliseconds) / 1000 / tick
        return Step.Row(attempts: Int(try row.int64("attempts")), due: Int(due))
      }
      #expect(after == (step.after.map { [$0] } ?? []), "\(line)")
    }
  }
}
