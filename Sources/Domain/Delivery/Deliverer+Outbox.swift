import Basics
import Foundation
import HTTPClient
import NIOCore
import Providers
import Registrations
import Synchronization

/// Sending of outbox entries, and handling of answers that arrive after their caller has stopped waiting. The number
/// of such answers is bounded by the requests that may be under way at the providers.
extension Deliverer {
  /// Seconds for which a try holds the lease of its entry: the longest wait for an answer, plus the time to
  /// start the try and to record its result.
  var lease: TimeInterval { answerTimeout + 15 }

  /// The longest wait for an answer, in seconds.
  var answerTimeout: TimeInterval { providers.answerTimeout / .seconds(1) }

  /// Tries each of these entries of `route` once. An entry that no credential serves any more stays in the
  /// outbox, because it was promised and the key may come back.
  ///
  /// - Parameter late: called for each entry whose answer came too late for this call, once the entry is
  ///   settled; with what is left to do.
  func sendAgain(
    _ entries: [Outbox.Entry], on route: Route, within timeout: Duration,
    late: @escaping @Sendable (Outbox.Entry, Decision) -> Void
  ) async -> [Decision] {
    let began = now()
    let deliveries = entries.map(\.delivery)
    var decisions = await sendInRequests(deliveries, since: began, within: timeout, backoff: nil)
    for (index, entry) in entries.enumerated() where decisions[index].result == .refused(.unconfigured) {
      reportUnserved(entry.delivery, count: 0)
      decisions[index] = decisionToWait(on: route)
    }
    for (entry, decision) in zip(entries, decisions) {
      guard let (start, answer) = decision.late else { continue }
      handleLateAnswer(answer, to: entry.delivery, start, under: entry.lease) { late(entry, $0) }
    }
    _ = await record(decisions, on: deliveries)
    return decisions
  }

  /// The entries whose registrations have not ended, updated with their present tokens and environments. An entry for
  /// several registrations keeps those that have not ended.
  func living(_ entries: [Outbox.Entry]) async throws -> [Outbox.Entry] {
    guard !entries.isEmpty else { return [] }
    let living = try await registrations.current(
      of: entries.flatMap { $0.delivery.push.recipients ?? [$0.delivery.registration.id] })
    return entries.compactMap { entry in
      guard entry.delivery.push.recipients != nil else {
        guard let current = living[entry.delivery.registration.id] else { return nil }
        var entry = entry
        entry.delivery.retarget(current)
        if let environment = current.environment { entry.delivery.push.environment = environment }
        return entry
      }
      var entry = entry
      guard let rest = entry.delivery.push.only(Set(living.keys)) else { return nil }
      entry.delivery.push = rest
      return entry
    }
  }

  /// The time of the next try after this number of tries, after `doubts` of which the provider may have the notification.
  func dueAt(_ retry: Retry, after attempts: Int, doubts: Int) -> Date {
    if retry.isInDoubt { return now() + Backoff.inDoubt(doubts) }
    return retry.backoff.next(
      after: attempts, now: now(), notBefore: retry.notBefore, random: .random(in: 0...1))
  }

  /// The postponement of an entry after this number of tries. If the reason is the token, all entries of its
  /// registration are postponed.
  func postponement(
    by retry: Retry, _ delivery: RegisteredPush, after attempts: Int
  ) -> Outbox.Postponement {
    Outbox.Postponement(
      until: dueAt(retry, after: attempts, doubts: (delivery.wait?.doubts ?? 0) + retry.wait.doubts),
      registration: retry.scope == .token ? delivery.registration.id : nil, reason: retry.shownReason,
      doubts: retry.wait.doubts)
  }

  /// Whether a notification has failed because of its route. A failure of APNs' other environment does not count.
  func isFailure(_ decision: Decision, of route: Route) -> Bool {
    guard let retry = decision.retry, retry.scope != .token else { return false }
    guard let asked = decision.environment, let own = providers.environment(of: route) else { return true }
    return asked == own
  }

  /// Waits for a late answer, however long it takes, and acts on it; this cannot be cancelled.
  ///
  /// - Parameter lease: nil if there is no entry, because it could not be stored and nothing was promised.
  func handleLateAnswer(
    _ answer: @escaping @Sendable () async -> RouteSender.Answer, to delivery: RegisteredPush,
    _ start: DeliveryStart, under lease: Outbox.Lease?,
    then ended: (@Sendable (Decision) -> Void)? = nil
  ) {
    lateAnswers.begin()
    Task {
      var lease = lease
      // The caller, who would pass it on, has stopped waiting.
      var recorded = delivery
      recorded.movesOnMismatch = false
      let decision = await decideLate(on: await answer(), for: delivery, start, under: &lease)
      if decision.result != .queued { _ = await record([decision], on: [recorded]) }
      // With an unknown result the entry is left under its lease, which outlasts any late answer.
      if let lease, decision.result != .queued || decision.retry != nil {
        let postponement = decision.retry.map {
          self.postponement(by: $0, delivery, after: lease.attempts)
        }
        if delivery.promisedAt == nil, let retry = decision.retry, let postponement,
          let route = decision.route
        {
          recorded.wait = retry.wait
          await logWaiting([(recorded, route, postponement.until)])
        }
        // If the database cannot be written now, the outbox keeps this in memory and writes it later.
        try? await outbox.settle([(lease, postponement)])
      }
      ended?(decision)
      lateAnswers.end()
    }
  }

  /// Decides on a late answer. If APNs' other environment is to be asked then, waits for its answer, too, under a lease
  /// that begins anew.
  private func decideLate(
    on answer: RouteSender.Answer, for delivery: RegisteredPush, _ start: DeliveryStart,
    under lease: inout Outbox.Lease?
  ) async -> Decision {
    guard answer.first == nil, answer.outcome.concernsEnvironment,
      let other = providers.otherSender(for: delivery.push, than: answer.sender)
    else { return await decide(on: answer, for: delivery, start) }
    guard let held = lease, let extended = try? await outbox.extend(held, for: self.lease) else {
      // Without an entry nothing was promised. If it cannot be extended, it is sent once its lease is over.
      return Decision(result: .queued, route: answer.sender.route)
    }
    lease = extended
    switch await other.attempt(
      delivery.push, of: delivery.owner, deadline: .now() + .seconds(3), isPatient: true, after: answer)
    {
    case .ended(let answer): return await decide(on: answer, for: delivery, start)
    case .underWay(let answer): return await decide(on: await answer(), for: delivery, start)
    }
  }

  /// Number of answers still outstanding whose callers have stopped waiting.
  package var lateAnswerCount: Int { lateAnswers.count }

  /// Returns when no late answer is outstanding.
  package func settled() async { await lateAnswers.none() }
}

/// Counts outstanding late answers.
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
