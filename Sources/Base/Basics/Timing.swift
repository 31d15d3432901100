import Synchronization

/// The pause before the next attempt: a random share of a bound that doubles with each attempt up to a
/// maximum, so that clients that failed together do not retry together.
package struct Backoff: Sendable {
  package let first: Double
  package let longest: Double
  private let shares: ClosedRange<Double>

  /// - Parameter shares: the range of the random share. The default, 0 to 1 ("full jitter"), spreads best.
  package init(first: Double, longest: Double, shares: ClosedRange<Double> = 0...1) {
    self.first = first
    self.longest = longest
    self.shares = shares
  }

  /// Seconds to wait after this many attempts, at least one.
  ///
  /// - Parameter random: from 0 to 1.
  package func pause(after tries: Int, random: Double = .random(in: 0...1)) -> Double {
    let doublings = min(max(tries, 1), 31) - 1
    return (shares.lowerBound + random * (shares.upperBound - shares.lowerBound))
      * min(longest, first * Double(1 << doublings))
  }
}

/// Runs `body` at once and then again after each pause, until the task is cancelled.
package func every(_ pause: Duration, _ body: () async -> Void) async {
  while !Task.isCancelled {
    await body()
    try? await Task.sleep(for: pause)
  }
}

/// Runs `body` at once and then again after each pause, until the task is cancelled. Errors are passed to
/// `onError` and do not end the loop.
package func every(
  _ pause: Duration, _ body: () async throws -> Void, onError: (any Error) -> Void
) async {
  await every(pause) {
    do { try await body() } catch { onError(error) }
  }
}

/// Frequent rounds of work, of whose errors only the first of a series is reported.
private struct Rounds {
  private var isFailing = false

  mutating func next(_ round: () async throws -> Void, onError: (any Error) -> Void) async {
    do {
      try await round()
      isFailing = false
    } catch {
      if !isFailing { onError(error) }
      isFailing = true
    }
  }
}

/// Runs work in independent lanes, one round at a time in each.
package final class Lanes<Lane: Hashable & Sendable>: Sendable {
  private let pause: Duration
  private let busy = Mutex<Set<Lane>>([])

  /// - Parameter pause: the interval at which it checks which lanes have work.
  package init(every pause: Duration) {
    self.pause = pause
  }

  /// Works until the task is cancelled, and returns when the rounds under way have ended.
  ///
  /// - Parameters:
  ///   - lanes: returns the lanes that have work. Busy ones are skipped.
  ///   - round: does one batch of a lane's work; returns whether there may be more.
  ///   - onError: called with the first error of a series that `lanes` throws. Work continues.
  package func run(
    _ lanes: () async throws -> [Lane], round: @escaping @Sendable (Lane) async -> Bool,
    onError: (any Error) -> Void
  ) async {
    await withDiscardingTaskGroup { group in
      var rounds = Rounds()
      await every(pause) {
        await rounds.next(
          {
            for lane in try await lanes() where busy.withLock({ $0.insert(lane).inserted }) {
              group.addTask {
                while !Task.isCancelled, await round(lane) {}
                self.busy.withLock { _ = $0.remove(lane) }
              }
            }
          }, onError: onError)
      }
    }
  }
}

/// Runs `body` with a time limit; returns nil if it takes longer, or if the limit is zero. At the limit, or with the
/// caller, `body` is cancelled and then waited for: one that ignores cancellation takes its time (see
/// `Task.value(within:)`).
package func withTimeout<Result: Sendable>(
  _ limit: Duration, _ body: @escaping @Sendable () async throws -> Result
) async throws -> Result? {
  guard limit > .zero else { return nil }
  return try await withThrowingTaskGroup(of: Result?.self) { group in
    group.addTask { try await body() }
    group.addTask {
      try? await Task.sleep(for: limit)
      return nil
    }
    defer { group.cancelAll() }
    for try await result in group {
      if let result { return result }
      // Otherwise the caller was cancelled, and `body` with it, and its result counts.
      if !Task.isCancelled { break }
    }
    return nil
  }
}

extension Task where Failure == Never {
  /// The result; nil if it takes longer or the caller is cancelled. The task continues in both cases.
  package func value(within limit: Duration) async -> Success? {
    let (results, continuation) = AsyncStream.makeStream(of: Success.self)
    Task<Void, Never> {
      continuation.yield(await value)
      continuation.finish()
    }
    let timing = Task<Void, Never> {
      try? await Task<Never, Never>.sleep(for: limit)
      continuation.finish()
    }
    defer { timing.cancel() }
    for await result in results { return result }
    return nil
  }
}

/// The number of jobs under way, for each owner.
private final class Busy<Owner: Hashable & Sendable>: Sendable {
  private let jobs = Mutex<[Owner: Int]>([:])

  var all: (count: Int, owners: Set<Owner>) {
    jobs.withLock { ($0.values.reduce(0, +), Set($0.keys)) }
  }

  func begin(_ owner: Owner) { jobs.withLock { $0[owner, default: 0] += 1 } }

  func end(_ owner: Owner) {
    jobs.withLock { jobs in
      let rest = (jobs[owner] ?? 0) - 1
      jobs[owner] = rest > 0 ? rest : nil
    }
  }
}

/// Runs rounds of work: at once when woken, and at intervals for work that becomes due and for work that a
/// crashed node left behind.
package final class Worker: Sendable {
  private let pause: Duration
  private let wakeUps = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

  /// - Parameter pause: the interval between rounds without a wake-up.
  package init(every pause: Duration = .milliseconds(500)) {
    self.pause = pause
  }

  /// Starts a round without waiting for the interval.
  package func wake() {
    wakeUps.continuation.yield()
  }

  /// Works until the task is cancelled.
  ///
  /// - Parameters:
  ///   - round: does one batch of work; returns whether there may be more.
  ///   - onError: called with the first error of a series of rounds that fail. Work continues.
  package func run(_ round: () async throws -> Bool, onError: (any Error) -> Void) async {
    await withTaskGroup { group in
      group.addTask { await every(self.pause) { self.wake() } }
      var rounds = Rounds()
      for await _ in wakeUps.stream {
        await rounds.next({ while !Task.isCancelled, try await round() {} }, onError: onError)
      }
    }
  }

  /// Does jobs until the task is cancelled, a few at once: when one is done, the next one begins. Returns when those under
  /// way have ended.
  ///
  /// - Parameters:
  ///   - limit: the number of jobs at once.
  ///   - take: returns due jobs with their owners: at most `free` of them, and none of an owner in `busy`.
  ///   - work: does a job.
  ///   - onError: called with the first error of a series that `take` throws. Work continues.
  package func run<Owner: Hashable & Sendable, Job: Sendable>(
    atOnce limit: Int, take: (_ free: Int, _ busy: Set<Owner>) async throws -> [(owner: Owner, job: Job)],
    work: @escaping @Sendable (Job) async -> Void, onError: (any Error) -> Void
  ) async {
    let busy = Busy<Owner>()
    await withDiscardingTaskGroup { group in
      await run(
        {
          let (count, owners) = busy.all
          guard count < limit else { return false }
          for (owner, job) in try await take(limit - count, owners) {
            busy.begin(owner)
            group.addTask {
              await work(job)
              busy.end(owner)
              self.wake()
            }
          }
          return false
        }, onError: onError)
    }
  }
}

/// Where an asynchronous function waits until it is resumed, which has to be once. Debug builds, and so all tests, check that; the
/// check costs more than the waiting.
#if DEBUG
  @usableFromInline
  package typealias Continuation<Value, Failure: Error> = CheckedContinuation<Value, Failure>
#else
  @usableFromInline
  package typealias Continuation<Value, Failure: Error> = UnsafeContinuation<Value, Failure>
#endif

@inlinable package func withContinuation<Value>(_ body: (Continuation<Value, Never>) -> Void) async -> Value {
  #if DEBUG
    await withCheckedContinuation { body($0) }
  #else
    await withUnsafeContinuation { body($0) }
  #endif
}

@inlinable package func withThrowingContinuation<Value>(
  _ body: (Continuation<Value, any Error>) -> Void
) async throws -> Value {
  #if DEBUG
    try await withCheckedThrowingContinuation { body($0) }
  #else
    try await withUnsafeThrowingContinuation { body($0) }
  #endif
}
