package import Foundation
import NIOCore

/// Sends pushes over a route with one loaded version of its credential. A changed key gets a new sender, and
/// so a new health of the route: late answers to requests with the old key say nothing about the new one.
package final class RouteSender: Sendable {
  package let route: Route
  private let sender: Sender
  private let health: RouteHealth
  /// Set for a push service.
  private let host: WebPushHost?
  private let metrics: ProviderMetrics

  init(_ route: Route, _ sender: Sender, _ metrics: ProviderMetrics, host: WebPushHost? = nil) {
    (self.route, self.sender, self.metrics, self.host) = (route, sender, metrics, host)
    health = RouteHealth(isOfStrangers: host != nil)
  }

  var transport: any Transport { sender.transport }

  package var state: PushProviders.RouteState { health.state }

  /// When an attempt last said something about the route, good or bad; nil if none has.
  package var triedAt: Date? { health.triedAt }

  package var hasAnswered: Bool { health.hasAnswered }

  /// The host with port that a failure concerns: Google's token endpoint if the reason is about signing in.
  package func host(for reason: Reason) -> String {
    sender.provider == .fcm && reason.concernsSignIn ? sender.tokenHost : sender.origin.authority
  }

  /// Sends one push and returns its outcome at the deadline, a few milliseconds late at most, or when the task
  /// is cancelled. A push that the provider was handed by then stays under way; another one is `retry(timeout)`.
  /// Returns `retry(breakerOpen)` at once while the breaker is open, and `retry` with another reason while the
  /// token or its owner has to wait.
  ///
  /// - Parameter isPatient: whether to send even if the route answers too slowly for most callers.
  package func attempt(
    _ push: Push, of owner: Owner, deadline: ContinuousClock.Instant, isPatient: Bool = false
  ) async -> Awaited<Outcome> {
    let started = NIODeadline.now()
    let end = started + TimeAmount(deadline - .now)
    // The deadline had passed before: says nothing about the route.
    guard started < end else { return .ended(ended(Outcome(TransportFailure.timeout), since: started)) }
    var visit: WebPushHost.Visit?
    if let host {
      visit = host.begin(for: owner)
      guard visit != nil else { return .ended(ended(Outcome(TransportFailure.overloaded), since: started)) }
    }
    let leave: @Sendable () -> Void = { [host, visit] in
      if let visit { host?.end(visit) }
    }
    let recipient = Recipient(owner: owner, token: push.tokenHash)
    let isProbe: Bool
    switch health.admit(recipient, isPatient: isPatient, now: sender.now()) {
    case .send: isProbe = false
    case .probe: isProbe = true
    case .wait(let outcome):
      leave()
      return .ended(ended(outcome, since: started))
    }
    switch await sender.send(push, to: route.target, of: owner, deadline: end) {
    case .ended((let outcome, from: let source)):
      leave()
      if source == .transport, .now() >= end { health.waitedInVain(from: started, now: sender.now()) }
      return .ended(learned(outcome, from: source, recipient, since: started, isProbe: isProbe))
    case .underWay(let answer):
      health.waitedInVain(from: started, late: recipient.token, now: sender.now())
      return .underWay { [self] in
        let (outcome, source) = await answer()
        leave()
        return learned(outcome, from: source, recipient, since: started, isProbe: isProbe, isLate: true)
      }
    }
  }

  private func learned(
    _ outcome: Outcome, from source: Outcome.Source, _ recipient: Recipient, since started: NIODeadline,
    isProbe: Bool,
    isLate: Bool = false
  ) -> Outcome {
    host?.note(outcome, from: source)
    let outcome = health.record(
      outcome, from: source, for: recipient, after: .now() - started, isProbe: isProbe, isLate: isLate,
      now: sender.now())
    return ended(outcome, since: started)
  }

  /// Why the provider refused this push's token recently; nil if it did not.
  package func trouble(of push: Push) -> Reason? { health.trouble(of: push.tokenHash) }

  private func ended(_ outcome: Outcome, since started: NIODeadline) -> Outcome {
    metrics.ended(route.provider, outcome, after: .now() - started)
    return outcome
  }

  /// Whether an outcome ends a registration of the group.
  ///
  /// - Parameters:
  ///   - registeredAt: when the registration was last made or renewed.
  ///   - believedSince: for a registration made before this, a dead answer is believed whatever time it
  ///     carries.
  ///   - doubtChanged: called when the group's refusals begin to be doubted, and with nil when they are
  ///     believed again.
  package func verdict(
    on outcome: Outcome, of group: TokenGroup, _ owner: Owner, registeredAt: Date, believedSince: Date,
    doubtChanged: (DeletionGuard.Doubt?) -> Void
  ) -> DeletionGuard.Verdict {
    let (verdict, before, after) = health.weigh(
      outcome, of: group, owner, registeredAt: registeredAt, believedSince: believedSince, now: sender.now())
    metrics.count(verdict, on: outcome, of: route.provider)
    if (before == nil) != (after == nil) { doubtChanged(after) }
    return verdict
  }

  /// Why refusals of the group's tokens are not believed; nil if they are.
  package func doubt(of group: TokenGroup) -> DeletionGuard.Doubt? { health.doubt(of: group) }
}

extension Push {
  fileprivate var tokenHash: Int {
    switch self {
    case .apns(let notification): notification.token.hashValue
    case .fcm(let message): message.token.hashValue
    case .webPush(let message): message.subscription.endpoint.url.hashValue
    }
  }
}
