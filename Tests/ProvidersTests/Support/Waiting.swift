import Foundation
import NIOCore
import Synchronization
import Testing

/// Waits until the condition holds; fails the test after a generous time.
func eventually(
  within limit: Duration = .seconds(20), sourceLocation: SourceLocation = #_sourceLocation,
  _ condition: () async -> Bool
) async {
  let end = ContinuousClock.now + limit
  while ContinuousClock.now < end {
    if await condition() { return }
    try? await Task.sleep(for: .milliseconds(5))
  }
  Issue.record("did not happen in time", sourceLocation: sourceLocation)
}

extension NIODeadline {
  /// Seconds from now.
  static func seconds(_ seconds: Double) -> NIODeadline { .now() + .nanoseconds(Int64(seconds * 1e9)) }
}

/// Counts from 1.
final class Counter: Sendable {
  private let value = Atomic(0)

  func next() -> Int { value.add(1, ordering: .relaxed).newValue }
}
