/// What one caller wants done by a ``JobQueue``.
protocol QueuedJob: Sendable {
  /// Who waits for it.
  var caller: Caller { get }

  /// Until when it waits for a worker; nil: for as long as it takes.
  var deadline: ContinuousClock.Instant? { get }
}
