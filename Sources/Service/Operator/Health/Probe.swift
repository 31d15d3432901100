import Basics
import SQL
import Synchronization

/// A query that may take long. A caller waits for a limited time. Callers that come while the query runs
/// share its answer, so that no queries pile up while it hangs.
final class Probe<Answer: Sendable>: Sendable {
  private let ask: @Sendable () async -> Answer
  private let underWay = Mutex<Task<Answer, Never>?>(nil)

  init(_ ask: @escaping @Sendable () async -> Answer) { self.ask = ask }

  /// The answer, or nil if it does not arrive within `limit`.
  func answer(within limit: Duration) async -> Answer? {
    let question = underWay.withLock { underWay in
      if let underWay { return underWay }
      // Detached, so that cancelling the first caller does not cancel the query for the others.
      let question = Task.detached { [ask] in
        let answer = await ask()
        self.underWay.withLock { $0 = nil }
        return answer
      }
      underWay = question
      return question
    }
    return await question.value(within: limit)
  }
}

/// A cached value. When it has expired and cannot be loaded again, the old value is returned.
final class Cached<Value: Sendable>: Sendable {
  private final class Latest: Sendable {
    let value = Mutex<(value: Value, at: ContinuousClock.Instant)?>(nil)
  }

  private let lifetime: Duration
  private let latest = Latest()
  private let load: Probe<Value?>

  /// - Parameter lifetime: how long a loaded value counts as fresh.
  init(for lifetime: Duration, _ load: @escaping @Sendable () async throws -> Value) {
    self.lifetime = lifetime
    // The value is stored even if no caller waits for it any more.
    self.load = Probe { [latest] in
      let value = try? await load()
      if let value { latest.value.withLock { $0 = (value, .now) } }
      return value
    }
  }

  /// The value. The age is set if the value has expired and no newer one could be loaded within `limit`. nil
  /// if no value was ever loaded.
  func value(within limit: Duration) async -> (value: Value, age: Duration?)? {
    if let known = latest.value.withLock({ $0 }), ContinuousClock.now - known.at < lifetime {
      return (known.value, nil)
    }
    if let value = await load.answer(within: limit) ?? nil { return (value, nil) }
    return latest.value.withLock { $0 }.map { ($0.value, ContinuousClock.now - $0.at) }
  }
}
