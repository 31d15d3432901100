import Foundation
import HTTP
import Logging
import SQL
import TestSupport
import Testing

@testable import Operator

/// Tests the operator's log lines when the database is unreachable.
@Suite struct DatabaseReporterTests {
  private var service: Operator { Fixture.current }

  /// The events reported for a database with these check results, one per second.
  private static func told(_ failures: [DatabaseCheck.Failure?]) -> [Int: ProblemReporter<
    DatabaseCheck.Failure
  >.Event] {
    var reporter = ProblemReporter<DatabaseCheck.Failure>(onset: 1, steadiness: 1)
    let start = Date(timeIntervalSince1970: 1_800_000_000)
    var told: [Int: ProblemReporter<DatabaseCheck.Failure>.Event] = [:]
    for (second, failure) in failures.enumerated() {
      told[second] = reporter.update(failure, now: start + Double(second))
    }
    return told
  }

  @Test func `An outage is told of once when it begins and once when it is over`() {
    let away = [DatabaseCheck.Failure?](repeating: .error(.connectionLost), count: 50)
    #expect(
      Self.told([nil, nil, .timeout] + away + [nil, nil, nil, nil]) == [
        3: .began(.error(.connectionLost)), 54: .ended(after: 51),
      ])
  }

  @Test func `A moment of silence is nothing to tell, and a moment of answers is no end`() {
    #expect(Self.told([nil, .timeout, nil, nil, .timeout, nil, nil]).isEmpty)
    #expect(
      Self.told([.timeout, .timeout, nil, .timeout, .timeout, nil, nil]) == [
        1: .began(.timeout), 6: .ended(after: 5),
      ])
  }

  @Test(.listener()) func `A database that goes away has its line in the log`() async throws {
    let log = LogRecorder()
    let watch = Task { await service.readiness.watchDatabase(logger: log.logger) }
    await service.database.close()
    await eventually { !log.lines.isEmpty }
    watch.cancel()
    await watch.value
    let line = try #require(log.lines.first)
    #expect(line.level == .warning && line.message == "the database does not answer")
    #expect(line.metadata["reason"] == "closed" && line.metadata["advice"] != nil)
    #expect(log.lines.count == 1)
  }

  @Test(.listener()) func `The health check tells what it means, since when, and what to do`() async throws {
    #expect(try await service.check("database")?["status"] == "ok")
    await service.database.close()
    let since = service.clock.now.formatted(.iso8601)
    for _ in 0..<2 {
      let check = try await service.check("database")
      #expect(check?["reason"] == "closed" && check?["since"]?.string == since)
      #expect(check?["meaning"] == "The database was closed.")
      #expect(check?["advice"]?.string?.contains("push-bouncer doctor") == true)
      service.clock.advance(30)
    }
  }

  @Test func `The log names an error of the database by its code and any other by its type`() {
    #expect(DatabaseError.name(of: DatabaseError(.connectionLost, "secret")) == "connectionLost")
    #expect(DatabaseError.name(of: CancellationError()) == "CancellationError")
  }
}
