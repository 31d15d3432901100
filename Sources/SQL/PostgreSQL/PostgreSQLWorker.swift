import Foundation
import Synchronization
import Timing

/// A snapshot or a transaction that a caller waits for.
struct PostgreSQLTransaction: Sendable {
  let kind: TransactionKind
  let body: @Sendable (any Connection) throws -> Void
}

/// A single statement that a caller waits for.
struct PostgreSQLWrite: Sendable {
  let statement: PostgreSQLStatement
  let rows: Kept<[Row]>
}

/// One thread's connection, made when it is needed and made again when it broke.
final class PostgreSQLWorker: Sendable {
  private static let backoff = Backoff(first: 0.05, longest: 1, shares: 0.5...1)

  private let settings: PostgreSQLSettings
  private let preparedStatements: Int
  private let repetition: Repetition
  private let observer: DatabaseObserver?

  /// Locked by the worker's own thread only, hence never waited for.
  private let handle = Mutex<PostgreSQLHandle?>(nil)

  init(
    _ settings: PostgreSQLSettings, preparedStatements: Int, _ repetition: Repetition,
    observer: DatabaseObserver?
  ) {
    self.settings = settings
    self.preparedStatements = preparedStatements
    self.repetition = repetition
    self.observer = observer
  }

  /// Does a job and answers its caller.
  ///
  /// The body is run again if another transaction got in the way, and if the connection broke before
  /// it came to the commit: either way nothing came of it, and a body has no effects but on the
  /// database. Not so if it broke during the commit, whose outcome nobody knows.
  func perform(_ job: JobQueue<PostgreSQLTransaction>.Job) {
    var failure: (any Error)?
    repetition.run {
      failure = nil
      do {
        return try withConnection(until: job.caller.deadline ?? .now) { handle in
          let connection = PostgreSQLConnection(handle, begin: job.work.kind.begin)
          // A snapshot ends when its caller already goes on.
          defer { connection.end() }
          do {
            try job.work.body(connection)
            if let failure = connection.failure { throw failure }
            if job.work.kind == .write { try observingCommit(observer) { try connection.commit() } }
            job.caller.succeed()
            return false
          } catch {
            failure = error
            let cause = connection.failure ?? error as? DatabaseError
            return cause?.code == .serializationFailure
              || cause?.code == .connectionLost && !connection.isCommitting
          }
        }
      } catch {
        // No connection in all that time.
        failure = error
        return false
      }
    }
    if let failure { job.caller.fail(failure) }
  }

  /// Commits the statements of several callers in one transaction, all in one round trip, and answers
  /// each once the server has confirmed the commit.
  ///
  /// Where one fails in the transaction of several, all of it has been rolled back: those before
  /// it, it, and those after it are then three transactions. So one that fails because of
  /// another's work does so only if that is kept.
  func commit(_ group: ArraySlice<JobQueue<PostgreSQLWrite>.Job>) {
    guard let first = group.first else { return }
    var result: Result<PostgreSQLHandle.Answer, DatabaseError>?
    repetition.run {
      result = observingCommit(observer) {
        do throws(DatabaseError) {
          return .success(
            try withConnection(until: first.caller.deadline ?? .now) { handle throws(DatabaseError) in
              try handle.commit(group.map(\.work.statement))
            })
        } catch {
          return .failure(error)
        }
      }
      // Of several, the one that was in the way is soon alone.
      guard group.count == 1, case .success(let answer) = result else { return false }
      return answer.failure?.code == .serializationFailure
    }
    switch result {
    case .success(let answer):
      guard let failure = answer.failure else {
        for (job, output) in zip(group, answer.outputs) {
          job.work.rows.value = output.rows
          job.caller.succeed()
        }
        return
      }
      guard group.count > 1 else { return first.caller.fail(failure) }
      // Where it was the commit that failed, nobody knows whose it is.
      let index = answer.outputs.count < group.count ? answer.outputs.count : group.count / 2
      let failed = group.startIndex + index
      commit(group[..<failed])
      commit(group[failed...failed])
      commit(group[(failed + 1)...])
    case .failure(let error): for job in group { job.caller.fail(error) }
    case nil: break
    }
  }

  /// Runs `body` with a connection that is usable as far as can be known without asking the server.
  ///
  /// - Throws: ``DatabaseError/Code/connectionLost`` if until `deadline` no connection could be made.
  private func withConnection<Result>(
    until deadline: ContinuousClock.Instant, _ body: (PostgreSQLHandle) throws(DatabaseError) -> Result
  ) throws(DatabaseError) -> Result {
    try handle.withLock { held throws(DatabaseError) in
      if let old = held, !old.isUsable() { held = nil }
      let handle = if let held { held } else { try connect(until: deadline) }
      held = handle
      handle.longestSilence = settings.longestSilence
      defer {
        if handle.isLost { held = nil } else { handle.forgetStatements(above: preparedStatements) }
      }
      let result = try body(handle)
      return result
    }
  }

  func close() { handle.withLock { $0 = nil } }

  private func connect(until deadline: ContinuousClock.Instant) throws(DatabaseError) -> PostgreSQLHandle {
    var tries = 0
    while true {
      do {
        return try PostgreSQLHandle(settings)
      } catch {
        tries += 1
        let pause = Self.backoff.pause(after: tries)
        guard ContinuousClock.now + .seconds(pause) < deadline else { throw error }
        // The thread is the worker's own: nobody else waits on it.
        Thread.sleep(forTimeInterval: pause)
      }
    }
  }
}

extension TransactionKind {
  fileprivate var begin: StaticString {
    switch self {
    case .read: "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    case .write: PostgreSQLHandle.beginWrite
    }
  }
}

/// Runs transactions again that others got in the way of.
///
/// All may be under way at once, but of those that are run again only one at a time: else many
/// that write the same row would go on to fail each other.
final class Repetition: Sendable {
  private static let backoff = Backoff(first: 0.002, longest: 0.1, shares: 0.5...1)

  /// Waited for on the threads of connections only, which have nothing else to do.
  private let turn = Mutex(())

  /// Runs `body` for as long as it says that it has to be run again, ten times at most.
  func run(_ body: () -> Bool) {
    guard body() else { return }
    for attempt in 1..<10 {
      // Whoever got in the way is given the time to end; the thread is the driver's own.
      Thread.sleep(forTimeInterval: Self.backoff.pause(after: attempt))
      guard turn.withLock({ _ in body() }) else { return }
    }
  }
}
