import Basics
import Foundation
import Synchronization

/// A snapshot or a transaction of one caller.
struct PostgreSQLTransaction: Sendable {
  let kind: TransactionKind
  let body: @Sendable (any Connection) throws -> Void
}

/// A single statement of one caller.
struct PostgreSQLSingle: Sendable {
  let statement: PostgreSQLStatement
  let rows: Kept<[Row]>
}

/// The connection of one thread, opened on demand and reopened after it broke.
final class PostgreSQLWorker: Sendable {
  private static let backoff = Backoff(first: 0.05, longest: 1, shares: 0.5...1)

  private let settings: PostgreSQLSettings
  private let watch: PrimaryWatch
  private let trouble: DatabaseTrouble
  private let preparedStatements: Int
  private let repetition: Repetition
  private let observer: DatabaseObserver?

  /// Locked only by the worker's thread, so without contention.
  private let handle = Mutex<PostgreSQLHandle?>(nil)

  init(
    _ settings: PostgreSQLSettings, watch: PrimaryWatch, trouble: DatabaseTrouble, preparedStatements: Int,
    _ repetition: Repetition, observer: DatabaseObserver?
  ) {
    self.settings = settings
    self.watch = watch
    self.trouble = trouble
    self.preparedStatements = preparedStatements
    self.repetition = repetition
    self.observer = observer
  }

  /// Does a job and answers its caller.
  ///
  /// Runs the body again if it conflicted with another transaction, if the server takes no writes (any more),
  /// or if the connection broke before the commit: in each case nothing was written. If the connection breaks
  /// during the commit, the result is unknown, so the body is not run again.
  func perform(_ job: JobQueue<PostgreSQLTransaction>.Job) {
    var failure: (any Error)?
    repetition.run(until: job.caller.deadline) {
      failure = nil
      do {
        return try withConnection(for: job.work.kind, until: job.caller.deadline ?? .now) { handle in
          let connection = PostgreSQLConnection(handle, begin: job.work.kind.begin)
          // A snapshot is ended after its caller was answered.
          defer { connection.end() }
          guard job.caller.isWaiting else { return false }
          do {
            try job.work.body(connection)
            if let failure = connection.failure { throw failure }
            if job.work.kind == .write { try observingCommit(observer) { try connection.commit() } }
            trouble.passed(job.work.kind)
            job.caller.succeed()
            return false
          } catch {
            failure = error
            let cause = connection.failure ?? error as? DatabaseError
            return cause?.writesNothing == true || cause?.code == .connectionLost && !connection.isCommitting
          }
        }
      } catch {
        // No connection could be made in time.
        failure = error
        return false
      }
    }
    if let failure {
      trouble.met(failure, in: job.work.kind)
      job.caller.fail(failure)
    }
  }

  /// Commits the statements of several callers in one transaction and one round trip, and answers each after
  /// the commit.
  ///
  /// If a statement fails in a group, the whole transaction was rolled back. The group is then run again as
  /// three transactions: the statements before it, the statement itself, and those after it. So it fails
  /// because of another statement only if that one is committed.
  func commit(_ jobs: ArraySlice<JobQueue<PostgreSQLSingle>.Job>) {
    guard let first = jobs.first else { return }
    var group = jobs
    var result: Result<PostgreSQLHandle.Answer, DatabaseError>?
    repetition.run(until: first.caller.deadline) {
      result = observingCommit(observer) {
        do throws(DatabaseError) {
          return .success(
            try withConnection(for: .write, until: first.caller.deadline ?? .now) {
              handle throws(DatabaseError) in
              group = jobs.filter(\.caller.isWaiting)[...]
              return try group.isEmpty ? .init() : handle.run(group.map(\.work.statement), in: .write)
            })
        } catch {
          return .failure(error)
        }
      }
      guard case .success(let answer) = result, let failure = answer.failure else { return false }
      // After a conflict a group is split, and the conflicting statement soon runs alone.
      return failure.writesNothing && (group.count == 1 || failure.code == .readOnly)
    }
    switch result {
    case .success(let answer):
      guard let failure = answer.failure else {
        trouble.passed(.write)
        for (job, output) in zip(group, answer.outputs) {
          job.work.rows.value = output.rows
          job.caller.succeed()
        }
        return
      }
      guard group.count > 1 else {
        trouble.met(failure, in: .write)
        group.first?.caller.fail(failure)
        return
      }
      // If the commit itself failed, the cause may be any statement of the group, so the group is halved.
      let index = answer.outputs.count < group.count ? answer.outputs.count : group.count / 2
      let failed = group.startIndex + index
      commit(group[..<failed])
      commit(group[failed...failed])
      commit(group[(failed + 1)...])
    case .failure(let error):
      trouble.met(error, in: .write)
      for job in jobs { job.caller.fail(error) }
    case nil: break
    }
  }

  /// Reads for several callers in one round trip, and answers each.
  ///
  /// A statement that fails keeps those after it from being run, so they are read again without it. So are all if the
  /// connection breaks.
  func lookUp(_ jobs: [JobQueue<PostgreSQLSingle>.Job]) {
    var rest = jobs[...]
    while let first = rest.first {
      var result: Result<PostgreSQLHandle.Answer, DatabaseError>?
      repetition.run(until: first.caller.deadline) {
        do throws(DatabaseError) {
          try withConnection(for: .read, until: first.caller.deadline ?? .now) {
            handle throws(DatabaseError) in
            rest = rest.filter(\.caller.isWaiting)[...]
            result = Result { () throws(DatabaseError) in
              try rest.isEmpty ? .init() : handle.run(rest.map(\.work.statement), in: .read)
            }
          }
        } catch {
          // No connection could be made in time.
          result = .failure(error)
          return false
        }
        if case .failure(let error) = result { return error.code == .connectionLost }
        return false
      }
      switch result {
      case .success(let answer):
        if let failure = answer.failure { trouble.met(failure, in: .read) } else { trouble.passed(.read) }
        for (job, output) in zip(rest, answer.outputs) {
          job.work.rows.value = output.rows
          job.caller.succeed()
        }
        rest = rest.dropFirst(answer.outputs.count)
        if let failure = answer.failure { rest.popFirst()?.caller.fail(failure) }
      case .failure(let error):
        trouble.met(error, in: .read)
        for job in rest { job.caller.fail(error) }
        return
      case nil: return
      }
    }
  }

  /// Runs `body` with a connection that is usable as far as is known without asking the server.
  ///
  /// - Throws: why no connection was made until `deadline`, or ``DatabaseError/Code/readOnly`` if the last one was to a
  ///   server that takes no writes.
  private func withConnection<Result>(
    for kind: TransactionKind, until deadline: ContinuousClock.Instant,
    _ body: (PostgreSQLHandle) throws(DatabaseError) -> Result
  ) throws(DatabaseError) -> Result {
    try handle.withLock { held throws(DatabaseError) in
      if let old = held, !old.isUsable() { held = nil }
      let handle = if let held { held } else { try connect(for: kind, until: deadline) }
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

  private func connect(
    for kind: TransactionKind, until deadline: ContinuousClock.Instant
  ) throws(DatabaseError) -> PostgreSQLHandle {
    let start = ContinuousClock.now
    var tries = 0
    while true {
      do {
        return try PostgreSQLHandle(settings, watch: watch)
      } catch {
        trouble.met(error, in: kind, since: start)
        tries += 1
        let pause = Self.backoff.pause(after: tries)
        guard ContinuousClock.now + .seconds(pause) < deadline else { throw error }
        // Blocks only the worker's own thread.
        Thread.sleep(forTimeInterval: pause)
      }
    }
  }
}

extension DatabaseError {
  /// Whether nothing was written and another transaction may succeed: one that conflicts with no other, or one
  /// at the server that has become the primary.
  fileprivate var writesNothing: Bool { code == .serializationFailure || code == .readOnly }
}

extension TransactionKind {
  var begin: StaticString {
    switch self {
    case .read: "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    case .write: "BEGIN ISOLATION LEVEL SERIALIZABLE"
    }
  }
}

/// Repeats transactions that conflicted with others.
///
/// Repeats only one transaction at a time, because many that write the same row would otherwise keep
/// conflicting.
final class Repetition: Sendable {
  private static let backoff = Backoff(first: 0.002, longest: 0.1, shares: 0.5...1)

  /// Blocks only the worker threads, which have nothing else to do.
  private let turn = Mutex(())

  /// Runs `body` until it returns false: ten times, and more often until `deadline`.
  func run(until deadline: ContinuousClock.Instant?, _ body: () -> Bool) {
    var attempts = 1
    var repeats = body()
    while repeats, attempts < 10 || ContinuousClock.now < deadline ?? .now {
      // Gives the conflicting transaction time to end. Blocks only the worker's own thread.
      Thread.sleep(forTimeInterval: Self.backoff.pause(after: attempts))
      attempts += 1
      repeats = turn.withLock { _ in body() }
    }
  }
}
