import Foundation
import Synchronization
import Timing

/// Runs transactions again that others got in the way of.
///
/// All may be under way at once, but of those that are run again only one at a time: else many
/// that write the same row would go on to fail each other.
final class SerializationRetry: Sendable {
  private static let maximum = 10
  private static let backoff = Backoff(first: 0.002, longest: 0.1, shares: 0.5...1)

  /// Waited for on the threads of connections only, which have nothing else to do.
  private let turn = Mutex(())

  /// Runs `body` until its outcome is not to be had again, or ten times.
  func run<Outcome: Sendable>(_ body: () -> Outcome, again: (Outcome) -> Bool) -> Outcome {
    var outcome = body()
    var attempt = 1
    while attempt < Self.maximum, again(outcome) {
      // Whoever got in the way is given the time to end; the thread is the driver's own.
      Thread.sleep(forTimeInterval: Self.backoff.pause(after: attempt))
      outcome = turn.withLock { _ in body() }
      attempt += 1
    }
    return outcome
  }
}
