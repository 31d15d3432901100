import SQL
import Testing

@testable import ZulipMigration

struct MigrationPaceTests {
  @Test func `A transaction grows as long as it takes less than a second`() {
    var pace = MigrationPace(.sqlite, maximum: 8 << 20)
    #expect(pace.bytes == 2 << 20)
    pace.note(.milliseconds(100))
    #expect(pace.bytes == 4 << 20)
    pace.note(.seconds(2))
    #expect(pace.bytes == 2 << 20)
    pace.note(.seconds(60))
    #expect(pace.bytes == 1 << 18)
    for _ in 0..<10 { pace.note(.zero) }
    #expect(pace.bytes == 8 << 20)
  }

  @Test func `SQLite's file is left to others for as long as they sleep, or for as long as it was held`() {
    var pace = MigrationPace(.sqlite, maximum: 8 << 20)
    #expect(pace.pause == .zero)
    pace.note(.milliseconds(3))
    #expect(pace.pause == .milliseconds(3))
    pace.note(.seconds(3))
    #expect(pace.pause > .milliseconds(100) && pace.pause < .milliseconds(200))
  }

  @Test func `A transaction of PostgreSQL takes one batch, and nobody waits for it`() {
    var pace = MigrationPace(.postgreSQL, maximum: 8 << 20)
    pace.note(.milliseconds(3))
    #expect(pace.bytes == 0 && pace.pause == .zero)
  }
}
