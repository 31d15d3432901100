import Foundation
import Providers
import SQL
import TestDatabase
import TestSupport
import Testing

@testable import Operator

/// Tests what the log and `/readyz` say of a database that does not work.
@Suite struct DatabaseCheckTests {
  private static let start = Date(timeIntervalSince1970: 1_800_000_000)

  @Test func `A lock of another process is named within seconds, with the time when it began`() async throws {
    let test = try await TestDatabase(.sqlite)
    let path = try #require(test.url.sqlitePath)
    let check = DatabaseCheck(test.database) { Date() }
    #expect(await check.finding() == nil)
    let other = try SQLiteHandle(path: path, busyTimeout: 5)
    try other.run("BEGIN IMMEDIATE")
    let began = Date()
    #expect(!check.isSuspect)
    // Somebody writes, as in any service.
    let database = test.database
    let write = Task { try await database.execute("DELETE FROM metadata WHERE name = 'none'") }
    await eventually("a suspicion") { check.isSuspect }
    let finding = try #require(await check.finding())
    #expect(finding.failure.reason == "busy" && finding.failure.summary == "the database takes no writes")
    #expect(abs(finding.since.timeIntervalSince(began)) < max(1, Date().timeIntervalSince(began) / 2))
    let explanation = check.explanation(of: finding.failure)
    #expect(
      explanation.meaning
        == "The database (database.url) cannot be used: another process keeps it locked.")
    #expect(explanation.advice.hasPrefix("End that process or wait for it; push-bouncer doctor"))
    try other.run("ROLLBACK")
    _ = try? await write.value
    await eventually("an end") { await check.finding() == nil }
    #expect(!check.isSuspect)
    await database.close()
  }

  @Test func `What was first met is not the last word, and each cause has one line`() {
    let recorder = LogRecorder()
    var log = ProblemLog(recorder.logger)
    func failure(_ code: DatabaseError.Code) -> DatabaseCheck.Failure { .error(DatabaseError(code, "words")) }
    let lost = failure(.unreachable)
    let refused = failure(.loginRefused)
    let seen: [DatabaseCheck.Failure?] = [
      nil, .timeout, lost, lost, lost, .timeout, .timeout, refused, refused, refused, lost, lost, nil, nil,
      refused, refused,
    ]
    for (second, failure) in seen.enumerated() {
      log.check(failure, nil, now: Self.start + 2 * Double(second))
    }
    #expect(
      recorder.lines.map { "\($0.message): \($0.metadata["reason"].map { "\($0)" } ?? "")" } == [
        "no connection to the database can be opened: unreachable",
        "no connection to the database can be opened: loginRefused",
        "the database works again, after 22 s: ",
        "no connection to the database can be opened: loginRefused",
      ])
  }

  @Test func `An outage lasted since it began, not since it was noticed`() {
    let recorder = LogRecorder()
    var log = ProblemLog(recorder.logger)
    let full = DatabaseCheck.Failure.error(DatabaseError(.full, "full"))
    for second in 0..<3 {
      log.check(
        second < 1 ? full : nil, nil, since: Self.start - 43, now: Self.start + 2 * Double(second))
    }
    #expect(
      recorder.lines.map(\.message) == [
        "the database takes no writes", "the database works again, after 45 s",
      ])
  }
}
