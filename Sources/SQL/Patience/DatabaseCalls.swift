import Synchronization

/// Calls that are waited for until a deadline and no longer, whatever becomes of them: a server that hangs
/// holds the driver's threads, not the callers.
///
/// One task watches over all that are under way; a timer for each would outlive it by seconds.
final class DatabaseCalls: Sendable {
  private struct Call {
    let deadline: ContinuousClock.Instant
    let giveUp: @Sendable () -> Void
  }

  private struct State {
    var calls: [UInt64: Call] = [:]
    var next: UInt64 = 0
    var isWatched = false
  }

  private static let interval = Duration.milliseconds(100)
  private let state = Mutex(State())

  /// What `call` returns or throws; ``DatabaseError/Code/connectionLost`` if it does neither in time. It
  /// goes on then, and what it does may still happen.
  func result<Result: Sendable>(
    of call: @escaping @Sendable () async throws -> Result, until deadline: ContinuousClock.Instant
  ) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
      let number = add(deadline) {
        continuation.resume(throwing: DatabaseError(.connectionLost, "the database did not answer in time"))
      }
      // Begins here and now: a hop less for what is seldom needed.
      Task.immediate {
        let result: Swift.Result<Result, any Error>
        do { result = .success(try await call()) } catch { result = .failure(error) }
        if self.remove(number) { continuation.resume(with: result) }
      }
    }
  }

  private func add(_ deadline: ContinuousClock.Instant, giveUp: @escaping @Sendable () -> Void) -> UInt64 {
    let (number, isWatched) = state.withLock { state in
      let number = state.next
      state.next += 1
      state.calls[number] = Call(deadline: deadline, giveUp: giveUp)
      defer { state.isWatched = true }
      return (number, state.isWatched)
    }
    if !isWatched { Task.detached { await self.watch() } }
    return number
  }

  /// Whether the call was still waited for; it is not any more then.
  private func remove(_ number: UInt64) -> Bool {
    state.withLock { $0.calls.removeValue(forKey: number) != nil }
  }

  /// Gives up what has waited long enough, until there is nothing to watch.
  private func watch() async {
    while true {
      try? await Task.sleep(for: Self.interval)
      let (late, isOver) = state.withLock { state in
        let now = ContinuousClock.now
        let late = state.calls.filter { $0.value.deadline <= now }
        for number in late.keys { state.calls[number] = nil }
        state.isWatched = !state.calls.isEmpty
        return (late.values, !state.isWatched)
      }
      for call in late { call.giveUp() }
      if isOver { return }
    }
  }
}
