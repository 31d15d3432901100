package import Foundation
import NIOCore

/// A route as one loading of its credential made it: a key that has changed makes another sender of the same route.
/// What a route has proven belongs to the sender that it was proven with, so that an answer to a request of an older
/// key teaches nothing about the present one.
package struct RouteSender: Sendable {
  enum Sender: Sendable {
    case apns(APNsSender)
    case fcm(FCMSender)
  }

  /// Whose route it is.
  package let route: Route
  private let sender: Sender
  private let health = RouteHealth()
  private let metrics: ProviderMetrics
  private let now: @Sendable () -> Date

  init(_ route: Route, _ sender: Sender, _ factory: TransportFactory) {
    self.route = route
    self.sender = sender
    (metrics, now) = (factory.metrics, factory.now)
  }

  /// How it fares.
  package var state: PushProviders.RouteState { health.state }

  /// Sends one push and returns what became of it by the deadline, a few milliseconds late at most, or when the
  /// task is cancelled. What has been handed to the provider by then goes on; what has not is `retry(timeout)`.
  /// While the breaker is open that is `retry(breakerOpen)`, at once.
  ///
  /// - Parameter isPatient: goes also where answers come later than the deadlines of most.
  package func attempt(
    _ push: Push, deadline: ContinuousClock.Instant, isPatient: Bool = false
  ) async -> Attempt<Outcome> {
    let started = NIODeadline.now()
    let end = started + TimeAmount(deadline - .now)
    @Sendable func ended(_ outcome: Outcome) -> Outcome {
      metrics.ended(route.provider, outcome, after: .now() - started)
      return outcome
    }
    // Says nothing about the route.
    guard started < end else { return .ended(ended(Outcome(TransportFailure.timeout))) }
    let isProbe: Bool
    switch health.admit(isPatient: isPatient, now: now()) {
    case .send: isProbe = false
    case .probe: isProbe = true
    case .wait(let until): return .ended(ended(.retry(.breakerOpen, notBefore: until, scope: .route)))
    }
    @Sendable func learned(_ answer: RouteAnswer) -> Outcome {
      health.record(answer, after: .now() - started, isProbe: isProbe, now: now())
      return ended(answer.outcome)
    }
    switch await send(push, deadline: end) {
    case .ended(let answer):
      if case .missing = answer, .now() >= end { health.waitedInVain(from: started, now: now()) }
      return .ended(learned(answer))
    case .underWay(let answer):
      health.waitedInVain(from: started, now: now())
      return .underWay { learned(await answer()) }
    }
  }

  /// Whether an outcome that came over this route ends a registration of that group.
  ///
  /// - Parameters:
  ///   - registeredAt: when it was last made.
  ///   - doubtChanged: is told when refusals of that group begin to be doubted, and (nil) when they no longer are.
  package func judge(
    _ outcome: Outcome, of group: TokenGroup, registeredAt: Date,
    doubtChanged: (DeletionGuard.Doubt?) -> Void
  ) -> DeletionGuard.Verdict {
    let (verdict, before, after) = health.judge(outcome, of: group, registeredAt: registeredAt, now: now())
    metrics.judged(route.provider, outcome, verdict)
    if (before == nil) != (after == nil) { doubtChanged(after) }
    return verdict
  }

  /// Why refusals of that group's tokens are not believed at present; nil where they are.
  package func doubt(of group: TokenGroup) -> DeletionGuard.Doubt? { health.doubt(of: group) }

  private func send(_ push: Push, deadline: NIODeadline) async -> Attempt<RouteAnswer> {
    switch (sender, push) {
    case (.apns(let sender), .apns(let notification)):
      await sender.send(notification, topic: route.target, deadline: deadline)
    case (.fcm(let sender), .fcm(let message)):
      await sender.send(message, deadline: deadline)
    case (.apns, .fcm), (.fcm, .apns):
      .ended(.notAsked(.misconfigured(.unconfigured)))
    }
  }
}
