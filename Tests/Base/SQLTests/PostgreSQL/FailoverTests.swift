import Foundation
import TestDatabase
import TestSupport
import Testing

@testable import SQL

@Suite("Failover of a PostgreSQL server", .needsPostgreSQL)
struct FailoverTests {
  private static let schema = "CREATE TABLE t (a BIGINT PRIMARY KEY)"

  private static func insert(_ number: Int64) -> Statement {
    Statement("INSERT INTO t VALUES ($1)", .integer(number))
  }

  enum Failover: CaseIterable {
    /// The primary is killed.
    case crash
    /// The primary says nothing any more, as a machine without a network.
    case silence
    /// The primary goes on and takes no writes.
    case fence
  }

  @Test(arguments: Failover.allCases)
  func `no call fails and nothing is lost when the second server of the URL becomes the primary`(
    failover: Failover
  ) async throws {
    try await PostgreSQLServer.testWithStandby { primary, standby in
      let database = try await PostgreSQLDatabase.open(url: PostgreSQLServer.url(of: primary, standby))
      try await database.write { try $0.runScript(Self.schema) }
      let written = Counter()
      let over = Counter()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for task in 0..<Int64(8) {
          group.addTask {
            var number = task * 1_000_000
            // Once more after the end: that one is written by the new primary.
            var isLast = false
            while !isLast {
              isLast = over.value > 0
              number += 1
              let statement = Self.insert(number)
              let error = try await databaseError {
                if task % 2 == 0 {
                  _ = try await database.execute(statement)
                } else {
                  try await database.write { _ = try $0.run(statement) }
                }
              }
              // What was being committed when the server died has an unknown result.
              if let error { #expect(failover != .fence && error.code == .connectionLost) }
              if error == nil { written.increment() }
            }
          }
        }
        while written.value < 200 { await Task.yield() }
        switch failover {
        case .crash: try primary.kill()
        case .silence: try primary.freeze()
        case .fence:
          try await primary.set("default_transaction_read_only", to: "on")
          // A commit under way would wait for its standby for ever.
          try await primary.awaitIdle()
        }
        try standby.promote()
        over.increment()
        try await group.waitForAll()
      }
      // It is there again, and still takes itself for the primary.
      if failover == .silence { try primary.thaw() }
      for number in -20..<0 {
        _ = try await database.execute(Self.insert(Int64(number)))
        written.increment()
      }
      let alone = try await PostgreSQLDatabase.open(url: standby.url)
      #expect(try await alone.integer("SELECT count(*) FROM t") >= Int64(written.value))
      await alone.close()
      await database.close()
    }
  }

  @Test
  func `an address that leads to a standby is called again until a primary answers there`() async throws {
    try await PostgreSQLServer.testWithStandby { primary, standby in
      try await withTemporaryFolder { folder in
        // Stands for a virtual address: the folder of whichever server's socket.
        let address = folder.appending(path: "address").path
        func lead(to server: PostgreSQLServer) throws {
          try? FileManager.default.removeItem(atPath: address)
          try FileManager.default.createSymbolicLink(atPath: address, withDestinationPath: server.folder)
        }
        let url = "postgres:///postgres?user=postgres&host=\(address)"
        var options = PostgreSQLDatabase.Options()
        options.waitLimit = 0.5

        try lead(to: standby)
        let refusal = try await databaseError {
          try await PostgreSQLDatabase.open(url: url, options: options)
        }
        #expect(refusal?.code == .readOnly)
        #expect(refusal?.message == "the server is a standby")

        try lead(to: primary)
        options.waitLimit = 30
        let database = try await PostgreSQLDatabase.open(url: url, options: options)
        try await database.write { try $0.runScript(Self.schema) }
        try lead(to: standby)
        try primary.kill()
        async let insertion = database.execute(Self.insert(1))
        async let transaction: Void = database.write { _ = try $0.run(Self.insert(2)) }
        try standby.promote()
        _ = try await (insertion, transaction)
        let count = try await database.integer("SELECT count(*) FROM t")
        #expect(count == 2)
        await database.close()
      }
    }
  }

  @Test
  func `a commit that no synchronous replica confirms is not taken for one`() async throws {
    try await PostgreSQLServer.testWithStandby { primary, standby in
      let database = try await PostgreSQLDatabase.open(url: primary.url)
      try await database.write { try $0.runScript(Self.schema) }
      try standby.kill()
      // A server whose wait is cancelled has committed and only warns.
      @Sendable func cancelWait() async throws {
        try await eventually("a commit that waits") {
          try await ForeignPostgreSQL.snapshot(of: DatabaseURL(primary.url)) {
            try await $0.query(
              Statement(
                """
                WITH waiting AS MATERIALIZED (SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep')
                SELECT pg_cancel_backend(pid) FROM waiting
                """))
          }.isEmpty == false
        }
      }
      async let insertion = databaseError { try await database.execute(Self.insert(1)) }
      try await cancelWait()
      #expect(try await insertion?.code == .connectionLost)
      async let transaction = databaseError { try await database.write { _ = try $0.run(Self.insert(2)) } }
      try await cancelWait()
      #expect(try await transaction?.code == .connectionLost)
      #expect(try await database.integer("SELECT count(*) FROM t") == 2)
      try standby.start()
      _ = try await database.execute(Self.insert(3))
      await database.close()
    }
  }

  @Test
  func `a promotion begins another timeline`() async throws {
    try await PostgreSQLServer.testWithStandby { primary, standby in
      let database = try await PostgreSQLDatabase.open(url: PostgreSQLServer.url(of: primary, standby))
      #expect(try await database.timeline() == "00000001")
      try primary.kill()
      try standby.promote()
      #expect(try await database.timeline() == "00000002")
      await database.close()
    }
  }

  @Test
  func `another program's database is read from a standby as well`() async throws {
    try await PostgreSQLServer.testWithStandby { _, standby in
      let rows = try await ForeignPostgreSQL.snapshot(of: DatabaseURL(standby.url)) {
        try await $0.query(Statement("SELECT CAST(pg_is_in_recovery()::int AS BIGINT)"))
      }
      #expect(try rows.integer == 1)
    }
  }
}
