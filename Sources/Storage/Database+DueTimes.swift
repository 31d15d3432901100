package import Foundation
package import SQL

/// No job is put off for so long, in seconds: pauses are a quarter of an hour at most.
private let longestPause: TimeInterval = 3600

extension Database {
  /// Makes due the jobs of a table that are due further ahead than any is ever put off: a clock that was wrong has done
  /// that.
  package func bringForward(_ table: String, now: Date) async throws {
    let statement = Statement(
      "UPDATE \(table) SET due_at = $1 WHERE due_at > $2", .integer(now.milliseconds),
      .integer((now + longestPause).milliseconds))
    _ = try await execute(statement)
  }
}
