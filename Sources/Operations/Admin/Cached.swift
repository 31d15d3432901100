internal import Synchronization
internal import Timing

/// What takes a while to find out and may be a little old: it is asked for once at a time, and nobody waits long for it.
final class Cached<Value: Sendable>: Sendable {
  private struct State {
    var value: Value?
    var at: ContinuousClock.Instant?
    var underWay: Task<Value?, Never>?
  }

  private let lifetime: Duration
  private let load: @Sendable () async throws -> Value
  private let state = Mutex(State())

  /// - Parameter lifetime: how old it may be.
  init(for lifetime: Duration, _ load: @escaping @Sendable () async throws -> Value) {
    self.lifetime = lifetime
    self.load = load
  }

  /// The value, an older one if a newer takes longer than that; nil if there is none or it cannot be had.
  func value(within limit: Duration) async -> Value? {
    let (fresh, task) = state.withLock { state -> (Value?, Task<Value?, Never>?) in
      if let value = state.value, let at = state.at, ContinuousClock.now - at < lifetime {
        return (value, nil)
      }
      // Not bound by the patience of who asks first.
      let task = state.underWay ?? Task.detached { await self.refresh() }
      state.underWay = task
      return (nil, task)
    }
    guard let task else { return fresh }
    if let answer = await task.value(within: limit) { return answer }
    return state.withLock { $0.value }
  }

  /// nil, and nothing is kept, if it cannot be had.
  private func refresh() async -> Value? {
    let value = try? await load()
    return state.withLock { state in
      (state.value, state.at, state.underWay) = (value, .now, nil)
      return value
    }
  }
}
