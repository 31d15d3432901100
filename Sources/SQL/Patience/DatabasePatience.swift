/// How long a request waits, in all, for a database that is away.
///
/// Some callers lose for good what they were refused once: for them a database that is restarted, locked
/// or full is worth waiting for, up to the moment at which they would give up themselves.
public enum DatabasePatience {
  @TaskLocal static var deadline: ContinuousClock.Instant?

  /// Within `body` each call of a ``PatientDatabase`` is made again while it fails for a reason that may
  /// pass, and given up when `duration` is over, which counts for all of them together.
  public static func wait<Result>(
    upTo duration: Duration, during body: () async throws -> Result
  ) async rethrows -> Result {
    try await $deadline.withValue(.now + duration, operation: body)
  }
}
