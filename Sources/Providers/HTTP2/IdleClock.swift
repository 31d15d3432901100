import NIOCore

/// Ends a connection that nobody uses. To be used on its event loop.
struct IdleClock {
  /// How long that may last at present; nil: for ever.
  let limit: (@Sendable () -> TimeAmount)?
  private var scheduled: Scheduled<Void>?

  init(limit: (@Sendable () -> TimeAmount)?) { self.limit = limit }

  /// Nothing is under way any more.
  mutating func begin(on eventLoop: any EventLoop, _ expired: @escaping () -> Void) {
    guard let limit else { return }
    scheduled?.cancel()
    scheduled = eventLoop.assumeIsolated().scheduleTask(in: limit(), expired)
  }

  /// Something is.
  mutating func end() {
    scheduled?.cancel()
    scheduled = nil
  }
}
