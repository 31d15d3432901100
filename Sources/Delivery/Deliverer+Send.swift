import Foundation
import Logging
import Providers
import Registrations
import Timing

extension Deliverer {
  /// What a provider's outcome means for a notification and its registration.
  struct Decision: Sendable {
    var result: DeliveryResult
    /// The route that it was sent over or waits for; nil if no credential serves it.
    var route: Route?
    /// Set if the provider calls the token dead.
    var death: Death?
    /// Set if the notification is queued and not under way at its provider.
    var leftover: Leftover?
    /// Set if the notification is under way and its answer outstanding.
    var answer: LateAnswer?
  }

  /// The death of a token: all registrations made with it by a given time end.
  struct Death: Sendable {
    let reason: Reason
    let by: Date
    /// True if the provider is not believed yet.
    let isHeldBack: Bool
  }

  /// A notification that no provider has accepted and that may be tried again.
  struct Leftover: Sendable {
    let notBefore: Date?
    let scope: Outcome.Scope
    /// When to try again from the outbox.
    var backoff = Backoff.outbox
    /// Limit of tries within a request; more would only delay its caller.
    var triesInRequest = 3
  }

  /// An answer that is still outstanding.
  struct LateAnswer: Sendable {
    let over: RouteSender
    let start: DeliveryStart
    let outcome: @Sendable () async -> Outcome
  }

  /// - Parameters:
  ///   - began: when the caller began to wait.
  ///   - backoff: the pauses between tries; nil for a single try where no caller waits.
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

  /// Tries until there is a final outcome, the tries are used up, or the deadline passes.
  private func send(
    _ delivery: RegisteredPush, since began: Date, by deadline: ContinuousClock.Instant, _ backoff: Backoff?
  ) async -> Decision {
    var latest: Decision?
    var tries = 0
    let handedOver = delivery.promisedAt == nil ? now() : nil
    while true {
      // Looked up for each try: the credential may have been replaced meanwhile.
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
      let start = DeliveryStart(takenAt: delivery.promisedAt ?? began, handedOver: handedOver, sent: now())
      let decision: Decision
      switch await routeSender.attempt(
        delivery.push, of: delivery.owner, deadline: deadline, isPatient: backoff == nil)
      {
      case .ended(let outcome):
        decision = judge(outcome, of: delivery, over: routeSender, since: began, start)
      case .underWay(let answer):
        return Decision(
          result: .queued, route: routeSender.route,
          answer: LateAnswer(over: routeSender, start: start, outcome: answer))
      }
      guard let leftover = decision.leftover, let backoff, tries < leftover.triesInRequest,
        leftover.notBefore == nil
      else { return decision }
      let pause = Duration.seconds(backoff.pause(after: tries))
      guard ContinuousClock.now + pause < deadline else { return decision }
      latest = decision
      // If the task is cancelled, the next try ends at once and reports that.
      try? await Task.sleep(for: pause)
    }
  }

  /// Decides what an outcome means for the notification and its registration.
  ///
  /// - Parameter began: when the notification was requested, unless it comes from the outbox.
  func judge(
    _ outcome: Outcome, of delivery: RegisteredPush, over routeSender: RouteSender, since began: Date,
    _ start: DeliveryStart
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
      recent.note(start.accepted(at: now(), registration, by: route.provider))
      decision.result = .delivered
    case .dead(let reason, let since):
      decision.result = verdict == .end ? .ended(reason) : .refused(reason)
      guard verdict == .end || verdict == .hold else { break }
      // FCM and push services mean the time of the request; APNs names a time.
      let by = since.map { min(began, max($0, registrations.believedSince)) } ?? began
      decision.death = Death(reason: reason, by: by, isHeldBack: verdict == .hold)
    case .suspect(let reason):
      decision.result = verdict == .end ? .ended(reason) : .refused(reason)
      if verdict == .end { decision.death = Death(reason: reason, by: began, isHeldBack: false) }
    case .rejected(let reason):
      decision.result = .refused(reason)
    case .retry(_, _, .process):
      // The provider may have accepted it, and there is no way to find out.
      break
    case .retry(_, let notBefore, let scope):
      let isOutage = route.provider == .apns && scope == .provider
      decision.leftover = Leftover(
        notBefore: notBefore, scope: scope, backoff: isOutage ? .outage : .outbox,
        triesInRequest: isOutage ? 2 : 3)
    case .misconfigured:
      // The operator has to fix this; an immediate retry would not help.
      decision.leftover = Leftover(notBefore: now() + 1, scope: .route)
    }
    return decision
  }
}

extension RegistrationReference.Kind {
  /// The group of tokens that such registrations have.
  var tokens: TokenGroup { TokenGroup(rawValue) }
}

extension Backoff {
  /// Pauses within a request, whose caller waits.
  static let inRequest = Backoff(first: 0.1, longest: 1)
  /// Pauses between tries from the outbox.
  static let outbox = Backoff(first: 2, longest: 300)
  /// Pauses between tries from the outbox while APNs is out of order. Apple asks for 15 minutes at once, by
  /// which time a chat message is of little use; so the pauses grow to 15 minutes.
  static let outage = Backoff(first: 15, longest: 900, shares: 1...1.2)

  /// When to try again after this number of tries, and not before the provider allows it.
  ///
  /// - Parameter random: from 0 to 1.
  func next(after tries: Int, now: Date, notBefore: Date?, random: Double) -> Date {
    let pause = pause(after: tries, random: random)
    return max(now + pause, (notBefore ?? now) + min(pause, first))
  }
}
