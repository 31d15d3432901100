import Dispatch
import TestSupport
import Testing

/// Holds a thread of the database until the test lets it go.
final class Gate: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)

  /// Blocks until ``open()``; ``longestWait`` at most, so that a failing test ends.
  func wait() {
    #expect(semaphore.wait(timeout: .now() + longestWait / .seconds(1)) == .success)
  }

  func open() { semaphore.signal() }
}
