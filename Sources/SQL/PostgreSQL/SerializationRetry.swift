import Foundation
import Synchronization

/// Runs transactions again that others got in the way of.
///
/// All may be under way at once, but of those that are run again only one at a time: else many
/// that write the same row would go on to fail each other.
final class SerializationRetry: Sendable {
  private static let maximum = 10

  /// Waited for on the threads of connections only, which have nothing else to do.
  private let turn = Mutex(())

  /// Runs `body` until its outcome is not to be had again, or ten times.
  func run<Outcome: Sendable>(_ body: () -> Outcome, again: (Outcome) -> Bool) -> Outcome {
    var outcome = body()
    var pauses = Pauses(first: 0.002, longest: 0.1)
    var attempt = 1
    while attempt < Self.maximum, again(outcome) {
      // Whoever got in the way is given the time to end; the thread is the driver's own.
      Thread.sleep(forTimeInterval: pauses.next())
      outcome = turn.withLock { _ in body() }
      attempt += 1
    }
    return outcome
  }
}

/// Pauses that double, each somewhere between the half and the whole of it, so that those who
/// failed together do not try again together.
struct Pauses {
  private var pause: Double
  private let longest: Double

  /// - Parameters: in seconds.
  init(first: Double, longest: Double) {
    pause = first
    self.longest = longest
  }

  /// The next pause in seconds.
  mutating func next() -> Double {
    defer { pause = min(pause * 2, longest) }
    return pause * .random(in: 0.5...1)
  }
}
