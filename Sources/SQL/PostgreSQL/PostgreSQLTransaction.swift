import Foundation
import Synchronization
import Timing

/// A snapshot or a transaction that a caller waits for.
struct PostgreSQLTransaction: QueuedJob {
  let caller: Caller
  let kind: TransactionKind
  let deadline: ContinuousClock.Instant?
  let work: @Sendable (any Connection) throws -> Void

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
    if case .failed(let error, _) = last { caller.fail(error) }
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
          try work(connection)
          if let failure = connection.failure { throw failure }
          if kind == .write { try observed(observer) { try connection.commit() } }
          caller.succeed()
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

extension TransactionKind {
  fileprivate var begin: StaticString {
    switch self {
    case .read: "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    case .write: "BEGIN ISOLATION LEVEL SERIALIZABLE"
    }
  }
}

/// Runs transactions again that others got in the way of.
///
/// All may be under way at once, but of those that are run again only one at a time: else many
/// that write the same row would go on to fail each other.
final class SerializationRetry: Sendable {
  private static let maximum = 10
  private static let backoff = Backoff(first: 0.002, longest: 0.1, shares: 0.5...1)

  /// Waited for on the threads of connections only, which have nothing else to do.
  private let turn = Mutex(())

  /// Runs `body` until its outcome is not to be had again, or ten times.
  func run<Outcome: Sendable>(_ body: () -> Outcome, again: (Outcome) -> Bool) -> Outcome {
    var outcome = body()
    var attempt = 1
    while attempt < Self.maximum, again(outcome) {
      // Whoever got in the way is given the time to end; the thread is the driver's own.
      Thread.sleep(forTimeInterval: Self.backoff.pause(after: attempt))
      outcome = turn.withLock { _ in body() }
      attempt += 1
    }
    return outcome
  }
}
