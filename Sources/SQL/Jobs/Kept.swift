import Synchronization

/// Where a job leaves what its caller asked for, to be fetched when that has been told that it is done. A job may
/// be done more than once: what it left last counts.
final class Kept<Value: Sendable>: Sendable {
  private let state = Mutex<Value?>(nil)

  var value: Value? {
    get { state.withLock { $0 } }
    set { state.withLock { $0 = newValue } }
  }
}
