import Timing

/// How long a request waits for a database that is away or says nothing.
package enum DatabaseWait {
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
  /// Within `body` each call of a ``RetryingDatabase`` is made again while it fails for a reason that may
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

/// A database whose failed calls are made again for as long as ``DatabaseWait/wait(upTo:during:)`` says.
///
/// What a broken connection has left in doubt is done again, as after a crash: a write that is not to
/// happen twice has to say so itself.
package struct RetryingDatabase: Database {
  private static let backoff = Backoff(first: 0.05, longest: 0.5, shares: 0.5...1)

  private let database: any Database

  package init(_ database: any Database) {
    self.database = database
  }

  package var engine: DatabaseEngine { database.engine }

  package func transaction(
    _ kind: TransactionKind, _ work: @escaping @Sendable (any Connection) throws -> Void
  ) async throws {
    try await retrying { try await database.transaction(kind, work) }
  }

  package func query(_ statement: Statement) async throws -> [Row] {
    try await retrying { try await database.query(statement) }
  }

  package func rowsAtOnce(_ statement: Statement) -> [Row]? { database.rowsAtOnce(statement) }

  package func execute(_ statement: Statement) async throws -> [Row] {
    try await retrying { try await database.execute(statement) }
  }

  package func close() async { await database.close() }

  private func retrying<Result>(_ call: () async throws -> Result) async throws -> Result {
    guard let deadline = DatabaseWait.deadline else { return try await call() }
    var tries = 0
    while true {
      do {
        return try await call()
      } catch let error as DatabaseError where error.isTransient && error.code != .closed {
        tries += 1
        let pause = Duration.seconds(Self.backoff.pause(after: tries))
        guard ContinuousClock.now + pause < deadline else { throw error }
        try await Task.sleep(for: pause)
      }
    }
  }
}
