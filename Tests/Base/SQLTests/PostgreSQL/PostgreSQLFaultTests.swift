import Foundation
import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import SQL

@Suite("Faults of a PostgreSQL server", .needsPostgreSQL)
struct PostgreSQLFaultTests {
  /// Records what happened to a server and its callers.
  private final class Journal: Sendable {
    let isDown = Mutex(false)
    let acknowledged = Mutex<Set<Int64>>([])
  }

  private static let schema = "CREATE TABLE t (a BIGINT PRIMARY KEY, n BIGINT NOT NULL DEFAULT 0)"

  @Test
  func `connections that were ended while idle are made again unnoticed`() async throws {
    try await withPostgreSQL(script: Self.schema) { database, test in
      for number in 0..<Int64(5) {
        _ = try await database.execute(Statement("INSERT INTO t VALUES ($1)", .integer(number)))
        #expect(try await database.integer("SELECT count(*) FROM t") == number + 1)
        #expect(try await test.terminateOthers() >= 2)
      }
      _ = try await database.write { try $0.run(Statement("DELETE FROM t")) }
    }
  }

  @Test
  func `a transaction whose connection was ended is run again from its beginning`() async throws {
    try await withPostgreSQL(script: Self.schema) { database, test in
      let runs = Counter()
      let entered = AsyncStream<Void>.makeStream()
      let gate = Gate()
      async let write = database.write { connection in
        try connection.run(Statement("INSERT INTO t VALUES (1)"))
        runs.increment()
        if runs.value == 1 {
          entered.continuation.finish()
          gate.wait()
        }
        return try connection.query(Statement("SELECT count(*) FROM t")).integer
      }
      for await _ in entered.stream {}
      let ended = try await test.terminateOthers()
      #expect(ended >= 1)
      gate.open()
      #expect(try await write == 1)
      #expect(runs.value == 2)
      #expect(try await database.integer("SELECT count(*) FROM t") == 1)
    }
  }

  @Test
  func `a server that was killed and started again is found again, and keeps what was acknowledged`()
    async throws
  {
    try await PostgreSQLServer.test { server in
      let database = try await PostgreSQLDatabase.open(url: server.url)
      try await database.write { try $0.runScript(Self.schema) }
      let journal = Journal()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for task in 0..<Int64(8) {
          group.addTask {
            for turn in 0..<Int64(100_000) {
              let number = task * 100_000 + turn
              let statement = Statement("INSERT INTO t VALUES ($1)", .integer(number))
              let wasDown = journal.isDown.withLock { $0 }
              let error = try await databaseError {
                if task % 2 == 0 {
                  _ = try await database.execute(statement)
                } else {
                  _ = try await database.write { try $0.run(statement) }
                }
              }
              if let error {
                #expect(error.code == .connectionLost)
              } else {
                journal.acknowledged.withLock { _ = $0.insert(number) }
              }
              // One that began after the server had gone and that was answered well: it is there again.
              if error == nil, wasDown { return }
            }
          }
        }
        group.addTask {
          while journal.acknowledged.withLock({ $0.count }) < 500 { await Task.yield() }
          try server.kill()
          journal.isDown.withLock { $0 = true }
          try server.start()
        }
        try await group.waitForAll()
      }
      let kept = Set(try await database.query(Statement("SELECT a FROM t")).map { try $0.int64("a") })
      #expect(kept.isSuperset(of: journal.acknowledged.withLock { $0 }))
      await database.close()
    }
  }

  @Test
  func `without a server a call fails when its time is over, and does not wait for ever`() async throws {
    try await PostgreSQLServer.test { server in
      var options = PostgreSQLDatabase.Options()
      options.waitLimit = 0.5
      options.connections = 1
      let database = try await PostgreSQLDatabase.open(url: server.url, options: options)
      try server.kill()
      let results = await database.results(20) { index in
        try await index % 2 == 0
          ? database.query(Statement("SELECT 1")) : database.execute(Statement("SELECT 1"))
      }
      // Those that waited for another call's connection are told why that call had none.
      #expect(results.allSatisfy { [.connectionLost, .unreachable, .starting].contains($0.databaseCode) })
      try server.start()
      #expect(try await database.integer("SELECT 1") == 1)
      await database.close()
    }
  }

  @Test
  func `a server that hangs is given up, whatever was asked of it, and found again when it goes on`()
    async throws
  {
    try await PostgreSQLServer.test { server in
      var options = PostgreSQLDatabase.Options()
      options.waitLimit = 1
      options.connections = 2
      options.longestSilence = 1
      let database = try await PostgreSQLDatabase.open(
        url: server.url + "&connect_timeout=2", options: options)
      try await database.write { try $0.runScript("CREATE TABLE t (a BIGINT, b BYTEA)") }
      // More than the buffers of a connection that is not read.
      let much = [UInt8](repeating: 0, count: 8 << 20)
      _ = try await database.execute(Statement("INSERT INTO t VALUES (0, $1)", .bytes(much)))
      try server.freeze()
      let results = await database.results(12) { index in
        let statement =
          switch index % 3 {
          case 0: Statement("SELECT 1")
          case 1: Statement("INSERT INTO t VALUES (1, $1)", .bytes(much))
          default: Statement("INSERT INTO t VALUES (2)")
          }
        return index < 6
          ? try await database.execute(statement) : try await database.write { try $0.query(statement) }
      }
      #expect(results.allSatisfy { [.connectionLost, .unreachable].contains($0.databaseCode) })
      try server.thaw()
      #expect(try await database.integer("SELECT count(*) FROM t WHERE a = 0") == 1)
      await database.close()
    }
  }

  @Test
  func `a program that waits for another's migrations is patient`() async throws {
    var options = PostgreSQLDatabase.Options()
    options.longestSilence = 0.5
    try await withPostgreSQL(options: options) { database, test in
      let runs = Counter()
      try await test.database.behindGate(after: { try $0.lockSchema() }) { open in
        async let waiting: Void = database.write { connection in
          runs.increment()
          try connection.lockSchema()
        }
        try await Task.sleep(for: .seconds(2))
        open()
        try await waiting
      }
      #expect(runs.value == 1)
      // The next one on that connection is not.
      let error = try await databaseError { try await database.query(Statement("SELECT pg_sleep(5)")) }
      #expect(error?.code == .connectionLost)
    }
  }

  @Test
  func `fifty writers of one row all have their turn`() async throws {
    try await withPostgreSQL(script: Self.schema + "; INSERT INTO t VALUES (1)") { database, _ in
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<50 {
          group.addTask {
            for _ in 0..<4 {
              try await database.write { connection in
                // Read and written apart: a lost update would show.
                let n = try connection.query(Statement("SELECT n FROM t WHERE a = 1"))[0].int64("n")
                try connection.run(Statement("UPDATE t SET n = $1 WHERE a = 1", .integer(n + 1)))
              }
            }
            _ = try await database.execute(Statement("UPDATE t SET n = n + 1 WHERE a = 1"))
          }
        }
        try await group.waitForAll()
      }
      #expect(try await database.integer("SELECT n FROM t") == 250)
    }
  }

  @Test
  func `writers that read what the other writes do not both succeed on what is no longer so`() async throws {
    let script = Self.schema + "; INSERT INTO t VALUES (1, 1), (2, 1)"
    try await withPostgreSQL(script: script) { database, _ in
      // Each takes one away, but only while two are there.
      _ = await database.results(8) { index in
        try await database.write { connection in
          let sum = try connection.query(Statement("SELECT CAST(sum(n) AS BIGINT) FROM t")).integer
          guard sum == 2 else { return }
          try connection.run(Statement("UPDATE t SET n = 0 WHERE a = $1", .integer(Int64(index % 2 + 1))))
        }
      }
      let sum = try await database.integer("SELECT CAST(sum(n) AS BIGINT) FROM t")
      #expect(sum == 1)
    }
  }

  @Test
  func `what gathers is committed together, and one that fails among many fails alone`() async throws {
    let commits = Counter()
    let observer: DatabaseObserver = { operation, _ in
      if operation == .commit { commits.increment() }
    }
    let script = Self.schema + "; INSERT INTO t VALUES (-1)"
    try await withPostgreSQL(observer: observer, script: script) { database, _ in
      for (failing, expected) in [(-1, 1...1), (57, 3...4)] {
        let before = commits.value
        let results = try await database.behindLock { open in
          await database.results(100) { index in
            let number = index == failing ? -1 : Int64((failing + 1) * 1000 + index)
            return try await database.execute(
              Statement("INSERT INTO t VALUES ($1) RETURNING a", .integer(number)))
          } meanwhile: {
            while database.writes.waitingCount < 100 { await Task.yield() }
            open()
          }
        }
        for (index, result) in results.enumerated() {
          if index == failing {
            #expect(result.databaseCode == .uniqueViolation)
          } else {
            #expect(try result.get().integer == Int64((failing + 1) * 1000 + index))
          }
        }
        // Those of the two that had the lock, and theirs.
        #expect(expected.contains(commits.value - before - 2))
      }
      #expect(try await database.integer("SELECT count(*) FROM t WHERE a >= 0") == 199)
    }
  }

  @Test
  func `a statement that takes too long is ended, and its neighbours are not`() async throws {
    var options = PostgreSQLDatabase.Options()
    options.statementTimeout = 1000
    try await withPostgreSQL(options: options, script: Self.schema) { database, _ in
      let slow = Statement("SELECT pg_sleep(30)")
      #expect(try await databaseError { try await database.query(slow) }?.code == .busy)
      #expect(try await databaseError { try await database.write { try $0.query(slow) } }?.code == .busy)
      let results = await database.results(20) { index in
        try await database.execute(
          index == 10 ? slow : Statement("INSERT INTO t VALUES ($1)", .integer(Int64(index))))
      }
      #expect(results.filter { (try? $0.get()) != nil }.count == 19)
      let count = try await database.integer("SELECT count(*) FROM t")
      #expect(count == 19)
    }
  }

  @Test
  func `a write whose commit is not answered is not repeated`() async throws {
    // A deferred trigger runs in the commit, and there ends its own connection.
    let script =
      Self.schema + """
        ;
        CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(30); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER leave AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW WHEN (NEW.n = 1) EXECUTE FUNCTION leave();
        """
    try await withPostgreSQL(script: script) { database, _ in
      let runs = Counter()
      let error = try await databaseError {
        try await database.write { connection in
          runs.increment()
          try connection.run(Statement("INSERT INTO t VALUES (1, 1)"))
        }
      }
      #expect(error?.code == .connectionLost)
      #expect(error?.isTransient == true)
      #expect(runs.value == 1)
      let statement = Statement("INSERT INTO t VALUES (2, 1)")
      #expect(try await databaseError { try await database.execute(statement) }?.code == .connectionLost)
      _ = try await database.execute(Statement("INSERT INTO t VALUES (3, 0)"))
      #expect(try await database.query(Statement("SELECT a FROM t")).map(\.values) == [[.integer(3)]])
    }
  }

  @Test
  func `a call that waits behind others fails when its time is over`() async throws {
    var options = PostgreSQLDatabase.Options()
    options.connections = 1
    options.waitLimit = 0.3
    try await withPostgreSQL(options: options) { database, _ in
      try await database.behindGate { _ in
        for _ in 0..<2 {
          let error = try await databaseError { try await database.integer("SELECT 1") }
          #expect(error?.code == .connectionLost)
        }
      }
      let one = try await database.integer("SELECT 1")
      #expect(one == 1)
    }
  }

  @Test
  func `calls that would wait in too long a line are refused`() async throws {
    var options = PostgreSQLDatabase.Options()
    options.connections = 1
    options.maximumWaiting = 5
    try await withPostgreSQL(options: options) { database, _ in
      let results = try await database.behindGate { open in
        await database.results(20) { _ in
          try await database.integer("SELECT 1")
        } meanwhile: {
          // Fifteen are refused at once, the others wait.
          while database.transactions.waitingCount < 5 { await Task.yield() }
          open()
        }
      }
      let errors = results.compactMap(\.databaseCode)
      #expect(errors.allSatisfy { $0 == .busy })
      #expect(results.count - errors.count >= 5)
    }
  }
}

extension PostgreSQLDatabase {
  /// Runs `body` while the writer of single statements waits for a lock, until `body` opens the gate.
  fileprivate func behindLock<Output>(
    _ body: (_ open: @escaping @Sendable () -> Void) async throws -> Output
  ) async throws -> Output {
    let lock = Statement("SELECT pg_advisory_xact_lock(1)")
    return try await behindGate(after: { _ = try $0.query(lock) }) { open in
      async let waiter = execute(lock)
      // One that has the lock not yet.
      let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
      while try await integer(waiting) == 0 {}
      let output = try await body(open)
      _ = try await waiter
      return output
    }
  }
}
