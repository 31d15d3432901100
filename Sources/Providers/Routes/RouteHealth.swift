import Foundation
import NIOCore
import Synchronization
import Timing

/// The health of one route, as its answers show, and what follows from it: its breaker, and a guard for each token group.
final class RouteHealth: Sendable {
  fileprivate struct State {
    var breaker: Breaker
    let isOfStrangers: Bool
    var slowness = Slowness()
    var slowSince: Date?
    /// It has answered.
    var isProven = false
    /// When a try last said something about it.
    var triedAt: Date?
    var failures = FailureRun()
    var guards: [TokenGroup: DeletionGuard] = [:]
  }

  private let mutex: Mutex<State>

  /// The health of a route that nothing is known of.
  ///
  /// - Parameter isOfStrangers: whether it is a push service that strangers have named: that it refuses one message is no
  ///   proof that it refuses the next, which may be for a subscription that was made otherwise.
  init(isOfStrangers: Bool = false) {
    let breaker =
      isOfStrangers
      ? Breaker(threshold: 10, backoff: Backoff(first: 1, longest: 60, shares: 0.5...1)) : Breaker()
    mutex = Mutex(State(breaker: breaker, isOfStrangers: isOfStrangers))
  }

  var state: PushProviders.RouteState {
    mutex.withLock { state in
      let failures = state.failures
      switch (failures.since, state.slowSince) {
      case (let since?, _) where failures.isProof:
        return state.breaker.isOpen
          ? .open(failures.reason, since: since) : .failing(failures.reason, since: since)
      case (let failed, let since?):
        return .failing(failed == nil ? .timeout : failures.reason, since: min(failed ?? since, since))
      default: return state.isProven ? .ok : .unknown
      }
    }
  }

  /// When a try last said something about it, good or bad; nil: none has yet.
  var triedAt: Date? { mutex.withLock { $0.triedAt } }

  /// Whether it has ever answered.
  var hasAnswered: Bool { mutex.withLock { $0.isProven } }

  /// Whether a request may go.
  ///
  /// - Parameter isPatient: whether it may take as long as the provider wants, as nobody waits for it.
  func admit(isPatient: Bool, now: Date) -> Breaker.Admission {
    mutex.withLock { state in
      state.slowSince != nil && !isPatient ? .wait(until: now) : state.breaker.admit(now: now)
    }
  }

  /// Somebody has waited since `start` and goes on without an answer, which may come yet.
  func waitedInVain(from start: NIODeadline, now: Date) {
    mutex.withLock { state in
      state.slowness.waitedInVain(from: start, now: .now())
      if state.slowness.isSlow { state.slowSince = state.slowSince ?? now }
    }
  }

  /// Why the guard of these tokens believes no refusal at present; nil where it does.
  func doubt(of group: TokenGroup) -> DeletionGuard.Doubt? {
    mutex.withLock { $0.guards[group]?.doubt }
  }

  /// Whether an outcome ends a registration that was last made then, and the doubt before and after it.
  func judge(
    _ outcome: Outcome, of group: TokenGroup, registeredAt: Date, believedSince: Date, now: Date
  ) -> (verdict: DeletionGuard.Verdict, before: DeletionGuard.Doubt?, after: DeletionGuard.Doubt?) {
    mutex.withLock { state in
      let before = state.guards[group]?.doubt
      // In its place: a copy would copy all that it looks back on.
      let verdict = state.guards[group, default: DeletionGuard()].judge(
        outcome, registeredAt: registeredAt, believedSince: believedSince, now: now)
      return (verdict, before, state.guards[group]?.doubt)
    }
  }

  /// Takes into account how a try has ended after so long.
  func record(_ answer: RouteAnswer, after time: TimeAmount, isProbe: Bool, now: Date) {
    mutex.withLock { state in
      switch answer {
      case .given(let outcome):
        state.slowness.answered(after: time)
        if !state.slowness.isSlow { state.slowSince = nil }
        state.record(outcome, isProbe, now)
      case .missing(let outcome): state.record(outcome, isProbe, now)
      case .notAsked: if isProbe { state.breaker.probeAbandoned(now: now) }
      }
    }
  }
}

extension RouteHealth.State {
  fileprivate mutating func record(_ outcome: Outcome, _ isProbe: Bool, _ now: Date) {
    switch outcome {
    case .delivered, .dead, .suspect, .rejected, .retry(_, _, .token):
      (isProven, triedAt) = (true, now)
      failures.ended()
      breaker.succeeded()
    case .retry(_, _, .caller), .retry(_, _, .process):
      if isProbe { breaker.probeAbandoned(now: now) }
    case .retry(let reason, let notBefore, let scope):
      triedAt = now
      failures.failed(reason, isLasting: false, now: now)
      // Connections that end one after the other open it, the end of a single one does not.
      guard scope != .connection || isProbe || failures.isProof else { return }
      // What may be for one device only is not asked of the others. A push service that gets too many is left alone.
      failed(
        isLasting: isOfStrangers && reason == .tooManyRequests,
        notBefore: scope == .tokenOrRoute ? nil : notBefore, now)
    case .misconfigured(let reason):
      triedAt = now
      failures.failed(reason, isLasting: !isOfStrangers, now: now)
      failed(isLasting: !isOfStrangers, notBefore: nil, now)
    }
  }

  private mutating func failed(isLasting: Bool, notBefore: Date?, _ now: Date) {
    breaker.failed(isLasting: isLasting, notBefore: notBefore, now: now, jitter: .random(in: 0...1))
    if breaker.isOpen { failures.settle() }
  }
}
