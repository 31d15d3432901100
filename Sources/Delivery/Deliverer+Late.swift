import Foundation
import Providers
import Registrations
import Synchronization
import Timing

/// Tries whose answers come after whoever waited for them has gone on. There are no more of them than requests may
/// be under way at the providers.
extension Deliverer {
  /// An answer that is still to come.
  struct LateAnswer: Sendable {
    let over: RouteSender
    let outcome: @Sendable () async -> Outcome
  }

  /// A try that is at its provider.
  struct LateTry: Sendable {
    let delivery: RegisteredPush
    /// Before it was sent.
    let began: Date
    let answer: LateAnswer
  }

  /// How long an entry belongs to its try, in seconds: longer than an answer is waited for, by what it takes to begin
  /// and to write down the end.
  var lease: TimeInterval { providers.answerTimeout / .seconds(1) + 15 }

  /// Tries each entry of the outbox's `route` once. One that no credential serves any more was promised all the
  /// same: the key may come back.
  ///
  /// - Parameter late: is told of each that was under way, when its entry is settled, what is left.
  func attempt(
    _ entries: [Outbox.Entry], on route: Route, within timeout: Duration,
    late: @escaping @Sendable (Outbox.Entry, Leftover?) -> Void
  ) async -> [Decision] {
    let began = now()
    let decisions = await send(entries.map(\.delivery), since: began, within: timeout, backoff: nil)
    for (entry, decision) in zip(entries, decisions) {
      guard let answer = decision.answer else { continue }
      settle(LateTry(delivery: entry.delivery, began: began, answer: answer), under: entry.lease) {
        late(entry, $0)
      }
    }
    var results = decisions.map(\.result)
    await record(decisions, on: entries.map(\.delivery), &results)
    return decisions.map { decision in
      guard decision.result == .unconfigured else { return decision }
      return Decision(result: .queued, route: route, leftover: Leftover(notBefore: nil, scope: .route))
    }
  }

  /// When to try again what is left after so many tries.
  func dueAt(_ leftover: Leftover, after attempts: Int) -> Date {
    leftover.backoff.next(
      after: attempts, now: now(), notBefore: leftover.notBefore, random: .random(in: 0...1))
  }

  /// When an entry that is left after so many tries is tried again. What its token waits for, others of it wait for, too.
  func retry(of leftover: Leftover, _ delivery: RegisteredPush, after attempts: Int) -> Outbox.Retry {
    Outbox.Retry(
      at: dueAt(leftover, after: attempts),
      registration: leftover.scope == .token ? delivery.registration.id : nil)
  }

  /// Why the provider refuses the token of a delivery of late; nil: it does not.
  func trouble(of delivery: RegisteredPush) -> Reason? {
    providers.routeSender(for: delivery.push)?.trouble(of: delivery.push)
  }

  /// Does what the answer asks for when it has come, however long that takes; nobody can cancel it.
  ///
  /// - Parameter lease: nil if there is no entry, because it could not be kept and nothing was promised.
  func settle(
    _ late: LateTry, under lease: Outbox.Lease?, then ended: (@Sendable (Leftover?) -> Void)? = nil
  ) {
    lateAnswers.begin()
    Task {
      let outcome = await late.answer.outcome()
      let decision = judge(outcome, of: late.delivery, over: late.answer.over, since: late.began)
      if decision.result != .queued {
        var results = [decision.result]
        await record([decision], on: [late.delivery], &results)
      }
      // Where nobody knows what became of it, the lease outlives whatever may.
      if let lease, decision.result != .queued || decision.leftover != nil {
        let retry = decision.leftover.map { self.retry(of: $0, late.delivery, after: lease.attempts) }
        // What cannot be written now is kept in mind by the outbox.
        try? await outbox.settle([(lease, retry)])
      }
      ended?(decision.leftover)
      lateAnswers.end()
    }
  }

  /// How many answers are still to come after whoever waited for them has gone on.
  package var lateAnswerCount: Int { lateAnswers.count }

  /// Returns when none of those is left.
  package func settled() async {
    await lateAnswers.none()
  }
}

/// Counts answers that are still to come.
final class LateAnswers: Sendable {
  private let state = Mutex<(count: Int, waiting: [CheckedContinuation<Void, Never>])>((0, []))

  var count: Int { state.withLock { $0.count } }

  func begin() {
    state.withLock { $0.count += 1 }
  }

  func end() {
    let waiting = state.withLock { state in
      state.count -= 1
      guard state.count == 0 else { return [CheckedContinuation<Void, Never>]() }
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  func none() async {
    await withCheckedContinuation { continuation in
      let isNone = state.withLock { state in
        if state.count > 0 { state.waiting.append(continuation) }
        return state.count == 0
      }
      if isNone { continuation.resume() }
    }
  }
}

extension Backoff {
  /// Within a request, whose caller waits.
  static let inRequest = Backoff(first: 0.1, longest: 1)
  /// From the outbox.
  static let outbox = Backoff(first: 2, longest: 300)
  /// From the outbox, where APNs is out of order. Apple asks for a quarter of an hour, which a chat message is
  /// not worth any more: it is what the pauses come to.
  static let outage = Backoff(first: 15, longest: 900, shares: 1...1.2)

  /// When to try again after so many tries: not before the provider allows it.
  ///
  /// - Parameter random: from 0 to 1.
  func next(after tries: Int, now: Date, notBefore: Date?, random: Double) -> Date {
    let pause = pause(after: tries, random: random)
    return max(now + pause, (notBefore ?? now) + min(pause, first))
  }
}
