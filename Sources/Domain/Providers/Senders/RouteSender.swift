package import Basics
package import Foundation
package import HTTPClient
package import NIOCore
import Synchronization

/// Sends pushes over a route with one loaded version of its credential. A changed key gets a new sender, and
/// so a new health of the route: late answers to requests with the old key say nothing about the new one.
package final class RouteSender: Sendable {
  package let route: Route
  let sender: Sender
  private let health: RouteHealth
  /// Set for a push service.
  private let host: WebPushHost?
  private let metrics: ProviderMetrics
  /// What the answers say about the tokens of each group.
  private let guards = Mutex<[TokenGroup: DeletionGuard]>([:])

  /// The result of sending a push. A class, because each step of a task that has it would have a copy otherwise.
  package final class Answer: Sendable {
    /// What the provider said.
    package let outcome: Outcome
    /// The sender of the push that was answered.
    package let sender: RouteSender
    /// The sender to APNs' other environment, if that was asked first and did not take it.
    package let first: RouteSender?
    /// The token's pause, if it is the token that has to wait.
    package let pause: TokenPause?

    package init(
      outcome: Outcome, sender: RouteSender, first: RouteSender? = nil, pause: TokenPause? = nil
    ) {
      self.outcome = outcome
      self.sender = sender
      self.first = first
      self.pause = pause
    }

    /// The same answer with the outcome of one of several that went in one request.
    package func with(_ outcome: Outcome) -> Answer {
      Answer(outcome: outcome, sender: sender, first: first, pause: pause)
    }
  }

  init(_ route: Route, _ sender: Sender, _ metrics: ProviderMetrics, host: WebPushHost? = nil) {
    self.route = route
    self.sender = sender
    self.metrics = metrics
    self.host = host
    // Where each owner signs in by itself, an outage pauses each owner alone until three have met it.
    health = RouteHealth(
      isUntrusted: host != nil, pauses: sender.hasOwners ? Breaker.backoff : TokenPauses.backoff)
  }

  var transport: any Transport { sender.transport }

  /// Set for APNs.
  package var environment: APNsCredential.Environment? { sender.environment }

  package var state: PushProviders.RouteState { health.state }

  /// When an attempt last said something about the route, good or bad; nil if none has.
  package var triedAt: Date? { health.triedAt }

  package var hasAnswered: Bool { health.hasAnswered }

  /// The host with port that a failure concerns: that of the sign-in if the reason is about that.
  package func host(for reason: Reason) -> String {
    !sender.tokenHost.isEmpty && reason.concernsSignIn ? sender.tokenHost : sender.origin.authority
  }

  /// Sends one push and returns what came of it at the deadline, a few milliseconds late at most, or when the task
  /// is cancelled. A push that the provider was handed by then stays under way; another one is `retry(timeout)`.
  /// Returns `retry(breakerOpen)` at once while the breaker is open, and `retry` with another reason while the
  /// token or its owner has to wait.
  ///
  /// - Parameters:
  ///   - began: when the caller began to wait, if this is not its first try.
  ///   - isPatient: whether to send even if the route answers too slowly for most callers.
  ///   - isFirst: whether APNs' other environment is asked next if this one does not know the token or the key
  ///     (``Outcome/concernsEnvironment``). An unknown key then counts against the route only once that environment
  ///     has not taken the push either.
  ///   - first: what APNs' other environment said, which was asked first.
  package func attempt(
    _ push: Push, of owner: Owner, since began: NIODeadline? = nil, deadline: NIODeadline,
    isPatient: Bool = false, isFirst: Bool = false, after first: Answer? = nil
  ) async -> Awaited<Answer> {
    let account = sender.hasOwners ? await account(of: owner) : owner
    let recipient = Recipient(push, of: account)
    switch await sendIfAllowed(
      recipient, since: began, deadline, isPatient: isPatient, isFirst: isFirst,
      { await sender.request(push, to: route.target, of: owner, deadline: $0) })
    {
    case .ended(let answer): return .ended(self.answer(answer, to: recipient, after: first))
    case .underWay(let answer):
      return .underWay { self.answer(await answer(), to: recipient, after: first) }
    }
  }

  /// The answer that counts of those of APNs' two environments.
  // Not inlined, like others here: it would add to the memory of its caller's task (`Documentation/Decisions` 0023).
  @inline(never) private func answer(_ answer: Sender.Answer, to recipient: Recipient, after first: Answer?)
    -> Answer
  {
    let own = Answer(outcome: answer.outcome, sender: self, first: first?.sender, pause: answer.pause)
    guard let first, answer.outcome.concernsEnvironment else { return own }
    if case .misconfigured = first.outcome {
      first.sender.health.blame(first.outcome, for: recipient, now: sender.now())
    }
    // A token that a key could not ask about may be good.
    if case .suspect = first.outcome, answer.outcome != first.outcome { return own }
    return Answer(outcome: first.outcome, sender: first.sender, first: first.sender, pause: first.pause)
  }

  /// The owner by which the route's health tells pushes apart: with an upstream bouncer a hash of the owner's credentials,
  /// so that nothing is held against new credentials.
  func account(of owner: Owner) async -> Owner {
    guard sender.hasOwners, let signIn = await sender.signIn(of: owner) else { return owner }
    return Owner(id: Int64(signIn.hashValue))
  }

  /// Sends if the route's health allows it, and records the answer there.
  func sendIfAllowed(
    _ recipient: Recipient, since began: NIODeadline? = nil, _ deadline: NIODeadline, isPatient: Bool,
    isFirst: Bool = false,
    _ send: (NIODeadline) async -> Awaited<Sender.Answer>
  ) async -> Awaited<Sender.Answer> {
    let trip: Trip
    switch admit(recipient, since: began, until: deadline, isPatient: isPatient, isFirst: isFirst) {
    case .admitted(let admitted): trip = admitted
    case .refused(let answer): return .ended(answer)
    }
    switch await send(deadline) {
    case .ended(let answer): return .ended(ended(answer, trip))
    case .underWay(let answer):
      health.waitedInVain(from: trip.waitsSince, late: recipient.token, now: sender.now())
      return .underWay { [self] in
        let answer = await answer()
        endRequest(trip.unproven)
        return recorded(answer, trip, isLate: true)
      }
    }
  }

  /// A push or a call on its way. A class for the same reason.
  private final class Trip: Sendable {
    let recipient: Recipient
    let isFirst: Bool
    let started: NIODeadline
    let end: NIODeadline
    /// When its caller began to wait.
    let waitsSince: NIODeadline
    let isProbe: Bool
    let unproven: WebPushHost.UnprovenRequest?

    init(
      _ recipient: Recipient, since began: NIODeadline?, from started: NIODeadline, until end: NIODeadline,
      isProbe: Bool, isFirst: Bool, unproven: WebPushHost.UnprovenRequest?
    ) {
      self.recipient = recipient
      self.isFirst = isFirst
      self.started = started
      self.end = end
      self.isProbe = isProbe
      self.unproven = unproven
      waitsSince = began ?? started
    }
  }

  private enum Admission {
    case admitted(Trip)
    case refused(Sender.Answer)
  }

  /// Asks whether a push or a call may go.
  @inline(never) private func admit(
    _ recipient: Recipient, since began: NIODeadline?, until end: NIODeadline, isPatient: Bool, isFirst: Bool
  ) -> Admission {
    let started = NIODeadline.now()
    // The deadline had passed before: says nothing about the route.
    guard started < end else { return .refused(unsent(Outcome(TransportFailure.timeout), since: started)) }
    let unproven = host?.begin(for: recipient.owner)
    guard host == nil || unproven != nil else {
      return .refused(unsent(Outcome(TransportFailure.overloaded), since: started))
    }
    let isProbe: Bool
    switch health.admit(recipient, isPatient: isPatient, now: sender.now()) {
    case .send: isProbe = false
    case .probe: isProbe = true
    case .wait(let outcome):
      endRequest(unproven)
      return .refused(unsent(outcome, since: started))
    }
    return .admitted(
      Trip(
        recipient, since: began, from: started, until: end, isProbe: isProbe, isFirst: isFirst,
        unproven: unproven))
  }

  private func endRequest(_ unproven: WebPushHost.UnprovenRequest?) {
    if let unproven { host?.end(unproven) }
  }

  @inline(never) private func ended(_ answer: Sender.Answer, _ trip: Trip) -> Sender.Answer {
    endRequest(trip.unproven)
    if answer.isInVain {
      health.waitedInVain(from: trip.waitsSince, hasFailed: .now() < trip.end, now: sender.now())
    }
    return recorded(answer, trip)
  }

  private func recorded(_ answer: Sender.Answer, _ trip: Trip, isLate: Bool = false) -> Sender.Answer {
    host?.record(answer.outcome, from: answer.source)
    var isOpen = false
    if trip.isFirst, case .misconfigured = answer.outcome { isOpen = answer.outcome.concernsEnvironment }
    let duration = NIODeadline.now() - trip.started
    let pause = health.record(
      answer.outcome, from: isOpen ? .ourselves : answer.source, for: trip.recipient, after: duration,
      isProbe: trip.isProbe, isLate: isLate, now: sender.now())
    metrics.ended(route.provider, answer.outcome, after: duration)
    return pause == nil
      ? answer : Sender.Answer(answer.outcome, answer.source, answer.response, pause: pause)
  }

  /// The outcome of what was not sent.
  private func unsent(_ outcome: Outcome, since started: NIODeadline) -> Sender.Answer {
    metrics.ended(route.provider, outcome, after: .now() - started)
    return Sender.Answer(outcome, .transport)
  }

  /// Weighs an answer about a token against what other answers say about tokens of its group.
  package func weigh<Verdict: Sendable>(
    among group: TokenGroup, _ decide: (inout DeletionGuard) -> Verdict
  ) -> Verdict {
    guards.withLock { decide(&$0[group, default: DeletionGuard()]) }
  }

  /// Why refusals of the group's tokens are not believed; nil if they are.
  package func doubt(of group: TokenGroup) -> DeletionGuard.Doubt? {
    guards.withLock { $0[group]?.doubt }
  }
}

extension Recipient {
  fileprivate init(_ push: Push, of owner: Owner) {
    // Without a token the owner is what a token is to a provider.
    self.init(owner: owner, token: push.tokenHash ?? owner.hashValue)
  }
}
