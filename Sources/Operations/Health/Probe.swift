internal import Synchronization
internal import Timing

/// A question whose answer may be long in coming: who asks does not wait for ever, and it is asked again only once
/// it has been answered, so that those who ask while it hangs do not pile up behind it.
final class Probe<Answer: Sendable>: Sendable {
  private let ask: @Sendable () async -> Answer
  private let underWay = Mutex<Task<Answer, Never>?>(nil)

  init(_ ask: @escaping @Sendable () async -> Answer) { self.ask = ask }

  /// The answer, or nil if there is none within `limit`.
  func answer(within limit: Duration) async -> Answer? {
    let question = underWay.withLock { underWay in
      if let underWay { return underWay }
      // Without the limits of who asks first: others wait for the same answer.
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

/// What takes a while to find out and may be a little old: an older answer stays while a newer one cannot be had.
final class Cached<Value: Sendable>: Sendable {
  private final class Latest: Sendable {
    let value = Mutex<(value: Value, at: ContinuousClock.Instant)?>(nil)
  }

  private let lifetime: Duration
  private let latest = Latest()
  private let load: Probe<Value?>

  /// - Parameter lifetime: how old it may be.
  init(for lifetime: Duration, _ load: @escaping @Sendable () async throws -> Value) {
    self.lifetime = lifetime
    // Kept also where nobody waits for it any more.
    self.load = Probe { [latest] in
      let value = try? await load()
      if let value { latest.value.withLock { $0 = (value, .now) } }
      return value
    }
  }

  /// The value, with its age if that is more than it should be because no newer one came within `limit`; nil if there
  /// is none.
  func value(within limit: Duration) async -> (value: Value, age: Duration?)? {
    if let known = latest.value.withLock({ $0 }), ContinuousClock.now - known.at < lifetime {
      return (known.value, nil)
    }
    if let value = await load.answer(within: limit) ?? nil { return (value, nil) }
    return latest.value.withLock { $0 }.map { ($0.value, ContinuousClock.now - $0.at) }
  }
}
