import Dispatch
import Synchronization

/// Jobs that wait for a few workers, which take what has gathered and do it together.
///
/// An idle worker begins at once, so nothing waits for others to gather; under load a group is
/// what came while the worker was busy. Each worker has a thread of its own (a serial dispatch
/// queue), so that waiting for the disk or a server never holds up a thread of Swift's pool or an
/// event loop.
final class JobQueue<Job: QueuedJob>: Sendable {
  private struct State {
    var waiting: [Job] = []
    var idle: [Int]
    var isClosed = false
    /// Whether ``expire()`` is going to be called.
    var isTimed = false
  }

  private let state: Mutex<State>
  private let workers: [DispatchQueue]
  private let timer: DispatchQueue
  private let maximumGroup: Int
  private let maximumWaiting: Int
  private let perform: @Sendable (_ worker: Int, [Job]) -> Void

  /// - Parameters:
  ///   - workers: how many groups may be under way at once.
  ///   - maximumGroup: how many jobs a worker takes at most.
  ///   - maximumWaiting: how many jobs wait at most; one more fails as
  ///     ``DatabaseError/Code/busy``.
  ///   - perform: does the jobs of one group on a worker's thread, in order, and answers each.
  init(
    label: String, workers: Int, maximumGroup: Int, maximumWaiting: Int = .max,
    perform: @escaping @Sendable (_ worker: Int, [Job]) -> Void
  ) {
    // The one that was idle last is taken first: the least used connections are never opened.
    state = Mutex(State(idle: Array((0..<workers).reversed())))
    self.workers = (0..<workers).map { DispatchQueue(label: "\(label).\($0)") }
    timer = DispatchQueue(label: "\(label).timer")
    self.maximumGroup = maximumGroup
    self.maximumWaiting = maximumWaiting
    self.perform = perform
  }

  /// How many jobs wait for a worker.
  var waitingCount: Int { state.withLock { $0.waiting.count } }

  /// Has `job` done, or fails it if the queue is closed or full.
  func submit(_ job: Job) {
    let refusal: DatabaseError? = state.withLock { state in
      guard !state.isClosed else { return DatabaseError(.closed, "the database is closed") }
      guard state.waiting.count < maximumWaiting else {
        return DatabaseError(.busy, "\(maximumWaiting) calls wait for the database already")
      }
      state.waiting.append(job)
      if let worker = state.idle.popLast() {
        // Under the lock, so that ``close()`` comes after it in the worker's queue.
        workers[worker].async { self.work(worker) }
      } else {
        setTimer(&state)
      }
      return nil
    }
    if let refusal { job.fail(refusal) }
  }

  /// Takes no more jobs, and returns when those that it has are done.
  func close() async {
    state.withLock { $0.isClosed = true }
    for worker in workers {
      await withCheckedContinuation { continuation in
        worker.async { continuation.resume() }
      }
    }
  }

  private func work(_ worker: Int) {
    while let group = take(worker) { perform(worker, group) }
  }

  /// This worker's share of what waits; nil, and the worker idle, if nothing does.
  private func take(_ worker: Int) -> [Job]? {
    state.withLock { state in
      guard !state.waiting.isEmpty else {
        state.idle.append(worker)
        return nil
      }
      let share = (state.waiting.count + workers.count - 1) / workers.count
      let group = Array(state.waiting.prefix(min(share, maximumGroup)))
      state.waiting.removeFirst(group.count)
      return group
    }
  }

  // MARK: - Deadlines

  private func setTimer(_ state: inout State) {
    guard !state.isTimed, let deadline = state.waiting.first?.deadline else { return }
    state.isTimed = true
    let left = max(0, (deadline - .now) / .seconds(1))
    timer.asyncAfter(deadline: .now() + left) { self.expire() }
  }

  /// Fails the jobs whose callers no longer wait. All jobs of a queue are given the same time, so
  /// that the first are the oldest.
  private func expire() {
    let expired = state.withLock { state in
      let now = ContinuousClock.now
      let expired = Array(state.waiting.prefix { $0.deadline.map { $0 <= now } ?? false })
      state.waiting.removeFirst(expired.count)
      state.isTimed = false
      setTimer(&state)
      return expired
    }
    for job in expired {
      job.fail(DatabaseError(.connectionLost, "no connection to the database became free in time"))
    }
  }
}
