import TestSupport
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
        let (entered, gate) = (Counter(), Gate())
        async let held: Void = database.read { _ in
          entered.increment()
          gate.wait()
        }
        await eventually { entered.value == 1 }
        for _ in 0..<10 { try await database.read { _ in } }
        gate.open()
        try await held
      }
    }
  }
}
