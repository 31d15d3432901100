import CVirtualTime
@_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) import _Concurrency

/// Runs every task of the process on one thread, one job at a time, in an order derived from a seed. Tasks
/// sleep in virtual time, which passes when no job is ready.
///
/// Unchecked: the world has one thread, and so has this.
final class VirtualExecutor: TaskExecutor, SchedulingExecutor, @unchecked Sendable {
  static let shared = VirtualExecutor()

  private struct Timer {
    let time: Int64
    let number: Int
    let job: UnownedJob
  }

  private var ready: [UnownedJob] = []
  private var first = 0
  /// A heap, the earliest first.
  private var timers: [Timer] = []
  private var number = 0
  private var random = WorldRandom(seed: 0)
  /// The number of jobs that were run.
  private(set) var count = 0

  /// Installs it as the executor of all tasks. Called once, before the first task.
  static func install() { _createExecutors(factory: Factory.self) }

  private enum Factory: ExecutorFactory {
    static var mainExecutor: any MainExecutor { Main() }
    static var defaultExecutor: any TaskExecutor { shared }
  }

  /// Nothing here is bound to the main actor.
  private final class Main: MainExecutor {
    func enqueue(_ job: consuming ExecutorJob) { VirtualExecutor.shared.enqueue(job) }
    func run() throws {}
    func stop() {}
  }

  func begin(seed: UInt64) {
    random = WorldRandom(seed: seed)
    (number, count) = (0, 0)
  }

  func enqueue(_ job: consuming ExecutorJob) {
    precondition(virtual_time_is_world_thread(), "another thread has work for the world")
    ready.append(UnownedJob(job))
  }

  func enqueue<C: Clock>(
    _ job: consuming ExecutorJob, after delay: C.Duration, tolerance: C.Duration?, clock: C
  ) {
    wake(job, after: delay as? Duration ?? .zero)
  }

  func enqueue<C: Clock>(
    _ job: consuming ExecutorJob, at instant: C.Instant, tolerance: C.Duration?, clock: C
  ) {
    wake(job, after: clock.now.duration(to: instant) as? Duration ?? .zero)
  }

  private func wake(_ job: consuming ExecutorJob, after delay: Duration) {
    let (seconds, attoseconds) = delay.components
    let nanoseconds = min(seconds, 1 << 32) * 1_000_000_000 + attoseconds / 1_000_000_000
    number += 1
    push(Timer(time: virtual_time_now() + max(0, nanoseconds), number: number, job: UnownedJob(job)))
  }

  /// Runs one ready job; false if there is none.
  func step() -> Bool {
    guard first < ready.count else {
      ready.removeAll(keepingCapacity: true)
      first = 0
      return false
    }
    let last = ready.count - 1
    // Mostly in order, as on a machine that is not busy.
    if first < last, random.chance(0.3) { ready.swapAt(first, random.int(in: first...last)) }
    let job = ready[first]
    first += 1
    count += 1
    job.runSynchronously(on: asUnownedTaskExecutor())
    return true
  }

  /// Lets time pass up to the next timer, but not beyond `end`; false at the end.
  ///
  /// - Parameter grain: timers within that many nanoseconds of the first fire with it, late: as on a busy machine.
  func pass(upTo end: Int64, grain: Int64 = 0) -> Bool {
    guard let next = timers.first, next.time <= end else {
      virtual_time_set(max(end, virtual_time_now()))
      return false
    }
    let time = max(virtual_time_now(), min(end, next.time + grain))
    virtual_time_set(time)
    while let timer = timers.first, timer.time <= time {
      pop()
      ready.append(timer.job)
    }
    return true
  }

  var hasTimers: Bool { !timers.isEmpty }

  private func isBefore(_ left: Int, _ right: Int) -> Bool {
    (timers[left].time, timers[left].number) < (timers[right].time, timers[right].number)
  }

  private func push(_ timer: Timer) {
    timers.append(timer)
    var index = timers.count - 1
    while index > 0, isBefore(index, (index - 1) / 2) {
      timers.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  private func pop() {
    timers.swapAt(0, timers.count - 1)
    timers.removeLast()
    var index = 0
    while true {
      var least = index
      for child in [2 * index + 1, 2 * index + 2] where child < timers.count && isBefore(child, least) {
        least = child
      }
      guard least != index else { return }
      timers.swapAt(index, least)
      index = least
    }
  }
}
