import Dispatch
import Foundation
import Synchronization

/// Jobs that wait for a few workers, which take what has gathered and do it together.
///
/// An idle worker begins at once, so nothing waits for others to gather; under load a group is
/// what came while the worker was busy. Each worker is a thread of its own, so that waiting for the disk or a
/// server never holds up a thread of Swift's pool or an event loop, and is there before the first job, so that
/// none depends on the system's having one more.
final class JobQueue<Work: Sendable>: Sendable {
  struct Job: Sendable {
    let caller: Caller
    let work: Work
  }

  private struct State {
    var waiting: [Job] = []
    /// The group that each worker is doing.
    var running: [[Job]]
    /// Each once. The one that was idle last is taken first: the least used connections are never opened.
    var idle: [Int] = []
    /// How many workers have not ended.
    var threads: Int
    var isClosed = false
    var closers: [CheckedContinuation<Void, Never>] = []
    /// Whether ``watch()`` is under way.
    var isWatched = false
  }

  private let state: Mutex<State>
  /// One for each worker: there may be something to do.
  private let signals: [DispatchSemaphore]
  private let maximumGroup: Int
  private let maximumWaiting: Int
  private let waitLimit: Duration?
  private let observer: DatabaseObserver?
  private let perform: @Sendable (_ worker: Int, [Job]) -> Void
  private let end: @Sendable (_ worker: Int) -> Void

  /// - Parameters:
  ///   - label: begins the names of the threads, which end after 15 bytes.
  ///   - workers: how many groups may be under way at once.
  ///   - maximumGroup: how many jobs a worker takes at most.
  ///   - maximumWaiting: how many jobs wait at most; one more fails as ``DatabaseError/Code/busy``.
  ///   - waitLimit: how long a job waits for a worker; nil: for as long as it takes.
  ///   - observer: is told how long callers waited.
  ///   - perform: does the jobs of one group in order, and answers each.
  ///   - end: lets go of what the worker has held; nothing comes after it.
  init(
    label: String, workers: Int, maximumGroup: Int, maximumWaiting: Int = .max, waitLimit: Duration? = nil,
    observer: DatabaseObserver?, perform: @escaping @Sendable (_ worker: Int, [Job]) -> Void,
    end: @escaping @Sendable (_ worker: Int) -> Void
  ) {
    let numbers = 0..<workers
    // Each is idle once its thread has found nothing to do.
    state = Mutex(State(running: numbers.map { _ in [] }, threads: workers))
    signals = numbers.map { _ in DispatchSemaphore(value: 0) }
    self.maximumGroup = maximumGroup
    self.maximumWaiting = maximumWaiting
    self.waitLimit = waitLimit
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

  /// Has work done, and throws what it failed with, or that the queue is closed or full.
  ///
  /// - Parameter operation: what its caller's waiting is observed as, if it is.
  func perform(_ work: Work, observedAs operation: DatabaseOperation?) async throws {
    try await withCheckedThrowingContinuation { continuation in
      let observe = operation.flatMap { operation in
        observer.map { observer in { @Sendable in observer(operation, $0) } }
      }
      submit(Job(caller: Caller(continuation, waitLimit: waitLimit, observe: observe), work: work))
    }
  }

  /// Takes no more jobs, and returns when those that it has are done and all threads have ended.
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

  /// Takes no more jobs; the threads end when those that it has are done.
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
      // What the group before held is let go of here, where nobody waits for the lock.
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

  /// This worker's share of what waits; nothing, and the worker idle, if nothing does; nil if nothing ever will.
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

  /// Answers callers whose time is over, until there are none left: a disk or a server that hangs holds the
  /// workers, not the callers. One task for all jobs; a timer for each would outlive it by seconds.
  private func watch() async {
    var isOver = false
    while !isOver {
      try? await Task.sleep(for: .milliseconds(100))
      let expired: [Job], late: [Job]
      (expired, late, isOver) = state.withLock { state in
        let now = ContinuousClock.now
        // All jobs of a queue are given the same time, so that the first are the oldest.
        let expired = state.waiting.prefix { $0.caller.deadline.map { $0 <= now } ?? false }
        state.waiting.removeFirst(expired.count)
        let all = [state.waiting] + state.running
        state.isWatched = !all.allSatisfy(\.isEmpty)
        let late = all.joined().filter { $0.caller.limit.map { $0 <= now } ?? false }
        return (Array(expired), late, !state.isWatched)
      }
      for job in expired {
        job.caller.fail(
          DatabaseError(.connectionLost, "no connection to the database became free in time"))
      }
      // They stay where they are: what is asked for may still happen.
      for job in late {
        job.caller.fail(DatabaseError(.connectionLost, "the database did not answer in time"))
      }
    }
  }
}

/// Who waits for a job, and is answered once: when the job is done, or earlier by whoever gives it up.
final class Caller: Sendable {
  private let start = ContinuousClock.now
  /// When it waits no longer for a worker; nil: never.
  let deadline: ContinuousClock.Instant?
  /// When it is answered whatever becomes of the job; nil: never. See ``DatabaseWait``.
  let limit: ContinuousClock.Instant?

  private let continuation: Mutex<CheckedContinuation<Void, any Error>?>
  private let observe: (@Sendable (Duration) -> Void)?

  init(
    _ continuation: CheckedContinuation<Void, any Error>, waitLimit: Duration?,
    observe: (@Sendable (Duration) -> Void)?
  ) {
    self.continuation = Mutex(continuation)
    self.observe = observe
    deadline = waitLimit.map { [start] in start + $0 }
    limit = DatabaseWait.limit(from: start)
  }

  /// Tells it that the job is done, unless it was told something already.
  func succeed() { take()?.resume() }

  /// Tells it that nothing came of the job, unless it was told something already.
  func fail(_ error: any Error) { take()?.resume(throwing: error) }

  private func take() -> CheckedContinuation<Void, any Error>? {
    let taken = continuation.withLock { continuation in
      defer { continuation = nil }
      return continuation
    }
    if taken != nil { observe?(.now - start) }
    return taken
  }
}

/// Where a job leaves what its caller asked for, to be fetched when that has been told that it is done. A job may
/// be done more than once: what it left last counts.
final class Kept<Value: Sendable>: Sendable {
  private let state = Mutex<Value?>(nil)

  var value: Value? {
    get { state.withLock { $0 } }
    set { state.withLock { $0 = newValue } }
  }
}
