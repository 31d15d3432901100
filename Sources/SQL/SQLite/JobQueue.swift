import Dispatch
import Synchronization

/// Jobs that wait for a few workers, which take what has gathered and do it together.
///
/// An idle worker begins at once, so nothing waits for others to gather; under load a group is
/// what came while the worker was busy. Each worker has a thread of its own (a serial dispatch
/// queue), so that waiting for the disk never holds up a thread of Swift's pool or an event loop.
final class JobQueue: Sendable {
  private struct State {
    var waiting: [Job] = []
    var idle: [Int]
    var isClosed = false
  }

  private let state: Mutex<State>
  private let workers: [DispatchQueue]
  private let maximumGroup: Int
  private let perform: @Sendable ([Job]) -> Void

  /// - Parameters:
  ///   - workers: how many groups may be under way at once.
  ///   - maximumGroup: how many jobs a worker takes at most.
  ///   - perform: does the jobs of one group, in order, and answers each of them.
  init(
    label: String, workers: Int, maximumGroup: Int, perform: @escaping @Sendable ([Job]) -> Void
  ) {
    state = Mutex(State(idle: Array(0..<workers)))
    self.workers = (0..<workers).map { DispatchQueue(label: "\(label).\($0)") }
    self.maximumGroup = maximumGroup
    self.perform = perform
  }

  /// How many jobs wait for a worker.
  var waitingCount: Int { state.withLock { $0.waiting.count } }

  /// Has `job` done, or fails it if the queue is closed.
  func submit(_ job: Job) {
    let isClosed = state.withLock { state in
      guard !state.isClosed else { return true }
      state.waiting.append(job)
      if let worker = state.idle.popLast() {
        // Under the lock, so that ``close()`` comes after it in the worker's queue.
        workers[worker].async { self.work(worker) }
      }
      return false
    }
    if isClosed { job.fail(DatabaseError(.closed, "the database is closed")) }
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
    while let group = take(worker) { perform(group) }
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
}
