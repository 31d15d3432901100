/// A snapshot or a transaction that a caller waits for.
struct PostgreSQLTransaction: QueuedJob {
  enum Kind: Sendable {
    case read, write

    var begin: StaticString {
      switch self {
      case .read: "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
      case .write: "BEGIN ISOLATION LEVEL SERIALIZABLE"
      }
    }
  }

  let kind: Kind
  let deadline: ContinuousClock.Instant?

  /// Runs the body and returns what hands its result over.
  let run: @Sendable (PostgreSQLConnection) throws -> @Sendable () -> Void
  let fail: @Sendable (any Error) -> Void

  /// The job that runs `body` and answers through `continuation`.
  init<Result: Sendable>(
    _ continuation: CheckedContinuation<Result, any Error>, _ kind: Kind, deadline: ContinuousClock.Instant,
    _ body: @escaping @Sendable (any Connection) throws -> Result
  ) {
    self.kind = kind
    self.deadline = deadline
    run = { connection in
      let result = try body(connection)
      return { continuation.resume(returning: result) }
    }
    fail = { continuation.resume(throwing: $0) }
  }

  /// Does the job on the worker's connection.
  ///
  /// The body is run again if another transaction got in the way, and if the connection broke before
  /// it came to the commit: either way nothing came of it, and a body has no effects but on the
  /// database. Not so if it broke during the commit, whose outcome nobody knows.
  func perform(on worker: PostgreSQLWorker, _ retry: SerializationRetry, observer: DatabaseObserver?) {
    let last = retry.run {
      outcome(on: worker, observer)
    } again: {
      if case .failed(_, true) = $0 { true } else { false }
    }
    if case .failed(let error, _) = last { fail(error) }
  }

  private enum Outcome: Sendable {
    case answered
    case failed(any Error, mayRepeat: Bool)
  }

  private func outcome(on worker: PostgreSQLWorker, _ observer: DatabaseObserver?) -> Outcome {
    do {
      return try worker.withConnection(until: deadline ?? .now) { handle in
        let connection = PostgreSQLConnection(handle, begin: kind.begin)
        do {
          let answer = try run(connection)
          if let failure = connection.failure { throw failure }
          if kind == .write { try observed(observer) { try connection.commit() } }
          answer()
          // A snapshot ends when its caller already goes on.
          connection.end()
          return .answered
        } catch {
          connection.end()
          let failure = connection.failure ?? error as? DatabaseError
          return .failed(
            error,
            mayRepeat: failure?.code == .serializationFailure
              || failure?.code == .connectionLost && !connection.isCommitting)
        }
      }
    } catch {
      // No connection in all that time.
      return .failed(error, mayRepeat: false)
    }
  }

  private func observed(_ observer: DatabaseObserver?, _ commit: () throws -> Void) rethrows {
    let start = ContinuousClock.now
    defer { observer?(.commit, .now - start) }
    try commit()
  }
}
