package import Foundation
package import Logging
package import Metrics
package import Providers
package import Registrations
import Sealing
import Timing

/// Sends deliveries through their providers and does what the outcomes ask for: ends registrations,
/// tries again, and hands what is left to the outbox.
package final class Deliverer: Sendable {
  /// What it sends through.
  package let providers: PushProviders
  let registrations: OutcomeRecorder
  let outbox: Outbox
  /// Where is counted what becomes of notifications; nil: nowhere.
  package let history: History?
  private let deadline: Duration
  let now: @Sendable () -> Date
  let logger: Logger
  let lateAnswers = LateAnswers()
  let heldDeletions: HeldDeletions
  let lossLog: LossLog
  let metrics: DeliveryMetrics

  /// - Parameters:
  ///   - deadline: how long a batch may take, where its caller does not say.
  ///   - history: counts what becomes of notifications, for the operator.
  ///   - metrics: counts it for those who watch this process.
  package init(
    providers: PushProviders, registrations: OutcomeRecorder, outbox: Outbox, deadline: Duration,
    history: History? = nil, now: @escaping @Sendable () -> Date,
    metrics: any MetricsFactory = MetricsSystem.factory, logger: Logger
  ) {
    self.metrics = DeliveryMetrics(metrics)
    self.providers = providers
    self.registrations = registrations
    self.outbox = outbox
    self.deadline = deadline
    self.history = history
    self.now = now
    self.logger = logger
    lossLog = LossLog(registrations: registrations, logger: logger)
    heldDeletions = HeldDeletions(registrations: registrations, outbox: outbox, logger: logger)
  }

  /// Sends a batch and returns what became of each, in the same order, within `limit`. Every delivery has then
  /// been accepted, is in the outbox, or has an end that trying again would not change.
  ///
  /// What is at its provider by then goes on: its entry is under a lease, which its answer settles.
  ///
  /// - Parameter delay: how long ago they were asked for.
  /// - Throws: ``Outbox/Full`` or the database's error if leftovers could not be kept: nothing must be
  ///   promised then, and the whole may be sent again.
  package func deliver(
    _ deliveries: [RegisteredPush], after delay: Duration = .zero, within limit: Duration? = nil
  ) async throws -> [DeliveryResult] {
    let began = now()
    let decisions = await send(
      deliveries, since: began - delay / .seconds(1), within: limit ?? deadline, backoff: .inRequest)
    var leftovers: [(delivery: RegisteredPush, route: Route, dueAt: Date)] = []
    var late: [(index: Int, try: LateTry)] = []
    var results = decisions.map(\.result)
    for (delivery, decision) in zip(deliveries, decisions) {
      guard decision.result == .queued, let route = decision.route else { continue }
      if let answer = decision.answer {
        late.append((leftovers.count, LateTry(delivery: delivery, began: began, answer: answer)))
      }
      let dueAt = decision.leftover.map { self.dueAt($0, after: 1) } ?? now() + lease
      leftovers.append((delivery, route, dueAt))
    }
    do {
      let kept = leftovers.isEmpty ? [] : try await outbox.keep(leftovers)
      for (index, late) in late { settle(late, under: kept[index]) }
      for (lease, index) in zip(kept, results.indices.filter { results[$0] == .queued }) where lease == nil {
        results[index] = .refused(.backlogged)
        if let route = decisions[index].route { history?.count(.refused(route, .backlogged)) }
      }
    } catch {
      for (_, late) in late { settle(late, under: nil) }
      throw error
    }
    await record(decisions, on: deliveries, &results)
    return results
  }

  /// Drops what waits for registrations and has become worthless; what is at its provider may still arrive.
  ///
  /// - Parameter collapseIDs: of what goes; nil: everything.
  package func withdraw(_ collapseIDs: [String]?, from registrations: [RegistrationReference]) async throws {
    try await outbox.withdraw(collapseIDs, from: registrations)
  }

  /// The registrations among those of `deliveries` that have not ended.
  func living(_ deliveries: [RegisteredPush]) async throws -> Set<Int64> {
    try await registrations.living(deliveries.map(\.registration))
  }

  /// What the deletion guard doubts now, of the present credentials.
  package func doubts() -> [Doubt] {
    let routeSenders = providers.routeSenders
    var doubts = (routeSenders + providers.webPushSenders).flatMap { routeSender in
      RegistrationReference.Kind.allCases.compactMap { kind in
        routeSender.doubt(of: kind.tokens).map {
          Doubt(route: routeSender.route, kind: kind, reason: $0.reason, since: $0.since)
        }
      }
    }
    let routes = Set(routeSenders.map(\.route))
    let hasHosts = providers.vapidPublicKey != nil
    let held = heldDeletions.doubts.filter { held in
      held.route.provider == .webPush ? hasHosts : routes.contains(held.route)
    }
    guard !held.isEmpty else { return doubts }
    let indices = Dictionary(doubts.indices.map { (doubts[$0].subject, $0) }) { $1 }
    for held in held {
      if let index = indices[held.subject] {
        doubts[index].held = held.held
      } else {
        doubts.append(held)
      }
    }
    return doubts
  }

  /// Where deaths are held back, by route and kind, for credentials that are gone too.
  package var held: [Doubt] { heldDeletions.doubts }

  /// Counts again and again what is held back, whichever node holds it, until the task is cancelled.
  package func followHeldDeletions() async {
    await heldDeletions.run()
  }

  /// The state of each route of APNs and FCM: what the provider's side reports, and whether the deletion guard doubts
  /// it. Doubts about a kind whose devices anybody may register are not the route's: ``doubts()`` tells them, and those
  /// about push services.
  package func routeStates() -> [Route: PushProviders.RouteState] {
    var states = providers.routeStates()
    for doubt in doubts() where doubt.kind != .nextcloud && doubt.route.provider != .webPush {
      switch states[doubt.route] {
      case .failing, .open: break
      case .unknown, .ok, nil: states[doubt.route] = .failing(doubt.reason, since: doubt.since)
      }
    }
    return states
  }
}

extension Deliverer {
  /// What an outcome means for a notification and its registration.
  struct Decision: Sendable {
    /// What it comes to for whoever waits.
    var result: DeliveryResult
    /// The route that it went over, or waits for; nil where no credential serves it.
    var route: Route?
    /// The provider calls the token dead.
    var death: Death?
    /// What is queued and not at its provider.
    var leftover: Leftover?
    /// The answer that is still to come for what is queued and at its provider; nil where nobody will hear it.
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

  /// - Parameters:
  ///   - began: when whoever waits began to.
  ///   - backoff: for more than one try; nil where nobody waits.
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
    history?.tried(outcome, of: registration, on: route, since: delivery.promisedAt ?? began)
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
    func ended(_ reason: Reason, by time: Date) -> Decision {
      Decision(
        result: .ended(reason), route: route, death: Death(reason: reason, by: time, isHeldBack: false))
    }
    func refused(_ reason: Reason) -> Decision { Decision(result: .refused(reason), route: route) }
    func queued(_ leftover: Leftover?) -> Decision {
      Decision(result: .queued, route: route, leftover: leftover)
    }
    switch outcome {
    case .delivered:
      metrics.accepted(route.provider, after: now().timeIntervalSince(delivery.promisedAt ?? began))
      return Decision(result: .delivered, route: route)
    case .dead(let reason, let since):
      // FCM and push services speak of when they were asked, APNs of a time that it names.
      let time = since.map { min(began, max($0, registrations.believedSince)) } ?? began
      switch verdict {
      case .hold:
        var decision = refused(reason)
        decision.death = Death(reason: reason, by: time, isHeldBack: true)
        return decision
      case .end: return ended(reason, by: time)
      case .keep, .doubtRoute: return refused(reason)
      }
    case .suspect(let reason):
      return verdict == .end ? ended(reason, by: began) : refused(reason)
    case .rejected(let reason):
      return refused(reason)
    case .retry(_, _, .process):
      // It may have been taken, and nobody will know.
      return queued(nil)
    case .retry(_, let notBefore, let scope):
      var leftover = Leftover(notBefore: notBefore, scope: scope)
      if route.provider == .apns, scope == .provider {
        (leftover.backoff, leftover.triesInRequest) = (.outage, 2)
      }
      return queued(leftover)
    case .misconfigured:
      // Mended by the operator, not by trying at once.
      return queued(Leftover(notBefore: now() + 1, scope: .route))
    }
  }
}

extension RegistrationReference.Kind {
  /// The tokens of such registrations.
  fileprivate var tokens: TokenGroup { TokenGroup(rawValue) }
}
