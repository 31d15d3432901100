/// What one caller wants done on a connection, and how that caller gets the answer.
struct SQLiteJob: QueuedJob {
  /// Hands over what the body has returned or thrown.
  typealias Answer = @Sendable () -> Void

  /// Whether it may have written something when it throws. One statement has not: SQLite undoes
  /// a statement that fails.
  let needsSavepoint: Bool

  /// Runs the body and returns the answer to a caller whose work is kept.
  let run: @Sendable (SQLiteConnection) throws -> Answer

  /// A job waits for its turn, which is never far.
  var deadline: ContinuousClock.Instant? { nil }

  let fail: @Sendable (any Error) -> Void

  /// The job that runs `body` and answers through `continuation`.
  init<Result: Sendable>(
    _ continuation: CheckedContinuation<Result, any Error>, needsSavepoint: Bool,
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) {
    self.needsSavepoint = needsSavepoint
    run = { connection in
      let result = try body(connection)
      return { continuation.resume(returning: result) }
    }
    fail = { continuation.resume(throwing: $0) }
  }
}
