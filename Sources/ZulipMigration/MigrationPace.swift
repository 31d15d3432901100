internal import SQL

/// How much a transaction takes, and how long the next one waits.
///
/// The larger they are the less is written: an index is touched all over, and each of its pages is written
/// once for all rows of a transaction. But SQLite has one writer, and a service that runs on the same file
/// gives up after ``SQLiteDatabase/Options/busyTimeout``: so a transaction takes a second, and leaves the file
/// alone afterwards for as long as others sleep before they look again.
///
/// PostgreSQL writes no page before its checkpoint, and large transactions get in others' way: there each
/// takes one batch.
struct MigrationPace: Sendable {
  private static let wanted = Duration.seconds(1)
  /// SQLite's busy handler sleeps a tenth of a second at most.
  private static let longestPause = Duration.milliseconds(120)
  private static let least = 1 << 18

  /// How much text of the source a transaction takes, in bytes.
  private(set) var bytes: Int
  /// How long the file is left to others after the latest.
  private(set) var pause = Duration.zero
  private let maximum: Int

  /// - Parameter maximum: what a transaction takes at most; so much is in memory, and as much again that is
  ///   being made ready.
  init(_ engine: DatabaseEngine, maximum: Int) {
    self.maximum = engine == .sqlite ? maximum : 0
    bytes = self.maximum / 4
  }

  /// Takes into account how long a transaction took.
  mutating func note(_ spent: Duration) {
    guard maximum > 0 else { return }
    let factor = min(2, Self.wanted / max(spent, .milliseconds(1)))
    bytes = min(maximum, max(Self.least, Int(Double(bytes) * factor)))
    pause = min(spent, Self.longestPause)
  }
}
