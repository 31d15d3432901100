internal import Synchronization
internal import Timing

/// A question whose answer may be long in coming: who asks does not wait for ever, and it is asked again only once
/// it has been answered, so that those who ask while it hangs do not pile up behind it.
final class Probe<Answer: Sendable>: Sendable {
  private let ask: @Sendable () async -> Answer
  private let underWay = Mutex<Task<Answer, Never>?>(nil)

  init(_ ask: @escaping @Sendable () async -> Answer) {
    self.ask = ask
  }

  /// The answer, or nil if there is none within `limit`.
  func answer(within limit: Duration) async -> Answer? {
    await question().value(within: limit)
  }

  private func question() -> Task<Answer, Never> {
    underWay.withLock { underWay in
      if let underWay { return underWay }
      let question = Task { [ask] in
        let answer = await ask()
        self.underWay.withLock { $0 = nil }
        return answer
      }
      underWay = question
      return question
    }
  }
}
