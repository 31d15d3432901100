import Foundation
import HTTP
import Logging
import Providers
import SQL
import TestSupport
import Testing

@testable import Operator
@testable import Platform

/// Tests the log lines about problems, and what the health check says of an unreachable database.
@Suite struct ProblemLogTests {
  private var service: Operator { Fixture.current }

  /// The events reported for a database that fails or works at each check, one check per second.
  private static func told(_ failing: [Bool]) -> [Int: ProblemReporter.Event] {
    var reporter = ProblemReporter(onset: 1, steadiness: 1)
    let start = Date(timeIntervalSince1970: 1_800_000_000)
    var told: [Int: ProblemReporter.Event] = [:]
    for (second, isFailing) in failing.enumerated() {
      told[second] = reporter.update(isFailing: isFailing, now: start + Double(second))
    }
    return told
  }

  @Test func `An outage is told of once when it begins and once when it is over`() {
    let outage = [Bool](repeating: true, count: 51)
    #expect(
      Self.told([false, false] + outage + [false, false, false, false]) == [
        3: .began, 54: .ended(after: 51),
      ])
  }

  @Test func `A moment of silence is nothing to tell, and a moment of answers is no end`() {
    #expect(Self.told([false, true, false, false, true, false, false]).isEmpty)
    #expect(
      Self.told([true, true, false, true, true, false, false]) == [1: .began, 6: .ended(after: 5)])
  }

  @Test(.listener()) func `A database that goes away has its line in the log`() async throws {
    let log = LogRecorder()
    let providers = try PushProviders(configuration: .init())
    await service.database.close()
    let logging = Task { await service.readiness.logProblems(of: providers, to: log.logger) }
    await eventually {
      service.clock.advance(1)
      return !log.lines.isEmpty
    }
    logging.cancel()
    await logging.value
    await providers.shutdown(within: .zero)
    let line = try #require(log.lines.first)
    #expect(line.level == .warning && line.message == "the database does not answer")
    #expect(line.metadata["reason"] == "closed" && line.metadata["advice"] != nil)
    #expect(log.lines.count == 1)
  }

  @Test func `A clock in doubt has a line when the doubt begins and one when it ends`() {
    let recorder = LogRecorder()
    var log = ProblemLog(recorder.logger)
    let start = Date(timeIntervalSince1970: 1_800_000_000)
    let doubt = ClockDoubt(reason: .jumped(by: 90_000), since: start)
    for (second, doubt) in [nil, doubt, doubt, nil, nil].enumerated() {
      log.check(doubt, now: start + Double(second))
    }
    #expect(
      recorder.lines.map(\.message) == ["the clock may be wrong", "the clock is trusted again, after 3 s"])
    #expect(recorder.lines.map(\.level) == [.warning, .notice])
    #expect(recorder.lines.first?.metadata["reason"] == "it was put ahead by 25 h")
  }

  @Test(.listener()) func `The health check tells what it means, since when, and what to do`() async throws {
    #expect(try await service.check("database")?["status"] == "ok")
    await service.database.close()
    let since = service.clock.now.formatted(.iso8601)
    for _ in 0..<2 {
      let check = try await service.check("database")
      #expect(check?["reason"] == "closed" && check?["since"]?.string == since)
      #expect(check?["meaning"] == "The database (database.url) cannot be used: it was closed.")
      #expect(check?["advice"]?.string?.contains("push-bouncer doctor") == true)
      service.clock.advance(30)
    }
  }

  @Test func `The log names an error of the database by its code and any other by its type`() {
    #expect(DatabaseError.name(of: DatabaseError(.connectionLost, "secret")) == "connectionLost")
    #expect(DatabaseError.name(of: CancellationError()) == "CancellationError")
  }
}
