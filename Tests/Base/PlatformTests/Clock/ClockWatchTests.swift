import Foundation
import Logging
import SQL
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Platform

/// Nodes on one database, each with clocks of its own.
@Suite struct ClockWatchTests {
  private final class Clocks: Sendable {
    private let state: Mutex<(wall: Date, monotonic: Duration)>

    init(_ wall: Date) { state = Mutex((wall, .zero)) }

    var wall: Date { state.withLock { $0.wall } }
    var monotonic: Duration { state.withLock { $0.monotonic } }

    func pass(_ seconds: TimeInterval) {
      state.withLock { $0 = ($0.wall + seconds, $0.monotonic + .seconds(seconds)) }
    }

    func jump(_ seconds: TimeInterval) { state.withLock { $0.wall += seconds } }
  }

  private struct Node {
    let clocks: Clocks
    let time: ServiceTime
    let watch: ClockWatch

    init(_ database: any Database, at wall: Date, queues: [@Sendable (Bool) async throws -> Void] = [])
      async throws
    {
      let clocks = Clocks(wall)
      self.clocks = clocks
      time = ServiceTime(wall: { clocks.wall }, monotonic: { clocks.monotonic })
      watch = ClockWatch(
        time, record: ClockRecord(database: database), queues: queues,
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
      try await watch.compareWithDatabase()
    }

    /// Time passes, and the database is heard now and then.
    func pass(_ seconds: TimeInterval) async throws {
      for _ in 0..<Int(seconds / 60) {
        clocks.pass(60)
        try await watch.compareWithDatabase()
      }
      clocks.pass(seconds.truncatingRemainder(dividingBy: 60))
      try await watch.compareWithDatabase()
    }
  }

  private let start = Date(timeIntervalSince1970: 1_790_000_000.123)

  private func test(_ body: (any Database, ClockRecord) async throws -> Void) async throws {
    let test = try await TestDatabase()
    try await body(test.database, ClockRecord(database: test.database))
    await test.database.close()
  }

  @Test func `A trusted clock is written at the start and once a minute`() async throws {
    try await test { database, record in
      #expect(try await record.newest() == nil)
      let node = try await Node(database, at: start)
      #expect(node.time.isClockTrusted())
      #expect(try await record.newest() == start)
      node.clocks.pass(59)
      try await node.watch.compareWithDatabase()
      #expect(try await record.newest() == start)
      node.clocks.pass(1)
      try await node.watch.compareWithDatabase()
      #expect(try await record.newest() == start + 60)
    }
  }

  @Test func `A clock that is doubted is not written, and is when it is trusted again, also a lesser one`()
    async throws
  {
    try await test { database, record in
      _ = try await Node(database, at: start)
      // For three seconds.
      let wrong = try await Node(database, at: start + 25 * 3600)
      #expect(!wrong.time.isClockTrusted())
      try await wrong.pass(3)
      #expect(try await record.newest() == start)
      #expect(try await Node(database, at: start + 10).time.isClockTrusted())

      let late = try await Node(database, at: start - 6 * 3600)
      #expect(!late.time.isClockTrusted())
      #expect(late.time.now() == start)
      try await late.pass(599)
      #expect(!late.time.isClockTrusted())
      try await late.pass(1)
      #expect(late.time.isClockTrusted())
      #expect(try await record.newest() == start - 6 * 3600 + 600)
      #expect(late.time.now() == start - 6 * 3600 + 600)
    }
  }

  @Test func `A clock that jumps is noticed by whoever asks for the time`() async throws {
    try await test { database, _ in
      let node = try await Node(database, at: start)
      node.clocks.jump(-25 * 3600)
      #expect(node.time.now() == start)
      #expect(!node.time.isClockTrusted())
      let other = try await Node(database, at: start)
      other.clocks.jump(25 * 3600)
      #expect(!other.time.isClockTrusted())
    }
  }

  @Test func `What waits is looked through at the start, in doubt, and when the time was set back`()
    async throws
  {
    try await test { database, _ in
      let rounds = Mutex<[Bool]>([])
      let node = try await Node(
        database, at: start, queues: [{ isBack in rounds.withLock { $0 += [isBack] } }])
      let running = Task { await node.watch.run() }
      await eventually { rounds.withLock { $0 } == [false] }
      node.clocks.jump(-6 * 3600)
      await eventually { rounds.withLock { $0 } == [false, false] }
      // It is trusted again, and later that is dealt with, once.
      node.clocks.pass(601)
      await eventually { rounds.withLock { $0 } == [false, false, false] }
      node.clocks.pass(120)
      await eventually { rounds.withLock { $0 } == [false, false, false, true] }
      await eventually { !node.time.update { $0.isSetBack(for: .zero, $1) } }
      running.cancel()
      await running.value
    }
  }
}
