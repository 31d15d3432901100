/// How long a request waits for a database that is away or says nothing.
package enum DatabasePatience {
  @TaskLocal static var deadline: ContinuousClock.Instant?
  @TaskLocal private static var limit: Duration?

  /// Within `body` each call of a ``Database`` is given up after `duration`: a server that hangs must not hold its
  /// callers. What was asked for may still happen.
  package static func limit<Result>(
    eachCallTo duration: Duration, during body: () async throws -> Result
  ) async rethrows -> Result {
    try await $limit.withValue(duration, operation: body)
  }

  /// Some callers lose for good what they were refused once: for them a database that is restarted, locked
  /// or full is worth waiting for, up to the moment at which they would give up themselves.
  ///
  /// Within `body` each call of a ``PatientDatabase`` is made again while it fails for a reason that may
  /// pass, and given up when `duration` is over, which counts for all of them together.
  package static func wait<Result>(
    upTo duration: Duration, during body: () async throws -> Result
  ) async rethrows -> Result {
    try await $deadline.withValue(.now + duration, operation: body)
  }

  /// When a call that is made `now` is given up; nil: never.
  static func limit(from now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
    deadline ?? limit.map { now + $0 }
  }
}
