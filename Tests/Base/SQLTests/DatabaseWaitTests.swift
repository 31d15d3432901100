import Foundation
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import SQL

@Suite("Waiting for a database")
struct DatabaseWaitTests {
  private static let table = "CREATE TABLE t (id BIGINT PRIMARY KEY)"

  /// Runs `body` while another connection of a program holds the database's write lock.
  private func locked(
    _ body: (RetryingDatabase, _ unlock: @escaping @Sendable () -> Void) async throws -> Void
  ) async throws {
    var options = SQLiteDatabase.Options()
    options.busyTimeout = 0.1
    try await withDatabase(options: options, script: Self.table) { database, folder in
      let other = try await SQLiteDatabase.open(path: folder.databasePath, options: options)
      try await other.behindGate(after: { try $0.run(Statement("INSERT INTO t VALUES (0)")) }) { open in
        try await body(RetryingDatabase(database), open)
      }
      await other.close()
    }
  }

  @Test
  func `is none where nobody asks for it`() async throws {
    try await locked { database, _ in
      let error = try await databaseError {
        try await database.execute(Statement("INSERT INTO t VALUES (1)"))
      }
      #expect(error?.code == .busy)
    }
  }

  @Test
  func `waits for a lock to go, in writes of both kinds`() async throws {
    try await locked { database, unlock in
      try await DatabaseWait.wait(upTo: longestWait) {
        async let single = database.execute(Statement("INSERT INTO t VALUES (1)"))
        async let transaction = database.write { try $0.run(Statement("INSERT INTO t VALUES (2)")) }
        // Several tries of each have failed by then.
        try await Task.sleep(for: .seconds(1))
        unlock()
        _ = try await (single, transaction)
      }
      #expect(try await database.integer("SELECT count(*) FROM t") == 3)
    }
  }

  @Test
  func `ends with the time that there is for all calls together`() async throws {
    try await locked { database, _ in
      let start = ContinuousClock.now
      try await DatabaseWait.wait(upTo: .seconds(1)) {
        for _ in 0..<3 {
          let error = try await databaseError {
            try await database.execute(Statement("INSERT INTO t VALUES (1)"))
          }
          #expect(error?.code == .busy || error?.code == .connectionLost)
        }
      }
      #expect(ContinuousClock.now - start > .milliseconds(400))
    }
  }

  @Test
  func `ends also where the database answers nothing at all`() async throws {
    try await withDatabase(script: Self.table) { database, _ in
      let patient = RetryingDatabase(database)
      try await database.behindGate { _ in
        let error = try await databaseError {
          try await DatabaseWait.wait(upTo: .milliseconds(300)) {
            try await patient.execute(Statement("INSERT INTO t VALUES (1)"))
          }
        }
        #expect(error?.code == .connectionLost)
      }
      try await expectNothing(in: database)
    }
  }

  /// Writes that were given up have not happened, so that whoever asks again gets them once.
  private func expectNothing(in database: any Database) async throws {
    // What waits is done in order.
    _ = try await database.write { try $0.run(Statement("INSERT INTO t VALUES (100)")) }
    _ = try await database.execute(Statement("INSERT INTO t VALUES (101)"))
    let rows = try await database.query(Statement("SELECT id FROM t WHERE id BETWEEN 1 AND 99"))
    #expect(rows.map(\.values) == [])
  }

  private func giveUp(_ database: any Database) async throws {
    try await DatabaseWait.limit(eachCallTo: .milliseconds(300)) {
      async let single = databaseError { try await database.execute(Statement("INSERT INTO t VALUES (1)")) }
      async let transaction = databaseError {
        try await database.write { try $0.run(Statement("INSERT INTO t VALUES (2)")) }
      }
      let codes = try await [single?.code, transaction?.code]
      #expect(codes == [.connectionLost, .connectionLost])
    }
  }

  @Test
  func `leaves out what was given up while another program had the database`() async throws {
    try await withDatabase(script: Self.table) { database, folder in
      let other = try await SQLiteDatabase.open(path: folder.databasePath)
      try await other.behindGate(after: { try $0.run(Statement("INSERT INTO t VALUES (0)")) }) { _ in
        try await giveUp(database)
      }
      try await expectNothing(in: database)
      await other.close()
    }
  }

  @Test(.needsPostgreSQL)
  func `leaves out on PostgreSQL what was given up before a connection was free`() async throws {
    var options = PostgreSQLDatabase.Options()
    options.connections = 1
    try await withPostgreSQL(options: options, script: Self.table) { database, _ in
      try await database.behindGate(after: { try $0.run(Statement("INSERT INTO t VALUES (0)")) }) { open in
        // Waits for the row of the open transaction, in the connection for single statements.
        async let blocked: [Row] = database.execute(
          Statement("INSERT INTO t VALUES (0) ON CONFLICT (id) DO NOTHING"))
        while database.writes.runningCount == 0 { await Task.yield() }
        try await giveUp(database)
        // Fails in the group of what was given up, and hears so.
        async let failing = databaseError {
          try await database.execute(Statement("INSERT INTO t VALUES (0)"))
        }
        while database.writes.waitingCount < 2 { await Task.yield() }
        open()
        _ = try await blocked
        let failure = try await failing
        #expect(failure?.code == .uniqueViolation)
      }
      try await expectNothing(in: database)
    }
  }

  @Test
  func `is not had with mistakes, nor with a database that was closed`() async throws {
    try await withDatabase(script: Self.table) { database, _ in
      let patient = RetryingDatabase(database)
      let tries = Mutex(0)
      try await DatabaseWait.wait(upTo: .seconds(3600)) {
        let mistake = try await databaseError {
          try await patient.write { connection in
            tries.withLock { $0 += 1 }
            try connection.run(Statement("INSERT INTO t VALUES (7), (7)"))
          }
        }
        #expect(mistake?.code == .uniqueViolation)
        await patient.close()
        let closed = try await databaseError {
          try await patient.read { try $0.query(Statement("SELECT 1")) }
        }
        #expect(closed?.code == .closed)
      }
      #expect(tries.withLock { $0 } == 1)
    }
  }

  @Test(.needsPostgreSQL)
  func `outlasts a server that is stopped and started again`() async throws {
    try await PostgreSQLServer.test { server in
      var options = PostgreSQLDatabase.Options()
      options.waitLimit = 0.5
      let database = try await PostgreSQLDatabase.open(url: server.url, options: options)
      let patient = RetryingDatabase(database)
      try await patient.write { try $0.runScript(Self.table) }
      try server.kill()
      async let calls: Void = DatabaseWait.wait(upTo: longestWait) {
        _ = try await patient.execute(Statement("INSERT INTO t VALUES (1)"))
        try await patient.write { _ = try $0.run(Statement("INSERT INTO t VALUES (2)")) }
        #expect(try await patient.integer("SELECT count(*) FROM t") == 2)
      }
      try await Task.sleep(for: .seconds(2))
      try server.start()
      try await calls
      await patient.close()
    }
  }

  @Test
  func `gives up each call that takes longer than it may, where nothing is waited for`() async throws {
    try await withDatabase(script: Self.table) { database, _ in
      let patient = RetryingDatabase(database)
      let gate = Gate()
      let error = try await databaseError {
        try await DatabaseWait.limit(eachCallTo: .milliseconds(300)) {
          try await patient.write { _ in gate.wait() }
        }
      }
      #expect(error?.code == .connectionLost)
      gate.open()
      // Each call has it for itself.
      try await DatabaseWait.limit(eachCallTo: longestWait) {
        for _ in 0..<3 {
          let count = try await patient.integer("SELECT count(*) FROM t")
          #expect(count == 0)
        }
      }
    }
  }

  @Test(.needsPostgreSQL)
  func `ends where a server holds a statement back`() async throws {
    try await withPostgreSQL(script: Self.table) { database, _ in
      let patient = RetryingDatabase(database)
      let lock = "LOCK TABLE t IN ACCESS EXCLUSIVE MODE"
      try await database.behindGate(after: { try $0.runScript(lock) }) { _ in
        let error = try await databaseError {
          try await DatabaseWait.wait(upTo: .milliseconds(300)) {
            try await patient.read { try $0.query(Statement("SELECT id FROM t")) }
          }
        }
        #expect(error?.code == .connectionLost)
      }
    }
  }
}
