import Foundation
import Providers
import Registrations
import Synchronization
import Timing

/// Tries of what is in the outbox, and answers that come after whoever waited for them has gone on. There are no more of
/// these than requests may be under way at the providers.
extension Deliverer {
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
    let deliveries = entries.map(\.delivery)
    let decisions = await send(deliveries, since: began, within: timeout, backoff: nil)
    for (entry, decision) in zip(entries, decisions) {
      guard let answer = decision.answer else { continue }
      settle(answer, to: entry.delivery, since: began, under: entry.lease) { late(entry, $0) }
    }
    _ = await record(decisions, on: deliveries)
    return decisions.map { decision in
      guard decision.result == .unconfigured else { return decision }
      return Decision(result: .queued, route: route, leftover: Leftover(notBefore: nil, scope: .route))
    }
  }

  /// The registrations among those of `deliveries` that have not ended.
  func living(_ deliveries: [RegisteredPush]) async throws -> Set<Int64> {
    try await registrations.living(deliveries.map(\.registration))
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
  /// - Parameters:
  ///   - began: before it was sent.
  ///   - lease: nil if there is no entry, because it could not be kept and nothing was promised.
  func settle(
    _ answer: LateAnswer, to delivery: RegisteredPush, since began: Date, under lease: Outbox.Lease?,
    then ended: (@Sendable (Leftover?) -> Void)? = nil
  ) {
    lateAnswers.begin()
    Task {
      let decision = judge(await answer.outcome(), of: delivery, over: answer.over, since: began)
      if decision.result != .queued { _ = await record([decision], on: [delivery]) }
      // Where nobody knows what became of it, the lease outlives whatever may.
      if let lease, decision.result != .queued || decision.leftover != nil {
        let retry = decision.leftover.map { self.retry(of: $0, delivery, after: lease.attempts) }
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
  package func settled() async { await lateAnswers.none() }
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
