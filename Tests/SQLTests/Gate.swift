import Dispatch
import Testing

/// Holds a thread of the database until the test lets it go.
final class Gate: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)

  /// Blocks until ``open()``; half a minute at most, so that a failing test ends.
  func wait() {
    #expect(semaphore.wait(timeout: .now() + 30) == .success)
  }

  func open() { semaphore.signal() }
}
