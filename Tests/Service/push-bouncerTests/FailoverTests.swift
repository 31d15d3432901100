import Foundation
import HTTP
import ProviderSimulator
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Demo
@testable import Operator

extension Chaos {
  /// Tests that a 200 outlives the database's primary (`Documentation/Operating/HighAvailability.md`). Two nodes share a
  /// primary and its standby; under load one of the primaries ends after the other, its standby takes over, and a new
  /// standby follows that.
  @Suite(.needsPostgreSQL) struct FailoverTests {
    private static let environment = ProcessInfo.processInfo.environment
    /// `Scripts/proof/failover` sets these.
    private static let failovers = Int(environment["FAILOVERS"] ?? "") ?? 4
    /// The longest pause after a promotion, in seconds; not checked where other tests take the machine's time.
    private static let longestPause = environment["FAILOVER_PAUSE"].flatMap(Double.init)

    enum End: String, CaseIterable {
      /// Its processes are killed.
      case crash
      /// It says nothing any more, as a machine without a network; later it is there again, and still takes itself for the
      /// primary.
      case silence
      /// It goes on, and takes no writes.
      case fence
      /// It is shut down when its standby has all that it has.
      case switchover
    }

    @Test func `A failover to a synchronous standby loses nothing that was answered`() async throws {
      try await Self.run(isSynchronous: true, ends: End.allCases)
    }

    @Test func `A failover to an asynchronous standby loses no more than doctor has said`() async throws {
      try await Self.run(isSynchronous: false, ends: [.crash])
    }

    private static func run(isSynchronous: Bool, ends: [End]) async throws {
      let seed = environment["FAILOVER_SEED"].flatMap { UInt64($0) } ?? .random(in: 0 ... .max)
      print("FAILOVER_SEED=\(seed)")
      try await PostgreSQLServer.testWithStandby(isSynchronous: isSynchronous) { first, second in
        try await Stage.test(database: PostgreSQLServer.url(of: first, second)) { stage in
          let finding = try await stage.place.run("doctor", "--json").json["findings"]?.elements
            .first { $0["check"]?.string == "failover" }
          #expect(
            finding?["status"] == (isSynchronous ? "ok" : "warning"), "\(String(describing: finding))")
          try await NodesTests().nodes(2, of: stage) { robin, supervisor in
            let (ledger, pulse, arrivals) = (Ledger(), Pulse(), Arrivals(at: stage.simulator))

            var random = SplitMix(seed: seed)
            var (primary, standby) = (first, second)
            var rows: [Row] = []
            for number in 0..<failovers {
              let end = number < ends.count ? ends[number] : ends.randomElement(using: &random) ?? .crash
              let moments = (0..<2).map { _ in Duration.milliseconds(.random(in: 200...800, using: &random)) }
              let (old, new, isLast) = (primary, standby, number + 1 == failovers)
              rows.append(
                try await load(stage, robin, ledger, pulse) {
                  try await fail(
                    from: old, to: new, by: end, isSynchronous: isSynchronous, moments, pulse, arrivals)
                })
              if !isLast {
                try old.follow(new)
                try await new.awaitStandby(isSynchronous: isSynchronous)
              }
              (primary, standby) = (new, old)
            }
            print(Row.table(rows))
            try await settle(stage, robin, ledger, arrivals, mayLose: !isSynchronous)
            for number in 0..<2 {
              let node = try #require(supervisor.running(number))
              try await expectWarning(!isSynchronous, of: node)
            }
            if let longestPause {
              #expect(rows.allSatisfy { $0.pause <= .seconds(longestPause) })
            }
          }
        }
      }
    }

    /// Ends the primary, makes its standby one, and waits until that one serves.
    private static func fail(
      from old: PostgreSQLServer, to new: PostgreSQLServer, by end: End, isSynchronous: Bool,
      _ moments: [Duration], _ pulse: Pulse, _ arrivals: Arrivals
    ) async throws -> Row {
      try await Task.sleep(for: moments[0])
      arrivals.cut()
      let before = pulse.now
      // What commits meanwhile only the primary has.
      if !isSynchronous {
        try new.freeze()
        try await Task.sleep(for: moments[1])
      }
      let began = ContinuousClock.now
      switch end {
      case .crash: try old.kill()
      case .silence: try old.freeze()
      case .fence:
        try await old.set("default_transaction_read_only", to: "on")
        try await old.awaitIdle()
      case .switchover: try old.shutDown()
      }
      if !isSynchronous { try new.thaw() }
      try new.promote()
      let promoted = ContinuousClock.now
      // Twice for each caller: all have met the failover by then.
      var times: [ContinuousClock.Instant] = []
      await eventually("calls that are answered") {
        times = pulse.answers(after: promoted)
        return times.count >= 12
      }
      if end == .silence {
        try old.thaw()
        try await Task.sleep(for: moments[1])
      }
      arrivals.cut()
      return Row(
        end: end, refusals: pulse.now.refusals - before.refusals,
        outage: (times.dropFirst(11).first ?? .now) - began,
        pause: (times.dropFirst(11).first ?? .now) - promoted)
    }

    /// Expects that a node says whether a failover may have lost something.
    private static func expectWarning(_ isExpected: Bool, of node: Running) async throws {
      func warnings() -> Int { node.logged.components(separatedBy: FailoverReport.Loss.summary).count - 1 }
      if isExpected {
        await eventually("a warning") { warnings() > 0 }
        #expect(warnings() <= failovers)
      }
      let check = try await node.check("database")
      #expect(check["status"] == (isExpected ? "degraded" : "ok"), "\(check)")
      #expect(check["reason"] == (isExpected ? "failover" : nil))
      if !isExpected { #expect(warnings() == 0) }
    }

    private static func load(
      _ stage: Stage, _ nodes: RoundRobin, _ ledger: Ledger, _ pulse: Pulse,
      _ trouble: @escaping @Sendable () async throws -> Row
    ) async throws -> Row {
      let isOver = Over()
      return try await withThrowingTaskGroup(of: Row?.self) { group in
        for _ in 0..<6 {
          group.addTask {
            while !isOver.value {
              do {
                try await nodes.call { try await stage.act(ledger, at: $0) }
                pulse.answered()
              } catch {
                pulse.refused()
                ledger.addRefusal()
                try? await Task.sleep(for: .milliseconds(20))
              }
            }
            return nil
          }
        }
        group.addTask {
          defer { isOver.set() }
          return try await trouble()
        }
        let rows = try await group.reduce(into: []) { $0.append($1) }
        return try #require(rows.compactMap(\.self).first)
      }
    }

    /// Expects that everything promised arrives and that every phone is still registered. Where some may be lost, no chat
    /// server is told to forget one.
    private static func settle(
      _ stage: Stage, _ nodes: RoundRobin, _ ledger: Ledger, _ arrivals: Arrivals, mayLose: Bool
    ) async throws {
      let promised = ledger.now
      #expect(promised.phones.count > 5 && promised.marks.count > 50)
      var reached: Int64 = 0
      for some in promised.groups {
        await eventually("an answer") {
          guard let promise = try? await nodes.call({ try await $0.mark(some) }) else { return false }
          reached += promise.sent
          #expect(promise.deleted.isEmpty)
          if !mayLose { ledger.add(promise) }
          return true
        }
      }
      #expect(ledger.now.deletions == 0)
      let lost = Int64(promised.phones.count) - reached
      if mayLose {
        print("\(arrivals.missing(of: promised.marks).count) notifications have not arrived")
      } else {
        #expect(lost == 0)
        await stage.expectArrival(of: ledger.now.marks)
        #expect(arrivals.unexplained.isEmpty, "twice, and nothing had cut the service off")
      }
      print(
        """
        \(promised.phones.count) registrations and \(promised.marks.count) notifications promised, \(lost) registrations \
        lost; \(arrivals.twice) notifications sent more than once, \(promised.refusals) calls refused
        """)
    }
  }
}

extension Chaos.FailoverTests {
  /// What a failover cost.
  fileprivate struct Row {
    let end: End
    /// Calls that were answered with an error.
    let refusals: Int
    /// From the end of the primary.
    let outage: Duration
    /// From the end of the promotion.
    let pause: Duration

    static func table(_ rows: [Row]) -> String {
      func seconds(_ times: [Duration], _ share: Double) -> String {
        let time = times.sorted()[min(times.count - 1, Int(Double(times.count) * share))]
        return String(format: "%.2f", time / .seconds(1))
      }
      let lines = End.allCases.compactMap { end -> String? in
        let some = rows.filter { $0.end == end }
        guard !some.isEmpty else { return nil }
        let (outages, pauses) = (some.map(\.outage), some.map(\.pause))
        return """
          | \(end.rawValue) | \(some.count) | \(some.map(\.refusals).reduce(0, +)) | \(seconds(outages, 0.5)) | \
          \(seconds(outages, 1)) | \(seconds(pauses, 0.5)) | \(seconds(pauses, 0.95)) | \(seconds(pauses, 1)) |
          """
      }
      return
        ([
          "| end | failovers | calls refused | outage p50 | max | pause after the promotion p50 | p95 | max |"
        ] + lines)
        .joined(separator: "\n")
    }
  }

  /// When calls were answered.
  fileprivate final class Pulse: Sendable {
    struct Contents {
      var answers: [ContinuousClock.Instant] = []
      var refusals = 0
    }

    private let contents = Mutex(Contents())
    var now: Contents { contents.withLock(\.self) }
    func answered() { contents.withLock { $0.answers.append(.now) } }
    func refused() { contents.withLock { $0.refusals += 1 } }
    func answers(after time: ContinuousClock.Instant) -> [ContinuousClock.Instant] {
      contents.withLock { $0.answers.suffix(1000).filter { $0 > time } }
    }
  }
}
