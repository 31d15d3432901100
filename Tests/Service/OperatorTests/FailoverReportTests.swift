import Foundation
import Logging
import Migrations
import SQL
import TestDatabase
import TestSupport
import Testing

@testable import Operator

/// Tests that a failover that may have lost something is told of.
@Suite(.needsPostgreSQL) struct FailoverReportTests {
  private static let now = Date(timeIntervalSince1970: 1_800_000_000.25)

  private static func report(
    of server: PostgreSQLServer, at now: Date = now
  ) async throws -> FailoverReport? {
    let database = try await openDatabase(url: DatabaseURL(server.url))
    try await Schema.migrate(database)
    defer { Task { await database.close() } }
    return try await FailoverReport(of: database, now: now)
  }

  @Test func `After one to an asynchronous standby an hour long, also by a program that starts later`()
    async throws
  {
    try await PostgreSQLServer.testWithStandby(isSynchronous: false) { primary, standby in
      let before = try #require(try await Self.report(of: primary))
      #expect(before.promise == .asynchronous(replicas: 1) && before.loss == nil)
      // A restart is no failover.
      try primary.kill()
      try primary.start()
      #expect(try await Self.report(of: primary)?.loss == nil)
      try await primary.awaitStandby(isSynchronous: false)
      _ = try await Self.report(of: primary)
      try primary.shutDown()
      try standby.promote()
      let loss = try #require(try await Self.report(of: standby)?.loss)
      #expect(loss.before == "00000001" && loss.after == "00000002" && loss.at == Self.now)
      #expect(loss.meaning.contains("(timeline 00000001, then 00000002)"))
      #expect(try await Self.report(of: standby, at: Self.now + 3599)?.loss == loss)
      #expect(try await Self.report(of: standby, at: Self.now + 3600)?.loss == nil)
    }
  }

  @Test func `After one to a synchronous standby nothing is lost`() async throws {
    try await PostgreSQLServer.testWithStandby { primary, standby in
      #expect(try await Self.report(of: primary)?.promise == .synchronous)
      try primary.kill()
      try standby.promote()
      let report = try await Self.report(of: standby)
      #expect(report != nil && report?.loss == nil)
    }
  }

  @Test func `A database that was copied to another cluster has not failed over`() async throws {
    let test = try await TestDatabase(.postgreSQL)
    func store(_ system: String, _ timeline: String) async throws {
      let text = #"{"system":"\#(system)","timeline":"\#(timeline)","synchronous":false}"#
      try await test.database.execute(
        """
        INSERT INTO metadata (name, value) VALUES ('failover', $1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value
        """, .bytes(Array(text.utf8)))
    }
    try await store("1234", "0000000A")
    #expect(try await FailoverReport(of: test.database, now: Self.now)?.loss == nil)
    let cluster = try #require(try await test.database.cluster())
    try await store(cluster.system, "0000000A")
    #expect(try await FailoverReport(of: test.database, now: Self.now)?.loss?.before == "0000000A")
    // What is stored cannot be read: nothing is known of before.
    try await test.database.execute("UPDATE metadata SET value = $1 WHERE name = 'failover'", .bytes([1, 2]))
    #expect(try await FailoverReport(of: test.database, now: Self.now)?.loss == nil)
    #expect(try await FailoverReport(of: test.database, now: Self.now)?.loss == nil)
  }

  @Test func `A loss has one line in the log`() {
    let recorder = LogRecorder()
    var log = ProblemLog(recorder.logger)
    let loss = FailoverReport.Loss(before: "00000001", after: "00000002", at: Self.now)
    for loss in [nil, loss, loss, nil, loss] { log.check(loss) }
    #expect(
      recorder.lines.map(\.message) == ["a failover may have lost what was answered just before it"])
    #expect(recorder.lines.first?.level == .warning)
    #expect("\(recorder.lines.first?.metadata["meaning"] ?? "")" == loss.meaning)
  }
}
