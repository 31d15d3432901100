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
