package import Foundation
import Synchronization

/// A clock that a test sets: it stands still until it is moved, or follows the machine's clock.
package final class TestClock: Sendable {
  private struct State {
    /// The time of both clocks if they stand still.
    var standing: (wall: Date, monotonic: Duration)?
    /// Seconds added to both clocks.
    var advanced: TimeInterval = 0
    /// Seconds added to the time of day only.
    var jumped: TimeInterval = 0
    var isTrusted = true
  }

  private let begin = ContinuousClock.now
  private let state: Mutex<State>

  /// - Parameter start: the time at which it stands still; nil for a running clock.
  package init(_ start: Date? = Date(timeIntervalSince1970: 1_790_000_000)) {
    state = Mutex(State(standing: start.map { ($0, .zero) }))
  }

  /// The time of day.
  package var now: Date {
    state.withLock { ($0.standing?.wall ?? Date()) + $0.advanced + $0.jumped }
  }

  /// The monotonic time.
  package var monotonic: Duration {
    state.withLock { ($0.standing?.monotonic ?? .now - begin) + .seconds($0.advanced) }
  }

  /// Whether a service that uses the clock trusts it.
  package var isTrusted: Bool {
    get { state.withLock { $0.isTrusted } }
    set { state.withLock { $0.isTrusted = newValue } }
  }

  /// Lets time pass, or takes it back.
  package func advance(_ seconds: TimeInterval) { state.withLock { $0.advanced += seconds } }

  /// Lets time pass until then, or takes it back.
  package func set(_ date: Date) { advance(date.timeIntervalSince(now)) }

  /// Changes the time of day without the passage of time.
  package func jump(_ seconds: TimeInterval) { state.withLock { $0.jumped += seconds } }

  /// From now on time passes by ``advance(_:)`` only.
  package func stop() {
    let passed = ContinuousClock.now - begin
    state.withLock { $0.standing = (Date(), passed) }
  }
}
