import Synchronization

/// Counts from several tasks.
package final class Counter: Sendable {
  private let count = Atomic(0)

  package init() {}

  package var value: Int { count.load(ordering: .sequentiallyConsistent) }

  /// Counts one more.
  ///
  /// - Returns: how many there are with it.
  @discardableResult package func increment() -> Int {
    count.add(1, ordering: .sequentiallyConsistent).newValue
  }
}
