import Foundation
import NIOCore
import Synchronization
import Testing

extension NIODeadline {
  /// Seconds from now.
  static func seconds(_ seconds: Double) -> NIODeadline { .now() + .nanoseconds(Int64(seconds * 1e9)) }
}

/// Counts from 1.
final class Counter: Sendable {
  private let value = Atomic(0)

  func next() -> Int { value.add(1, ordering: .relaxed).newValue }
}
