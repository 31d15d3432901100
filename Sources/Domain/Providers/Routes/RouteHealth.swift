import Basics
import Foundation
import HTTPClient
import NIOCore
import Synchronization

/// Whether a route can be used, judged by its answers: the breaker, slowness, the blame and token pauses. It is asked
/// before a push is sent, and changes nothing of what the provider answers.
final class RouteHealth: Sendable {
  fileprivate struct State {
    var breaker: Breaker
    var blame: Blame
    var tokens: TokenPauses
    var slowness = Slowness()
    /// Admitted pushes that have not ended.
    var underWay = 0
    /// When the latest push that the provider accepted was sent.
    var takenAt = Date.distantPast
    /// Whether the route has ever answered.
    var isProven = false
    /// When a push last said something about the route.
    var triedAt: Date?
  }

  private let mutex: Mutex<State>

  /// The health of a new route.
  ///
  /// - Parameters:
  ///   - isUntrusted: whether it is a push service, which untrusted devices name. Its breaker opens sooner and stays
  ///     open for longer.
  ///   - pauses: how long each token waits that is refused.
  init(isUntrusted: Bool = false, pauses: Backoff = TokenPauses.backoff) {
    let tokens = TokenPauses(backoff: pauses)
    let untrusted = Backoff(first: 1, longest: 60, shares: 0.5...1)
    mutex = Mutex(
      isUntrusted
        ? State(
          breaker: Breaker(threshold: 10, backoff: untrusted), blame: Blame(backoff: untrusted),
          tokens: tokens)
        : State(breaker: Breaker(), blame: Blame(), tokens: tokens))
  }

  enum Admission: Sendable, Hashable {
    case send
    /// Goes as a probe; other requests wait for its outcome.
    case probe
    /// Does not go; this is its outcome.
    case wait(Outcome)
  }

  var state: PushProviders.RouteState {
    mutex.withLock { state in
      let failures = state.breaker.failures
      if let since = state.blame.since, !failures.isProof { return .open(state.blame.reason, since: since) }
      switch (failures.since, state.slowness.since) {
      case (let since?, _) where failures.isProof:
        return state.breaker.isOpen
          ? .open(failures.reason, since: since) : .failing(failures.reason, since: since)
      case (let failed, let since?):
        return .failing(failed == nil ? .timeout : failures.reason, since: min(failed ?? since, since))
      default: return state.isProven ? .ok : .unknown
      }
    }
  }

  var triedAt: Date? { mutex.withLock { $0.triedAt } }

  var hasAnswered: Bool { mutex.withLock { $0.isProven } }

  /// Whether a request may go.
  ///
  /// - Parameter isPatient: whether nobody waits for the answer, so that a slow route may be used.
  func admit(_ recipient: Recipient, isPatient: Bool, now: Date) -> Admission {
    mutex.withLock { state in
      if state.slowness.since != nil, !isPatient {
        return .wait(.retry(.breakerOpen, notBefore: now, scope: .route))
      }
      // A pause of this token or owner alone comes first, so that it never counts as a probe of the route.
      if let (until, reason) = state.tokens.wait(recipient.token, now: now) {
        return .wait(.retry(reason, notBefore: until, scope: .token))
      }
      let ownerAdmission = recipient.isCall ? .send : state.blame.admit(recipient.owner, now: now)
      if case .wait(let until) = ownerAdmission {
        return .wait(.retry(state.blame.reason, notBefore: until, scope: .token))
      }
      let admission = state.breaker.admit(now: now)
      if case .wait(let until) = admission {
        if ownerAdmission == .probe { state.blame.abandoned(now: now) }
        return .wait(.retry(.breakerOpen, notBefore: until, scope: .route))
      }
      state.tokens.began(recipient.token, now: now)
      state.underWay += 1
      return admission == .probe || ownerAdmission == .probe ? .probe : .send
    }
  }

  /// A caller has waited since `start` and has no answer.
  ///
  /// - Parameters:
  ///   - token: set if the push is still under way, so that its answer may come late.
  ///   - hasFailed: whether there was no connection or it broke before the caller's deadline.
  func waitedInVain(
    from start: NIODeadline, late token: Int? = nil, hasFailed: Bool = false, now: Date
  ) {
    mutex.withLock { state in
      if let token { state.tokens.beganLate(token) }
      state.slowness.waitedInVain(from: start, until: .now(), hasFailed: hasFailed, now: now)
    }
  }

  /// Records how an attempt ended.
  ///
  /// - Parameter isLate: whether its caller had stopped waiting.
  /// - Returns: the token's pause, if the outcome may be about the token for the time being.
  @discardableResult
  func record(
    _ outcome: Outcome, from source: Outcome.Source, for recipient: Recipient, after time: TimeAmount,
    isProbe: Bool, isLate: Bool = false, now: Date
  ) -> TokenPause? {
    mutex.withLock { state in
      if isLate { state.tokens.endedLate(recipient.token) }
      state.underWay = max(0, state.underWay - 1)
      switch source {
      case .provider:
        state.slowness.answered(after: time)
        // Nothing is under way, so nothing is late, however long this took.
        if state.underWay == 0 { state.slowness = Slowness() }
        if outcome.isTaken { state.takenAt = now - TimeInterval(time.nanoseconds) / 1e9 }
        return state.record(outcome, recipient, isGiven: true, isProbe, now)
      case .transport: return state.record(outcome, recipient, isGiven: false, isProbe, now)
      case .ourselves:
        if isProbe { state.abandonProbe(now) }
        return nil
      }
    }
  }
}

extension RouteHealth {
  /// Records an outcome of an attempt that has ended and was recorded without it.
  func blame(_ outcome: Outcome, for recipient: Recipient, now: Date) {
    mutex.withLock { _ = $0.record(outcome, recipient, isGiven: true, false, now) }
  }
}

extension RouteHealth.State {
  fileprivate mutating func record(
    _ outcome: Outcome, _ recipient: Recipient, isGiven: Bool, _ isProbe: Bool, _ now: Date
  ) -> TokenPause? {
    switch outcome {
    case .delivered, .passedOn, .dead, .suspect, .rejected:
      works(now)
      tokens.ended(recipient.token)
      if recipient.isCall { return nil }
      if outcome.isTaken {
        // The route caused the earlier refusals of tokens.
        if blame.since != nil { tokens.reset() }
        blame.delivered(to: recipient.owner, now: now)
      } else {
        blame.answered(recipient.owner, now: now)
      }
    case .retry(let reason, let notBefore, .token):
      works(now)
      blame.answered(recipient.owner, now: now)
      return pause(recipient.token, reason, notBefore, now)
    case .retry(let reason, let notBefore, .tokenOrRoute):
      // Answers to other owners show whether the route is to blame.
      triedAt = now
      if isGiven {
        breaker.succeeded()
      } else if isProbe {
        abandonProbe(now)
      }
      if recipient.isCall { return nil }
      blame.refused(
        recipient.owner, reason, notBefore: notBefore, now: now, jitter: .random(in: 0...1))
      // A time after now means that the clock was put back.
      let isRefusedAlone = takenAt <= now && tokens.wasRefused(recipient.token, reason, before: takenAt)
      var pause = pause(recipient.token, reason, notBefore, now)
      pause.isRefusedAlone = isRefusedAlone
      return pause
    case .retry(_, _, .caller), .retry(_, _, .process):
      if isProbe { abandonProbe(now) }
    case .retry(let reason, let notBefore, let scope):
      // A single lost connection does not open the breaker; several in a row do.
      failed(scope == .connection && !isProbe ? .connection : .request, reason, notBefore, isProbe, now)
    case .misconfigured(let reason): failed(.lasting, reason, nil, isProbe, now)
    }
    return nil
  }

  private mutating func works(_ now: Date) {
    isProven = true
    triedAt = now
    breaker.succeeded()
  }

  private mutating func pause(
    _ token: Int, _ reason: Reason, _ notBefore: Date?, _ now: Date
  ) -> TokenPause {
    tokens.refused(token, reason, notBefore: notBefore, now: now, random: .random(in: 0...1))
  }

  fileprivate mutating func abandonProbe(_ now: Date) {
    breaker.probeAbandoned(now: now)
    blame.abandoned(now: now)
  }

  private mutating func failed(
    _ failure: Breaker.Failure, _ reason: Reason, _ notBefore: Date?, _ isProbe: Bool, _ now: Date
  ) {
    triedAt = now
    if isProbe { blame.abandoned(now: now) }
    breaker.failed(failure, reason, notBefore: notBefore, now: now, jitter: .random(in: 0...1))
  }
}

extension RouteHealth {
  /// Whether a route answers too late for callers that wait for the answer.
  ///
  /// While a provider hangs or is away, every call would take its whole deadline. So after three callers in turn have waited
  /// in vain, callers do not wait any more until an answer takes less time than those three waited, or nothing is under way.
  /// Pushes from the outbox still go, and their answers show when the route is fast again.
  struct Slowness: Sendable {
    /// The number of callers that must have waited in vain, each beginning after the one before gave up: pushes sent
    /// together count once.
    static let threshold = 3
    /// A caller that gave up sooner than this says nothing about the route.
    static let fairChance = TimeAmount.seconds(1)

    /// Since when callers should not wait; nil if they may.
    private(set) var since: Date?
    private var strikes = 0
    private var lastStrike = NIODeadline.uptimeNanoseconds(0)
    /// The shortest time that a caller waited in vain.
    private var tooShort = TimeAmount.nanoseconds(.max)

    /// A caller waited without an answer.
    ///
    /// - Parameter hasFailed: whether there was no connection or it broke, so that this says nothing about how long answers
    ///   take.
    mutating func waitedInVain(
      from start: NIODeadline, until end: NIODeadline, hasFailed: Bool = false, now: Date
    ) {
      guard end - start >= Self.fairChance else { return }
      if !hasFailed { tooShort = min(tooShort, end - start) }
      guard strikes == 0 || start >= lastStrike else { return }
      strikes += 1
      lastStrike = end
      if strikes == Self.threshold { since = now }
    }

    /// The provider answered a request after `time`.
    mutating func answered(after time: TimeAmount) {
      if time < tooShort { self = Slowness() }
    }
  }
}
