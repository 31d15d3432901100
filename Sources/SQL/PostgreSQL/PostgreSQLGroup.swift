import Foundation
import Synchronization
import Timing

/// A single statement that a caller waits for.
struct PostgreSQLWrite: QueuedJob {
  let caller: Caller
  let statement: PostgreSQLStatement
  let rows: Kept<[Row]>
  let deadline: ContinuousClock.Instant?
}

/// Commits the statements of several callers in one transaction, all in one round trip, and answers
/// each once the server has confirmed the commit.
struct PostgreSQLGroupWriter: Sendable {
  let worker: PostgreSQLWorker
  let retry: SerializationRetry
  let observer: DatabaseObserver?

  private enum Outcome: Sendable {
    case committed([PostgreSQLHandle.Output])
    /// Nothing was written. `at` is whose statement failed; nil: it was the commit.
    case failed(DatabaseError, at: Int?)
    /// Nobody knows whether anything was.
    case lost(DatabaseError)
    /// There was no connection until the first caller's time was over.
    case unreachable(DatabaseError)
  }

  /// Does all of `jobs`, each wholly or not at all.
  ///
  /// Where one fails in the transaction of several, all of it has been rolled back: those before
  /// it, it, and those after it are then three transactions. So one that fails because of
  /// another's work does so only if that is kept.
  func perform(_ jobs: [PostgreSQLWrite]) {
    // Groups that are still to be done, the next one last.
    var waiting = [jobs[...]]
    while let group = waiting.popLast() {
      guard !group.isEmpty else { continue }
      switch commit(group) {
      case .committed(let outputs):
        for (job, output) in zip(group, outputs) {
          job.rows.value = output.rows
          job.caller.succeed()
        }
      case .lost(let error):
        for job in group { job.caller.fail(error) }
      case .unreachable(let error):
        // The others have time left.
        let soon = ContinuousClock.now + .seconds(1)
        let expired = max(1, group.prefix { $0.deadline.map { $0 < soon } ?? false }.count)
        for job in group.prefix(expired) { job.caller.fail(error) }
        waiting.append(group.dropFirst(expired))
      case .failed(let error, _) where group.count == 1:
        for job in group { job.caller.fail(error) }
      case .failed(_, let index?):
        let middle = group.startIndex + index
        waiting += [group[(middle + 1)...], group[middle...middle], group[..<middle]]
      case .failed(_, nil):
        let middle = group.startIndex + group.count / 2
        waiting += [group[middle...], group[..<middle]]
      }
    }
  }

  /// One transaction with all of `group`, run again when another transaction got in the way.
  private func commit(_ group: ArraySlice<PostgreSQLWrite>) -> Outcome {
    retry.run {
      commitOnce(group)
    } again: {
      // Of several, the one that was in the way is soon alone.
      if case .failed(let error, _) = $0 {
        group.count == 1 && error.code == .serializationFailure
      } else {
        false
      }
    }
  }

  private func commitOnce(_ group: ArraySlice<PostgreSQLWrite>) -> Outcome {
    let start = ContinuousClock.now
    defer { observer?(.commit, .now - start) }
    do throws(DatabaseError) {
      return try worker.withConnection(until: group.first?.deadline ?? start) { handle in
        do throws(DatabaseError) {
          let statements = group.map { PostgreSQLHandle.Command.statement($0.statement) }
          let answer = try handle.exchange(
            [.text("BEGIN ISOLATION LEVEL SERIALIZABLE")] + statements + [.text("COMMIT")])
          guard let failure = answer.failure else { return .committed(Array(answer.outputs.dropFirst())) }
          if handle.isInTransaction { try handle.send([.text("ROLLBACK")]) }
          let index = answer.outputs.count - 1
          return .failed(failure, at: index < group.count ? index : nil)
        } catch {
          return .lost(error)
        }
      }
    } catch {
      return .unreachable(error)
    }
  }
}

/// One thread's connection, made when it is needed and made again when it broke.
final class PostgreSQLWorker: Sendable {
  private static let backoff = Backoff(first: 0.05, longest: 1, shares: 0.5...1)

  private let settings: PostgreSQLSettings
  private let preparedStatements: Int

  /// Locked by the worker's own thread only, hence never waited for.
  private let handle = Mutex<PostgreSQLHandle?>(nil)

  init(_ settings: PostgreSQLSettings, preparedStatements: Int) {
    self.settings = settings
    self.preparedStatements = preparedStatements
  }

  /// Runs `body` with a connection that is usable as far as can be known without asking the server.
  ///
  /// - Throws: ``DatabaseError/Code/connectionLost`` if until `deadline` no connection could be made.
  func withConnection<Result>(
    until deadline: ContinuousClock.Instant, _ body: (PostgreSQLHandle) -> Result
  ) throws(DatabaseError) -> Result {
    try handle.withLock { held throws(DatabaseError) in
      if let old = held, !old.isUsable() { held = nil }
      let handle = if let held { held } else { try connect(until: deadline) }
      held = handle
      handle.longestSilence = settings.longestSilence
      defer { if handle.isLost { held = nil } }
      let result = body(handle)
      handle.deallocateSuperfluous()
      return result
    }
  }

  /// Closes the connection.
  func close() { handle.withLock { $0 = nil } }

  private func connect(until deadline: ContinuousClock.Instant) throws(DatabaseError) -> PostgreSQLHandle {
    var tries = 0
    while true {
      do {
        return try PostgreSQLHandle(settings, preparedStatements: preparedStatements)
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
