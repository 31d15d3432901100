import Foundation
package import Testing

/// The time after which what a test waits for counts as missing. It is half of what `Scripts/proof/limited` allows a whole test, so
/// that the test itself says what it missed. No test allows less: a machine may have much else to do.
package let longestWait = Duration.seconds(
  (ProcessInfo.processInfo.environment["TEST_LIMIT"].flatMap(Double.init) ?? 600) / 2)

/// Waits until the condition holds; fails the test after ``longestWait``. In a task that is cancelled, because something else
/// has failed, it does not wait.
package func eventually(
  _ what: String = "it", sourceLocation: SourceLocation = #_sourceLocation,
  _ condition: () async throws -> Bool
) async rethrows {
  let end = ContinuousClock.now + longestWait
  while ContinuousClock.now < end {
    if try await condition() || Task.isCancelled { return }
    try? await Task.sleep(for: .milliseconds(10))
  }
  Issue.record("\(what): did not happen in time", sourceLocation: sourceLocation)
}
