import Foundation
import ProviderSimulator
import Providers
import SQL
import Sealing
import TestDatabase
import TestSupport
import Testing

@testable import Demo

extension Chaos {
  /// Tests a stock server during failures of the service: no notification is lost, and no device stays
  /// pending.
  @Suite struct StockServerTests {
    /// How long the database is unreachable; stock servers wait 15 s for an answer.
    private static let outage = Duration.seconds(10)
    /// As it takes a moment to start, it is started before that is over.
    private static let starting = Duration.seconds(0.5)

    @Test(.needsPostgreSQL)
    func `A server of the database that is away is waited for`() async throws {
      try await PostgreSQLServer.test { postgres in
        try await Stage.test(database: postgres.url) { stage in
          try await troubled(stage) {
            let start = ContinuousClock.now
            try postgres.kill()
            try await Task.sleep(for: Self.outage - Self.starting - (.now - start))
            try postgres.start()
            return .now - start
          }
        }
      }
    }

    @Test func `Another program that holds the database is waited for`() async throws {
      try await Stage.test { stage in
        try await troubled(stage) {
          // So that notifications, too, have something to write.
          await stage.faults { $0.outage = true }
          let start = ContinuousClock.now
          let other = try await SQLiteDatabase.open(
            path: stage.place.folder.appending(path: "push-bouncer.sqlite").path)
          try await other.write { connection in
            try connection.run(Statement("UPDATE remote_servers SET updated_at = updated_at"))
            Thread.sleep(forTimeInterval: Self.outage / .seconds(1))
          }
          await other.close()
          await stage.faults()
          return .now - start
        }
      }
    }

    /// - Parameter trouble: makes it, ends it, and tells how long it took.
    private func troubled(
      _ stage: Stage, _ trouble: @escaping () async throws -> Duration
    ) async throws {
      try await stage.serve("--delivery.deadline", "1s", "--log.level", "notice") { running, server in
        let stock = StockServer(stage, server)
        for kind in [PushToken.Kind.apns, .fcm] { await stock.register(Stage.phone(kind)) }
        var duration = Duration.zero
        try await stock.stream { duration = try await trouble() }
        let record = stock.now
        print(
          """
          away for \(duration): \(record.promised.count) notifications and \(record.phones.count) phones, the longest \
          answer after \(record.longest)
          """)
        #expect(record.promised.count > 50 && record.phones.count > 10)
        // Had the machine no time to start it, it was away for longer than anybody waits.
        if duration < Self.outage + .seconds(1.5) {
          #expect(record.lost == [])
          #expect(record.longest > .seconds(5))
        }
        #expect(record.stranded == [])
        #expect(record.forgotten == 0)
        await stage.expectArrival(of: record.promised)
        // Every phone that was told so is registered.
        let marks = try await server.mark(record.phones)
        #expect(marks.deleted.isEmpty)
        await stage.expectArrival(of: Set(marks.marks))
        await running.end()
      }
    }

    @Test func `An excess is queued and sent at the servers pace`() async throws {
      let (limit, window) = (20, 1.0)
      try await Stage.test { stage in
        try await stage.serve(
          "--bouncer.notifications_per_server", "\(limit)/\(Int(window))s", "--log.level", "notice"
        ) { _, server in
          let stock = StockServer(stage, server)
          // So many that none has more waiting than a phone may.
          for kind in [PushToken.Kind.apns, .fcm, .apns, .fcm] { await stock.register(Stage.phone(kind)) }
          let start = ContinuousClock.now
          for _ in 0..<(limit * 10 / 5) { await stock.notify(5) }
          #expect(stock.now.lost == [])
          #expect(stock.now.promised.count == limit * 10)
          // At no time more has arrived than the pace lets through.
          while stage.arrived().count < limit * 10, ContinuousClock.now - start < longestWait {
            let arrived = stage.arrived().count
            let windows = (ContinuousClock.now - start) / .seconds(window)
            #expect(Double(arrived) <= Double(limit) * (1 + windows) + 1)
            try await Task.sleep(for: .milliseconds(100))
          }
          await stage.expectArrival(of: stock.now.promised)
          #expect(ContinuousClock.now - start > .seconds(window * 8))
          #expect(stage.arrived().values.allSatisfy { $0 == 1 })
          // A registration in between is not held up by it.
          await stock.register(Stage.phone(.fcm))
          #expect(stock.now.stranded == [] && stock.now.errors == 0 && stock.now.phones.count == 5)
        }
      }
    }
  }
}
