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
  func value(within limit: Duration) async -> Value? { await aged(within: limit)?.value }

  /// The value as `value(within:)` gives it, and how old it is if that is more than it should be.
  func aged(within limit: Duration) async -> (value: Value, age: Duration?)? {
    let (fresh, task) = state.withLock { state -> (Value?, Task<Value?, Never>?) in
      if let value = state.value, let at = state.at, ContinuousClock.now - at < lifetime {
        return (value, nil)
      }
      // Not bound by the patience of who asks first.
      let task = state.underWay ?? Task.detached { await self.refresh() }
      state.underWay = task
      return (nil, task)
    }
    guard let task else { return fresh.map { ($0, nil) } }
    if let answer = await task.value(within: limit) ?? nil { return (answer, nil) }
    return state.withLock { state in
      guard let value = state.value, let at = state.at else { return nil }
      return (value, ContinuousClock.now - at)
    }
  }

  /// nil if it cannot be had: the older one stays.
  private func refresh() async -> Value? {
    let value = try? await load()
    return state.withLock { state in
      state.underWay = nil
      if let value { (state.value, state.at) = (value, .now) }
      return value
    }
  }
}
