import Synchronization

/// Whether a read took so long of late that the disk must have been waited for: then none may wait on a thread that has
/// other work.
final class ReadSlowness: Sendable {
  /// A read of pages that are in memory takes microseconds; a thread that others kept from running, milliseconds.
  private static let limit = Duration.milliseconds(20)

  private let pause: Duration
  private let until = Mutex<ContinuousClock.Instant?>(nil)
  private let isSlow = Atomic(false)

  /// - Parameter pause: for how long no read is tried after a slow one.
  init(pause: Duration = .seconds(1)) {
    self.pause = pause
  }

  /// Whether a read may be tried where it must not take long.
  var mayAsk: Bool {
    guard isSlow.load(ordering: .relaxed) else { return true }
    return until.withLock { until in
      guard let end = until, ContinuousClock.now < end else {
        until = nil
        isSlow.store(false, ordering: .relaxed)
        return true
      }
      return false
    }
  }

  /// A read has taken so long.
  func note(_ duration: Duration) {
    guard duration >= Self.limit else { return }
    until.withLock { $0 = .now + pause }
    isSlow.store(true, ordering: .relaxed)
  }
}
