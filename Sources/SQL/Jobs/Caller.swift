import Synchronization

/// Who waits for a job, and is answered once: when the job is done, or earlier by whoever gives it up.
final class Caller: Sendable {
  /// When it asked.
  let start = ContinuousClock.now

  /// When it is answered whatever becomes of the job; nil: never. See ``DatabasePatience``.
  let limit: ContinuousClock.Instant?

  private let continuation: Mutex<CheckedContinuation<Void, any Error>?>
  private let observe: (operation: DatabaseOperation, observer: DatabaseObserver)?

  /// - Parameter observe: who is told how long it waited, and for what.
  init(
    _ continuation: CheckedContinuation<Void, any Error>,
    observe: (operation: DatabaseOperation, observer: DatabaseObserver)?
  ) {
    self.continuation = Mutex(continuation)
    self.observe = observe
    limit = DatabasePatience.limit(from: start)
  }

  /// Tells it that the job is done, unless it was told something already.
  func succeed() { take()?.resume() }

  /// Tells it that nothing came of the job, unless it was told something already.
  func fail(_ error: any Error) { take()?.resume(throwing: error) }

  private func take() -> CheckedContinuation<Void, any Error>? {
    let taken = continuation.withLock { continuation in
      defer { continuation = nil }
      return continuation
    }
    if taken != nil, let (operation, observer) = observe { observer(operation, .now - start) }
    return taken
  }
}

/// Where a job leaves what its caller asked for, to be fetched when that has been told that it is done. A job may
/// be done more than once: what it left last counts.
final class Kept<Value: Sendable>: Sendable {
  private let state = Mutex<Value?>(nil)

  var value: Value? {
    get { state.withLock { $0 } }
    set { state.withLock { $0 = newValue } }
  }
}

/// What one caller wants done by a ``JobQueue``.
protocol QueuedJob: Sendable {
  /// Who waits for it.
  var caller: Caller { get }

  /// Until when it waits for a worker; nil: for as long as it takes.
  var deadline: ContinuousClock.Instant? { get }
}
