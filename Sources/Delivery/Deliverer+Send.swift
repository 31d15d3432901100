import Foundation
import Logging
import Providers
import Registrations
import Timing

extension Deliverer {
  /// What an outcome means for a notification and its registration.
  struct Decision: Sendable {
    var result: DeliveryResult
    /// The route that it went over, or waits for; nil where no credential serves it.
    var route: Route?
    /// The provider calls the token dead.
    var death: Death?
    /// What is queued and not at its provider.
    var leftover: Leftover?
    /// The answer that is still to come for what is queued and at its provider.
    var answer: LateAnswer?
  }

  /// The end of whatever was registered with a token by a time.
  struct Death: Sendable {
    let reason: Reason
    let by: Date
    /// The provider is not believed yet.
    let isHeldBack: Bool
  }

  /// What is not done yet: nobody has taken it, and it may still be taken.
  struct Leftover: Sendable {
    let notBefore: Date?
    let scope: Outcome.Scope
    /// When to try again from the outbox.
    var backoff = Backoff.outbox
    /// More tries than this within a request would only hold it up.
    var triesInRequest = 3
  }

  /// An answer that is still to come.
  struct LateAnswer: Sendable {
    let over: RouteSender
    let outcome: @Sendable () async -> Outcome
  }

  /// - Parameters:
  ///   - began: when the caller began to wait.
  ///   - backoff: between tries; nil for a single try where no caller waits.
  func send(
    _ deliveries: [RegisteredPush], since began: Date, within timeout: Duration, backoff: Backoff?
  ) async -> [Decision] {
    let deadline = ContinuousClock.now + timeout
    // One delivery needs no task of its own; most notifications are for one or two devices.
    if deliveries.count == 1 { return [await send(deliveries[0], since: began, by: deadline, backoff)] }
    return await withTaskGroup(of: (Int, Decision).self) { group in
      for (index, delivery) in deliveries.enumerated() {
        group.addImmediateTask { (index, await self.send(delivery, since: began, by: deadline, backoff)) }
      }
      var decisions = [Decision](repeating: Decision(result: .unconfigured), count: deliveries.count)
      for await (index, decision) in group { decisions[index] = decision }
      return decisions
    }
  }

  /// Tries until it is done, has been tried often enough, or the time is up.
  private func send(
    _ delivery: RegisteredPush, since began: Date, by deadline: ContinuousClock.Instant, _ backoff: Backoff?
  ) async -> Decision {
    var latest: Decision?
    var tries = 0
    while true {
      // For each try by itself: the credential may have been replaced meanwhile.
      guard let routeSender = providers.routeSender(for: delivery.push) else {
        history?.count(.unconfigured(delivery.push.provider))
        return latest ?? Decision(result: .unconfigured)
      }
      if let notBefore = delivery.notBefore, notBefore > now() {
        return Decision(
          result: .queued, route: routeSender.route,
          leftover: Leftover(notBefore: notBefore, scope: .token))
      }
      tries += 1
      let decision: Decision
      switch await routeSender.attempt(
        delivery.push, of: delivery.owner, deadline: deadline, isPatient: backoff == nil)
      {
      case .ended(let outcome): decision = judge(outcome, of: delivery, over: routeSender, since: began)
      case .underWay(let answer):
        return Decision(
          result: .queued, route: routeSender.route, answer: LateAnswer(over: routeSender, outcome: answer))
      }
      guard let leftover = decision.leftover, let backoff, tries < leftover.triesInRequest,
        leftover.notBefore == nil
      else { return decision }
      let pause = Duration.seconds(backoff.pause(after: tries))
      guard ContinuousClock.now + pause < deadline else { return decision }
      latest = decision
      // A cancelled caller is told by the next try, which ends at once.
      try? await Task.sleep(for: pause)
    }
  }

  /// What an outcome means for the notification and its registration.
  ///
  /// - Parameter began: when it was asked for, if it does not come from the outbox.
  func judge(
    _ outcome: Outcome, of delivery: RegisteredPush, over routeSender: RouteSender, since began: Date
  ) -> Decision {
    let (route, registration) = (routeSender.route, delivery.registration)
    let promisedAt = delivery.promisedAt ?? began
    history?.tried(outcome, of: registration, on: route, since: promisedAt)
    let verdict = routeSender.verdict(
      on: outcome, of: registration.kind.tokens, delivery.owner, registeredAt: registration.registeredAt,
      believedSince: registrations.believedSince
    ) { doubt in
      let metadata: Logger.Metadata = ["route": "\(route)", "kind": "\(registration.kind)"]
      if let doubt {
        logger.warning(
          "the provider refuses too many tokens: their registrations stay",
          metadata: metadata.merging(["reason": "\(doubt.reason)"]) { $1 })
      } else {
        logger.notice("the provider takes tokens again", metadata: metadata)
      }
    }
    var decision = Decision(result: .queued, route: route)
    switch outcome {
    case .delivered:
      metrics.accepted(route.provider, after: now().timeIntervalSince(promisedAt))
      decision.result = .delivered
    case .dead(let reason, let since):
      decision.result = verdict == .end ? .ended(reason) : .refused(reason)
      guard verdict == .end || verdict == .hold else { break }
      // FCM and push services speak of when they were asked, APNs of a time that it names.
      let by = since.map { min(began, max($0, registrations.believedSince)) } ?? began
      decision.death = Death(reason: reason, by: by, isHeldBack: verdict == .hold)
    case .suspect(let reason):
      decision.result = verdict == .end ? .ended(reason) : .refused(reason)
      if verdict == .end { decision.death = Death(reason: reason, by: began, isHeldBack: false) }
    case .rejected(let reason):
      decision.result = .refused(reason)
    case .retry(_, _, .process):
      // It may have been taken, and nobody will know.
      break
    case .retry(_, let notBefore, let scope):
      let isOutage = route.provider == .apns && scope == .provider
      decision.leftover = Leftover(
        notBefore: notBefore, scope: scope, backoff: isOutage ? .outage : .outbox,
        triesInRequest: isOutage ? 2 : 3)
    case .misconfigured:
      // Mended by the operator, not by trying at once.
      decision.leftover = Leftover(notBefore: now() + 1, scope: .route)
    }
    return decision
  }
}

extension RegistrationReference.Kind {
  /// The tokens of such registrations.
  var tokens: TokenGroup { TokenGroup(rawValue) }
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
