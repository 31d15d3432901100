import Basics
import Dispatch
import Foundation
import Synchronization

/// A queue of jobs for a few workers, each of which takes several waiting jobs at once as a group.
///
/// An idle worker starts at once, so no job waits for a group to fill; under load a group is what arrived
/// while the worker was busy. Each worker is a thread of its own, so that waiting for the disk or a server
/// blocks neither Swift's thread pool nor an event loop. The threads start in advance, so that no job fails
/// for lack of one.
final class JobQueue<Work: Sendable>: Sendable {
  struct Job: Sendable {
    let caller: Caller
    let work: Work
  }

  private struct State {
    var waiting: [Job] = []
    /// The present group of each worker.
    var running: [[Job]]
    /// Idle workers without repetition. The one that became idle last is taken first, so that under little
    /// load some connections are never opened.
    var idle: [Int] = []
    /// Workers that have not ended.
    var threads: Int
    var isClosed = false
    var closers: [CheckedContinuation<Void, Never>] = []
    /// Whether ``watch()`` is running.
    var isWatched = false
  }

  private let state: Mutex<State>
  /// One for each worker, signalled when there may be work.
  private let signals: [DispatchSemaphore]
  private let maximumGroup: Int
  private let maximumWaiting: Int
  private let waitLimit: Duration?
  private let trouble: DatabaseTrouble
  private let observer: DatabaseObserver?
  private let perform: @Sendable (_ worker: Int, [Job]) -> Void
  private let end: @Sendable (_ worker: Int) -> Void

  /// - Parameters:
  ///   - label: prefix of the threads' names, which are cut after 15 bytes.
  ///   - workers: how many groups may run at once.
  ///   - maximumGroup: most jobs in a group.
  ///   - maximumWaiting: most jobs that wait; a further one fails with ``DatabaseError/Code/busy``.
  ///   - waitLimit: how long a job waits for a worker; nil for no limit.
  ///   - trouble: what the workers' connections have met.
  ///   - observer: gets the time that callers waited.
  ///   - perform: does the jobs of one group in order, and answers each.
  ///   - end: releases the worker's resources at its end.
  init(
    label: String, workers: Int, maximumGroup: Int, maximumWaiting: Int = .max, waitLimit: Duration? = nil,
    trouble: DatabaseTrouble = DatabaseTrouble(), observer: DatabaseObserver?,
    perform: @escaping @Sendable (_ worker: Int, [Job]) -> Void,
    end: @escaping @Sendable (_ worker: Int) -> Void
  ) {
    let numbers = 0..<workers
    // A worker becomes idle once its thread has found no work.
    state = Mutex(State(running: numbers.map { _ in [] }, threads: workers))
    signals = numbers.map { _ in DispatchSemaphore(value: 0) }
    self.maximumGroup = maximumGroup
    self.maximumWaiting = maximumWaiting
    self.waitLimit = waitLimit
    self.trouble = trouble
    self.observer = observer
    self.perform = perform
    self.end = end
    for number in numbers {
      let thread = Thread { self.run(number) }
      thread.name = String("\(label) \(number)".prefix(15))
      thread.start()
    }
  }

  var waitingCount: Int { state.withLock { $0.waiting.count } }
  var runningCount: Int { state.withLock { $0.running.reduce(0) { $0 + $1.count } } }

  /// Does a job. Throws its error, or that the queue is closed or full.
  ///
  /// - Parameter operation: the operation under which the caller's wait is observed; nil for none.
  func perform(_ work: Work, observedAs operation: DatabaseOperation?) async throws {
    try await withThrowingContinuation { continuation in
      let observe = operation.flatMap { operation in
        observer.map { observer in { @Sendable in observer(operation, $0) } }
      }
      submit(Job(caller: Caller(continuation, waitLimit: waitLimit, observe: observe), work: work))
    }
  }

  /// Refuses new jobs, and returns when the queued ones are done and all threads have ended.
  func close() async {
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        if state.threads > 0 { state.closers.append(continuation) }
        return state.threads == 0
      }
      finish()
      if isOver { continuation.resume() }
    }
  }

  /// Refuses new jobs. The threads end when the queued ones are done.
  func finish() {
    let idle = state.withLock { state in
      state.isClosed = true
      defer { state.idle = [] }
      return state.idle
    }
    for worker in idle { signals[worker].signal() }
  }

  private func submit(_ job: Job) {
    let (refusal, worker, isToWatch) = state.withLock { state -> (DatabaseError?, Int?, Bool) in
      guard !state.isClosed else { return (.isClosed, nil, false) }
      guard state.waiting.count < maximumWaiting else {
        return (DatabaseError(.busy, "\(maximumWaiting) calls wait for the database already"), nil, false)
      }
      state.waiting.append(job)
      let isToWatch = !state.isWatched && (job.caller.limit != nil || waitLimit != nil)
      if isToWatch { state.isWatched = true }
      return (nil, state.idle.popLast(), isToWatch)
    }
    if let worker { signals[worker].signal() }
    if isToWatch { Task.detached { await self.watch() } }
    if let refusal { job.caller.fail(refusal) }
  }

  // MARK: - Workers

  private func run(_ worker: Int) {
    var group: [Job] = []
    while let next = withExtendedLifetime(group, { take(worker) }) {
      // Releases the previous group outside of the lock.
      group = next
      if group.isEmpty { signals[worker].wait() } else { perform(worker, group) }
    }
    end(worker)
    let closers = state.withLock { state in
      state.threads -= 1
      return state.threads == 0 ? state.closers : []
    }
    for closer in closers { closer.resume() }
  }

  /// The next group for a worker. Empty if there is no work, which makes the worker idle; nil if the queue is
  /// closed.
  private func take(_ worker: Int) -> [Job]? {
    state.withLock { state in
      let share = min((state.waiting.count + signals.count - 1) / signals.count, maximumGroup)
      let group = Array(state.waiting.prefix(share))
      state.waiting.removeFirst(share)
      state.running[worker] = group
      guard group.isEmpty else { return group }
      guard !state.isClosed else { return nil }
      state.idle.append(worker)
      return group
    }
  }

  // MARK: - Deadlines

  /// Fails the calls whose time is over, for as long as there are jobs: a disk or a server that hangs blocks
  /// the workers, not the callers. One task serves all jobs, because a timer for each would stay for seconds
  /// after the job.
  private func watch() async {
    var isOver = false
    while !isOver {
      try? await Task.sleep(for: .milliseconds(100))
      let expired: [Job], late: [Job]
      (expired, late, isOver) = state.withLock { state in
        let now = ContinuousClock.now
        // All jobs of a queue have the same limit, so the oldest expire first.
        let expired = state.waiting.prefix { $0.caller.deadline.map { $0 <= now } ?? false }
        state.waiting.removeFirst(expired.count)
        let all = [state.waiting] + state.running
        state.isWatched = !all.allSatisfy(\.isEmpty)
        let late = all.joined().filter { $0.caller.limit.map { $0 <= now } ?? false }
        return (Array(expired), late, !state.isWatched)
      }
      for job in expired {
        job.caller.fail(
          trouble.current?.error
            ?? DatabaseError(.connectionLost, "no connection to the database became free in time"))
      }
      // Their jobs remain queued or running, and are left out unless their work has begun.
      for job in late {
        job.caller.fail(
          trouble.current?.error ?? DatabaseError(.connectionLost, "the database did not answer in time"))
      }
    }
  }
}

/// The caller of a job. Gets one answer: when the job is done, or earlier when its time is over.
final class Caller: Sendable {
  private let start = ContinuousClock.now
  /// When it stops waiting for a worker; nil for no limit.
  let deadline: ContinuousClock.Instant?
  /// When it gets an error even if the job is running; nil for no limit. See ``DatabaseWait``.
  let limit: ContinuousClock.Instant?

  private let continuation: Mutex<Continuation<Void, any Error>?>
  private let observe: (@Sendable (Duration) -> Void)?

  init(
    _ continuation: Continuation<Void, any Error>, waitLimit: Duration?,
    observe: (@Sendable (Duration) -> Void)?
  ) {
    self.continuation = Mutex(continuation)
    self.observe = observe
    deadline = waitLimit.map { [start] in start + $0 }
    limit = DatabaseWait.limit(from: start)
  }

  /// Whether it has not been answered yet. Work whose caller has given up is not done: the caller, which was told that
  /// it failed, may ask for it again.
  var isWaiting: Bool { continuation.withLock { $0 != nil } }

  /// Reports success, unless it has been answered already.
  func succeed() { take()?.resume() }

  /// Reports an error, unless it has been answered already.
  func fail(_ error: any Error) { take()?.resume(throwing: error) }

  private func take() -> Continuation<Void, any Error>? {
    let taken = continuation.withLock { continuation in
      defer { continuation = nil }
      return continuation
    }
    if taken != nil { observe?(.now - start) }
    return taken
  }
}

/// Passes a job's result to its caller, which reads it after the job is done. If the job runs several times,
/// the last result counts.
final class Kept<Value: Sendable>: Sendable {
  private let state = Mutex<Value?>(nil)

  var value: Value? {
    get { state.withLock { $0 } }
    set { state.withLock { $0 = newValue } }
  }
}
