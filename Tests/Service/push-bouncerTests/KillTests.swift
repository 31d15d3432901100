import Foundation
import ProviderSimulator
import SQL
import Sealing
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// `Documentation/Decisions` 0001: `kill -9` at any moment loses nothing that was answered 200.
  @Suite struct KillTests {
    /// `CHAOS_KILLS` and `CHAOS_SEED` make it longer, or repeat a run's moments.
    static let kills = Int(ProcessInfo.processInfo.environment["CHAOS_KILLS"] ?? "") ?? 8

    @Test(arguments: DatabaseEngine.available)
    func `Nothing that was answered is lost`(_ engine: DatabaseEngine) async throws {
      let seed =
        ProcessInfo.processInfo.environment["CHAOS_SEED"].flatMap { UInt64($0) } ?? .random(in: 0 ... .max)
      print("CHAOS_SEED=\(seed)")
      switch engine {
      case .sqlite:
        try await Stage.test { stage in
          try await Self.run(stage, SplitMix(seed: seed))
          let database = try await SQLiteDatabase.open(
            path: stage.place.folder.appending(path: "push-bouncer.sqlite").path)
          let integrity = try await database.read {
            try $0.query(Statement("PRAGMA integrity_check")).map { try $0.text("integrity_check") }
          }
          await database.close()
          #expect(integrity == ["ok"])
        }
      case .postgreSQL:
        try await PostgreSQLServer.test { postgres in
          try await Stage.test(database: postgres.url) { try await Self.run($0, SplitMix(seed: seed)) }
        }
      }
    }

    private static func run(_ stage: Stage, _ random: SplitMix) async throws {
      var random = random
      let (ledger, arrivals, began) = (Ledger(), Arrivals(at: stage.simulator), ContinuousClock.now)
      for kill in 1...kills {
        let moment = Duration.milliseconds(.random(in: 50...1000, using: &random))
        let outages = (0..<16).map { _ in (Bool.random(using: &random), Bool.random(using: &random)) }
        try await stage.serve("--delivery.deadline", "1s", "--log.level", "notice") { running, server in
          arrivals.cut()
          await withTaskGroup(of: Void.self) { group in
            for _ in 0..<6 { group.addTask { await load(stage, server, ledger) } }
            group.addTask {
              for (apns, fcm) in outages where !Task.isCancelled {
                var faults = Faults()
                (faults.apns.outage, faults.fcm.outage) = (apns, fcm)
                await stage.simulator.setFaults(faults)
                if apns || fcm { arrivals.cut() }
                try? await Task.sleep(for: .milliseconds(150))
              }
            }
            try? await Task.sleep(for: moment)
            await running.end(SIGKILL, status: SIGKILL)
            arrivals.cut()
            group.cancelAll()
          }
        }
        if kill.isMultiple(of: 50) || kill == kills {
          let promised = ledger.now
          print(
            """
            \(kill) kills in \((.now - began).components.seconds) s: \(promised.phones.count + promised.endpoints.count) registrations and \
            \(promised.marks.count) notifications promised, \(arrivals.missing(of: promised.marks).count) of them in \
            the outbox; \(promised.refusals) calls without an answer
            """)
        }
      }
      await stage.faults()
      let promised = ledger.now
      #expect(!promised.phones.isEmpty && !promised.marks.isEmpty && !promised.endpoints.isEmpty)
      #expect(promised.deletions == 0)
      // What was under way at a kill is taken over when nobody can answer it any more: a minute and a quarter later.
      try await stage.serve("--clock-offset", "80s") { running, server in
        for some in promised.groups { ledger.add(try await server.mark(some)) }
        for path in promised.endpoints { ledger.add(mark: try await server.post(to: path)) }
        #expect(ledger.now.deletions == 0)
        var missing = ledger.now.marks
        await eventually("every notification") {
          missing = arrivals.missing(of: missing)
          return missing.isEmpty
        }
        #expect(missing.isEmpty, "\(missing.count) of \(ledger.now.marks.count) never arrived")
        await eventually("nothing in the outbox") {
          (try? await running.metric("push_bouncer_outbox_entries")) == 0
        }
        await running.end()
      }
      _ = arrivals.missing(of: [])
      print("sent more than once: \(arrivals.twice)")
      #expect(arrivals.unexplained.isEmpty, "twice, and nothing had cut the service off")
    }

    /// Registers and notifies until the service is gone.
    private static func load(_ stage: Stage, _ server: ChatServer, _ ledger: Ledger) async {
      while !Task.isCancelled {
        do {
          try await stage.act(ledger, at: server)
        } catch is JSONService.Refusal {
          ledger.addRefusal()
        } catch {
          ledger.addRefusal()
          return
        }
      }
    }
  }
}
