package import Foundation
import Synchronization

/// A clock that a test sets: it stands still until it is moved, or goes along with the machine's.
package final class TestClock: Sendable {
  private struct State {
    /// What both clocks show if they stand still.
    var standing: (wall: Date, monotonic: Duration)?
    /// What has been added to both.
    var advanced: TimeInterval = 0
    /// What has been added to the time of day alone.
    var jumped: TimeInterval = 0
    var isTrusted = true
  }

  private let begin = ContinuousClock.now
  private let state: Mutex<State>

  /// - Parameter start: where it stands still; nil for a clock that goes.
  package init(_ start: Date? = Date(timeIntervalSince1970: 1_790_000_000)) {
    state = Mutex(State(standing: start.map { ($0, .zero) }))
  }

  /// The time of day.
  package var now: Date {
    state.withLock { ($0.standing?.wall ?? Date()) + $0.advanced + $0.jumped }
  }

  /// What has passed.
  package var monotonic: Duration {
    state.withLock { ($0.standing?.monotonic ?? .now - begin) + .seconds($0.advanced) }
  }

  /// Whether a service that is told believes it.
  package var isTrusted: Bool {
    get { state.withLock { $0.isTrusted } }
    set { state.withLock { $0.isTrusted = newValue } }
  }

  /// Lets time pass, or takes it back.
  package func advance(_ seconds: TimeInterval) { state.withLock { $0.advanced += seconds } }

  /// Lets time pass until then, or takes it back.
  package func set(_ date: Date) { advance(date.timeIntervalSince(now)) }

  /// Puts the time of day wrong: no time has passed.
  package func jump(_ seconds: TimeInterval) { state.withLock { $0.jumped += seconds } }

  /// From now on time passes by ``advance(_:)`` only.
  package func stop() {
    let passed = ContinuousClock.now - begin
    state.withLock { $0.standing = (Date(), passed) }
  }
}
