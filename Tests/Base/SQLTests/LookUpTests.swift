import Synchronization
import TestDatabase
import TestSupport
import Testing

@testable import SQL

@Suite("Looking up by a key")
struct LookUpTests {
  private static let schema = "CREATE TABLE t (a BIGINT PRIMARY KEY, b TEXT)"
  private static let select = Statement("SELECT b FROM t WHERE a = $1", .integer(1))

  @Test(arguments: DatabaseEngine.available)
  func `sees what was written before, and nothing that is not there`(engine: DatabaseEngine) async throws {
    try await withDatabase(engine, script: Self.schema) { database in
      #expect(try await database.lookUp(Self.select).isEmpty)
      for text in ["first", "second", "third"] {
        _ = try await database.execute(
          Statement(
            "INSERT INTO t VALUES (1, $1) ON CONFLICT (a) DO UPDATE SET b = excluded.b", .text(text)))
        #expect(try await database.lookUp(Self.select).map { try $0.text("b") } == [text])
      }
    }
  }

  @Test(arguments: DatabaseEngine.available)
  func `says what is wrong, writes nothing, and is refused when all is closed`(engine: DatabaseEngine)
    async throws
  {
    try await withDatabase(engine, script: Self.schema) { database in
      var error = try await databaseError { try await database.lookUp(Statement("SELECT * FROM nowhere")) }
      #expect(error != nil)
      error = try await databaseError {
        try await database.lookUp(Statement("INSERT INTO t VALUES (1, 'x') RETURNING a"))
      }
      #expect(error?.code == .readOnly)
      let rows = try await database.lookUp(Self.select)
      #expect(rows.isEmpty)
      await database.close()
      error = try await databaseError { try await database.lookUp(Self.select) }
      #expect(error?.code == .closed)
    }
  }

  @Test
  func `runs on the caller's thread where a reader is idle, and waits for one where none is`() async throws {
    let counts = Counter()
    let observer: DatabaseObserver = { operation, _ in if operation == .read { counts.increment() } }
    try await withDatabase(observer: observer, script: Self.schema) { database, _ in
      let before = counts.value
      #expect(database.rowsAtOnce(Self.select)?.isEmpty == true)
      #expect(counts.value == before + 1)
      let (entered, gate) = (Counter(), Gate())
      async let held: Void = {
        await withTaskGroup { group in
          for _ in 0..<SQLiteDatabase.Options().readers {
            group.addTask {
              try? await database.read { _ in
                entered.increment()
                gate.wait()
              }
            }
          }
        }
      }()
      await eventually { entered.value == SQLiteDatabase.Options().readers }
      #expect(database.rowsAtOnce(Self.select) == nil)
      async let found = database.lookUp(Self.select)
      for _ in 0..<SQLiteDatabase.Options().readers { gate.open() }
      let rows = try await found
      #expect(rows.isEmpty)
      await held
    }
  }

  @Test
  func `is left to other threads for a while after the disk was waited for`() async throws {
    try await withDatabase(script: Self.schema) { database, _ in
      database.note(.milliseconds(19))
      #expect(database.rowsAtOnce(Self.select) != nil)
      database.note(.milliseconds(20))
      #expect(database.rowsAtOnce(Self.select) == nil)
      await eventually { database.rowsAtOnce(Self.select) != nil }
    }
  }
}
