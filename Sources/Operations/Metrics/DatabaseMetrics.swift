internal import Metrics
package import SQL

/// Durations of the database's operations, as `DatabaseObserver` sees them.
package struct DatabaseMetrics: Sendable {
  private let read = Timer(
    label: "push_bouncer_database_duration_seconds", dimensions: [("operation", "read")])
  private let write = Timer(
    label: "push_bouncer_database_duration_seconds", dimensions: [("operation", "write")])
  private let commit = Timer(
    label: "push_bouncer_database_duration_seconds", dimensions: [("operation", "commit")])

  /// Handles of the process's metrics system.
  package init() {}

  /// Records one operation.
  package func observe(_ operation: DatabaseOperation, _ duration: Duration) {
    switch operation {
    case .read: read.record(duration: duration)
    case .write: write.record(duration: duration)
    case .commit: commit.record(duration: duration)
    }
  }
}
