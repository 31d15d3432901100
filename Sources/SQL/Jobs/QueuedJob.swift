/// What one caller wants done by a ``JobQueue``.
protocol QueuedJob: Sendable {
  /// When its caller stops waiting for a worker; nil: never.
  var deadline: ContinuousClock.Instant? { get }

  /// Tells the caller that nothing came of it.
  var fail: @Sendable (any Error) -> Void { get }
}
