import Testing

@testable import SQL

@Suite("Workers of a database")
struct JobQueueTests {
  @Test
  func `nobody waits for one that is busy while others are idle`() async throws {
    var options = SQLiteDatabase.Options()
    options.readers = 4
    for _ in 0..<20 {
      try await withDatabase(options: options) { database, _ in
        // Every thread has worked and been idle.
        for _ in 0..<10 { _ = await database.results(16) { _ in try await database.read { _ in } } }
        try await database.holding(.read) { _ in for _ in 0..<10 { try await database.read { _ in } } }
      }
    }
  }
}
