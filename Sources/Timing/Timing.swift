internal import Synchronization

/// How long to wait before the next try: a random share of a bound that doubles with each try up to the longest, so
/// that what failed together does not come back together.
package struct Backoff: Sendable {
  /// The bound after the first try, in seconds.
  package let first: Double
  /// The largest bound, in seconds.
  package let longest: Double
  private let shares: ClosedRange<Double>

  /// - Parameter shares: what shares of the bound a pause may be. From nothing to all of it ("full jitter") spreads best.
  package init(first: Double, longest: Double, shares: ClosedRange<Double> = 0...1) {
    self.first = first
    self.longest = longest
    self.shares = shares
  }

  /// Seconds to wait after so many tries, of which there has been one at least.
  ///
  /// - Parameter random: from 0 to 1.
  package func pause(after tries: Int, random: Double = .random(in: 0...1)) -> Double {
    let doublings = min(max(tries, 1), 31) - 1
    return (shares.lowerBound + random * (shares.upperBound - shares.lowerBound))
      * min(longest, first * Double(1 << doublings))
  }
}

/// Does `body` at once, and again and again with a pause after each time, until the task is cancelled.
package func every(_ pause: Duration, _ body: () async -> Void) async {
  while !Task.isCancelled {
    await body()
    try? await Task.sleep(for: pause)
  }
}

/// Does `body` at once, and again and again with a pause after each time, until the task is cancelled. What it throws
/// is told to `onError` and ends nothing.
package func every(
  _ pause: Duration, _ body: () async throws -> Void, onError: (any Error) -> Void
) async {
  await every(pause) {
    do { try await body() } catch { onError(error) }
  }
}

/// Works in lanes that do not wait for each other, in each of them one round at a time.
package final class Lanes<Lane: Hashable & Sendable>: Sendable {
  private let pause: Duration
  private let busy = Mutex<Set<Lane>>([])

  /// - Parameter pause: after which it looks again which lanes have something to do.
  package init(every pause: Duration) {
    self.pause = pause
  }

  /// Works until the task is cancelled, and returns when the rounds that are under way have ended.
  ///
  /// - Parameters:
  ///   - lanes: those with something to do. One that is being worked in is left alone.
  ///   - round: does as much as may be done at once in a lane; whether there may be more.
  package func run(
    _ lanes: () async -> [Lane], round: @escaping @Sendable (Lane) async -> Bool
  ) async {
    await withDiscardingTaskGroup { group in
      await every(pause) {
        for lane in await lanes() where busy.withLock({ $0.insert(lane).inserted }) {
          group.addTask {
            while !Task.isCancelled, await round(lane) {}
            self.busy.withLock { _ = $0.remove(lane) }
          }
        }
      }
    }
  }
}

/// What `body` returns or throws; nil if it takes longer. It is cancelled then, as it is with the caller, and waited
/// for: what does not heed that is not cut short, see `Task.value(within:)`. Where there is no time it is not begun.
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
      // Else the caller is cancelled, and `body` with it: it says what comes of that.
      if !Task.isCancelled { break }
    }
    return nil
  }
}

extension Task where Failure == Never {
  /// The result; nil if it takes longer or the caller is cancelled. The task goes on then.
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

/// Does what has gathered, in rounds: at once when somebody wakes it, and twice a second for what comes due and for
/// what a node that died had taken.
package final class Worker: Sendable {
  private let pause: Duration
  private let wakeUps = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))

  /// - Parameter pause: after which it looks by itself.
  package init(every pause: Duration = .milliseconds(500)) {
    self.pause = pause
  }

  /// There is something new: need not wait for the next look.
  package func wake() {
    wakeUps.continuation.yield()
  }

  /// Works until the task is cancelled.
  ///
  /// - Parameters:
  ///   - round: does as much as may be done at once; whether there may be more.
  ///   - onError: is told what a round has thrown. The next look comes all the same.
  package func run(_ round: () async throws -> Bool, onError: (any Error) -> Void) async {
    await withTaskGroup { group in
      group.addTask { await every(self.pause) { self.wake() } }
      for await _ in wakeUps.stream {
        do {
          while !Task.isCancelled, try await round() {}
        } catch {
          onError(error)
        }
      }
    }
  }
}
