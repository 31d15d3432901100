import Basics

/// How long a request waits for a database that is unavailable or does not answer.
package enum DatabaseWait {
  @TaskLocal static var deadline: ContinuousClock.Instant?
  @TaskLocal private static var limit: Duration?

  /// Each ``Database`` call within `body` fails after `duration`, so that a server that hangs does not hold
  /// its callers. Work that has not begun by then is left out.
  package static func limit<Result>(
    eachCallTo duration: Duration, during body: () async throws -> Result
  ) async rethrows -> Result {
    try await $limit.withValue(duration, operation: body)
  }

  /// Retries the calls of a ``RetryingDatabase`` within `body` while they fail for a reason that may pass,
  /// for up to `duration` in all.
  ///
  /// For callers that do not try again after a failure: for them it is worth waiting for a database that is
  /// restarting, locked or full, for as long as they would wait for the response.
  package static func wait<Result>(
    upTo duration: Duration, during body: () async throws -> Result
  ) async rethrows -> Result {
    try await $deadline.withValue(.now + duration, operation: body)
  }

  /// When a call made `now` fails for lack of an answer; nil for no limit.
  static func limit(from now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
    deadline ?? limit.map { now + $0 }
  }
}

/// A database that repeats failed calls for as long as ``DatabaseWait/wait(upTo:during:)`` allows.
///
/// Also repeats calls whose result is unknown after a broken connection. A write that must not happen twice
/// has to ensure that itself.
///
/// A call that fails because a generated key is taken says nothing about what the caller wrote: the key's sequence is
/// brought forward, and the call is repeated.
package struct RetryingDatabase: Database {
  private static let backoff = Backoff(first: 0.05, longest: 0.5, shares: 0.5...1)

  private let database: any Database
  private let broughtForward: @Sendable ([String]) -> Void

  /// - Parameter broughtForward: is called with the tables whose sequences were behind them and no longer are.
  package init(_ database: any Database, broughtForward: @escaping @Sendable ([String]) -> Void = { _ in }) {
    self.database = database
    self.broughtForward = broughtForward
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

  package func rowsByKey(_ statement: Statement) async throws -> [Row] {
    try await retrying { try await database.rowsByKey(statement) }
  }

  package func execute(_ statement: Statement) async throws -> [Row] {
    try await retrying { try await database.execute(statement) }
  }

  package var trouble: DatabaseTrouble.Cause? { database.trouble }

  package func checkFiles() throws { try database.checkFiles() }

  package func close() async { await database.close() }

  private func retrying<Result>(_ call: () async throws -> Result) async throws -> Result {
    do { return try await waiting(call) } catch let error as DatabaseError {
      guard let table = error.tableOfTakenKey else { throw error }
      // None, if another call was faster.
      let tables = try await waiting { try await database.bringSequencesForward(of: [table]) }
      if !tables.isEmpty { broughtForward(tables) }
      return try await waiting(call)
    }
  }

  private func waiting<Result>(_ call: () async throws -> Result) async throws -> Result {
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
