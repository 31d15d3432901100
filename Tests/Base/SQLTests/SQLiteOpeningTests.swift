import Foundation
import TestDatabase
import TestSupport
import Testing

@testable import SQL

@Suite("Opening and closing an SQLite file")
struct SQLiteOpeningTests {
  @Test
  func `writes are synced in full to a write-ahead log, and foreign keys hold`() async throws {
    try await withDatabase { database, _ in
      let values = try await database.write { connection in
        try ["synchronous", "journal_mode", "foreign_keys"].map {
          try connection.query(Statement("PRAGMA \($0)")).first?.values.first
        }
      }
      #expect(values == [.integer(2), .text("wal"), .integer(1)])
    }
  }

  @Test
  func `who fills a database keeps more in memory and writes the log back less often`() async throws {
    let cases = [(SQLiteDatabase.Options(), [-2000, 1000] as [Int64]), (.filling, [-65536, 131_072])]
    for (options, expected) in cases {
      try await withDatabase(options: options) { database, _ in
        let values = try await database.write { connection in
          try ["cache_size", "wal_autocheckpoint"].map {
            try connection.query(Statement("PRAGMA \($0)")).integer
          }
        }
        #expect(values == expected)
      }
    }
  }

  @Test
  func `who closes a file that others have open has written the log back`() async throws {
    try await withDatabase(options: .filling, script: "CREATE TABLE t (a)") { other, folder in
      let database = try SQLiteDatabase(path: folder.databasePath, options: .filling)
      try await database.write { connection in
        for _ in 0..<20 { try connection.run(Statement("INSERT INTO t VALUES (zeroblob(100000))")) }
      }
      #expect(try size(folder.databasePath) < 100_000)
      await database.close()
      #expect(try size(folder.databasePath) > 2_000_000)
      #expect(try await other.integer("SELECT count(*) FROM t") == 20)
    }
  }

  private func size(_ path: String) throws -> Int {
    let attributes = try FileManager.default.attributesOfItem(atPath: path)
    return try #require(attributes[.size] as? Int)
  }

  @Test
  func `synchronous stays full after reads, writes and failures`() async throws {
    try await withDatabase(script: "CREATE TABLE t (a PRIMARY KEY)") { database, _ in
      for _ in 0..<3 {
        _ = try? await database.execute(Statement("INSERT INTO t VALUES (1)"))
        _ = try await database.integer("SELECT count(*) FROM t")
      }
      let rows = try await database.write { try $0.query(Statement("PRAGMA synchronous")) }
      #expect(try rows.integer == 2)
    }
  }

  @Test(arguments: ["", "-wal", "-shm"])
  func `the database and what lies beside it are private`(suffix: String) async throws {
    try await withDatabase(script: "CREATE TABLE t (a)") { _, folder in
      let attributes = try FileManager.default.attributesOfItem(atPath: folder.databasePath + suffix)
      #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
    }
  }

  @Test func `no database is made at the end of a link that leads nowhere`() throws {
    try withTemporaryFolder { folder in
      let (path, target) = (folder.path + "/database", folder.path + "/target")
      try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: target)
      let error = #expect(throws: DatabaseError.self) { try SQLiteDatabase(path: path) }
      // "No such file", not "it exists already".
      #expect(error?.message == "the file cannot be opened (error \(ENOENT))")
      #expect(!FileManager.default.fileExists(atPath: target))
    }
  }

  @Test(arguments: [":memory:", "file:x?mode=memory"])
  func `paths that SQLite would take for something else are files`(name: String) async throws {
    try await withTemporaryFolder { folder in
      let path = folder.path + "/" + name
      let database = try SQLiteDatabase(path: path)
      await database.close()
      #expect(FileManager.default.fileExists(atPath: path))
    }
  }

  @Test
  func `a folder that does not exist is an error`() async throws {
    try await withTemporaryFolder { folder in
      let error = try await databaseError {
        try await SQLiteDatabase.open(path: folder.databasePath + "/none/test.sqlite")
      }
      #expect(error?.code == .io)
    }
  }

  @Test
  func `a file that is no database is an error, and stays as it is`() async throws {
    try await withTemporaryFolder { folder in
      let content = Data(repeating: 0x41, count: 8192)
      try content.write(to: URL(fileURLWithPath: folder.databasePath))
      let error = try await databaseError { try await SQLiteDatabase.open(path: folder.databasePath) }
      #expect(error?.code == .corrupt)
      #expect(try Data(contentsOf: URL(fileURLWithPath: folder.databasePath)) == content)
    }
  }

  @Test
  func `a read-only database is an error to write and none to read`() async throws {
    try await withDatabase(script: "CREATE TABLE t (a)") { database, _ in
      _ = try await database.write { try $0.query(Statement("PRAGMA query_only = 1")) }
      let error = try await databaseError {
        try await database.execute(Statement("INSERT INTO t VALUES (1)"))
      }
      #expect(error?.code == .readOnly)
      #expect(try await database.integer("SELECT count(*) FROM t") == 0)
    }
  }

  @Test
  func `closing does what was asked for before it`() async throws {
    try await withDatabase(script: "CREATE TABLE t (a)") { database, folder in
      try await database.behindGate { open in
        try await withThrowingTaskGroup(of: Void.self) { group in
          for _ in 0..<20 {
            group.addTask { _ = try await database.execute(Statement("INSERT INTO t VALUES (1)")) }
          }
          while database.writer.waitingCount < 20 { await Task.yield() }
          group.addTask { await database.close() }
          while try await databaseError({ try await database.read { _ in } }) == nil {}
          open()
          try await group.waitForAll()
        }
      }
      let again = try await SQLiteDatabase.open(path: folder.databasePath)
      #expect(try await again.integer("SELECT count(*) FROM t") == 20)
      await again.close()
    }
  }

  @Test
  func `work that waits in the database holds up no task`() async throws {
    var options = SQLiteDatabase.Options()
    options.readers = 16
    try await withDatabase(options: options) { database, _ in
      let gate = Gate()
      let entered = Counter()
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<options.readers {
          group.addTask {
            try await database.read { _ in
              entered.increment()
              gate.wait()
            }
          }
        }
        // More than there are threads for tasks, and yet this one goes on.
        while entered.value < options.readers { await Task.yield() }
        #expect(entered.value == options.readers)
        for _ in 0..<options.readers { gate.open() }
        try await group.waitForAll()
      }
    }
  }

  @Test
  func `two databases at once stay apart`() async throws {
    try await withDatabase(script: "CREATE TABLE t (a)") { first, _ in
      try await withDatabase(script: "CREATE TABLE t (a)") { second, _ in
        _ = try await first.execute(Statement("INSERT INTO t VALUES (1)"))
        #expect(try await first.integer("SELECT count(*) FROM t") == 1)
        #expect(try await second.integer("SELECT count(*) FROM t") == 0)
      }
    }
  }

  @Test
  func `two programs write to one file, each waiting for the other`() async throws {
    try await withDatabase(script: "CREATE TABLE t (a)") { first, folder in
      let second = try await SQLiteDatabase.open(path: folder.databasePath)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for database in [first, second] {
          group.addTask {
            for _ in 0..<50 { _ = try await database.execute(Statement("INSERT INTO t VALUES (1)")) }
          }
        }
        try await group.waitForAll()
      }
      #expect(try await first.integer("SELECT count(*) FROM t") == 100)
      await second.close()
    }
  }

  @Test
  func `a lock that another program does not give back is an error that may pass`() async throws {
    var options = SQLiteDatabase.Options()
    options.busyTimeout = 0.01
    try await withDatabase(options: options, script: "CREATE TABLE t (a)") { first, folder in
      let second = try await SQLiteDatabase.open(path: folder.databasePath)
      try await second.behindGate(after: { try $0.run(Statement("INSERT INTO t VALUES (1)")) }) { _ in
        let error = try await databaseError { try await first.execute(Statement("INSERT INTO t VALUES (2)")) }
        #expect(error?.code == .busy)
        #expect(error?.isTransient == true)
      }
      _ = try await first.execute(Statement("INSERT INTO t VALUES (3)"))
      #expect(try await first.integer("SELECT sum(a) FROM t") == 4)
      await second.close()
    }
  }
}
