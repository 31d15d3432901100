import TestDatabase
import TestSupport
import Testing

@testable import SQL

@Suite("What keeps a database from working")
struct TroubleTests {
  @Test func `is known while a write waits for another process, and when that began`() async throws {
    var options = SQLiteDatabase.Options()
    options.busyTimeout = 600
    try await withDatabase(options: options, script: "CREATE TABLE jobs (id INTEGER PRIMARY KEY)") {
      database, folder in
      let other = try SQLiteHandle(path: folder.databasePath, busyTimeout: 0)
      let start = ContinuousClock.now
      try other.run("BEGIN IMMEDIATE")
      #expect(database.trouble == nil)
      async let insertion = database.execute("INSERT INTO jobs VALUES (1)")
      await eventually("trouble") { database.trouble?.error.code == .busy }
      let since = try #require(database.trouble?.since)
      #expect(since >= start && since < .now - .milliseconds(400))
      // Reading works, and says nothing about writing.
      #expect(try await database.query("SELECT 1").integer == 1)
      #expect(database.trouble?.error.code == .busy)
      // A call that waits no longer is told the cause.
      let error = try await databaseError {
        try await DatabaseWait.limit(eachCallTo: .milliseconds(50)) {
          try await database.execute("INSERT INTO jobs VALUES (2)")
        }
      }
      #expect(error?.code == .busy)
      #expect(database.trouble?.since == since)
      try other.run("ROLLBACK")
      _ = try await insertion
      #expect(database.trouble == nil)
    }
  }

  @Test func `is no error of a single statement`() async throws {
    try await withDatabase(script: "CREATE TABLE jobs (id INTEGER PRIMARY KEY CHECK (id > 0))") {
      database, _ in
      for sql in ["INSERT INTO jobs VALUES (0)", "INSERT INTO nothing VALUES (0)"] {
        let error = try await databaseError { try await database.execute(Statement(sql)) }
        #expect(error != nil)
      }
      #expect(database.trouble == nil)
    }
  }

  @Test func `lasts until something is written if it kept from writing`() {
    let trouble = DatabaseTrouble()
    let start = ContinuousClock.now
    trouble.met(DatabaseError(.full, "full"), in: .write, since: start)
    trouble.met(DatabaseError(.readOnly, "read-only"), in: .write)
    trouble.passed(.read)
    #expect(trouble.current?.error.code == .readOnly && trouble.current?.since == start)
    trouble.met(DatabaseError(.unreachable, "refused"), in: .read)
    #expect(trouble.current?.error.code == .unreachable)
    trouble.passed(.write)
    #expect(trouble.current == nil)
    trouble.met(DatabaseError(.uniqueViolation, "twice"), in: .write)
    trouble.met(CancellationError(), in: .write)
    #expect(trouble.current == nil)
  }
}
