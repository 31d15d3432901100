import Foundation
import HTTPClient
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
    /// The environment of APNs that the answer came from, or that does not answer; nil for other providers.
    var environment: APNsCredential.Environment?
    /// Whether that environment is to be asked first from now on.
    var isFound = false
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
    /// Why it was not accepted.
    let reason: Reason
    /// When to try again from the outbox.
    var backoff = Backoff.outbox
    /// Limit of tries within a request; more would only delay its caller.
    var triesInRequest = 3
    /// Whether the provider may have it, and would not know it again.
    var isInDoubt = false

    var wait: RegisteredPush.Wait {
      .init(reason: reason, isOwn: scope == .token, doubts: isInDoubt ? 1 : 0)
    }
  }

  /// The answer of the environment of APNs that was asked first and does not know the token, or the key. It is
  /// acted on only if the other environment says the same: until then, nothing is wrong with the token.
  struct Refusal: Sendable {
    let outcome: Outcome
    let over: RouteSender
  }

  /// An answer that is still outstanding.
  struct LateAnswer: Sendable {
    let over: RouteSender
    var refusal: Refusal?
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
    if deliveries.count == 1 { return await send(deliveries, since: began, by: deadline, backoff) }
    let parcels = parcels(of: deliveries)
    return await withTaskGroup(of: ([Int], [Decision]).self) { group in
      func add(_ parcel: [Int]) {
        group.addImmediateTask {
          (parcel, await self.send(parcel.map { deliveries[$0] }, since: began, by: deadline, backoff))
        }
      }
      let atOnce = backoff == nil ? parcels.count : Self.mostAtOnce
      parcels.prefix(atOnce).forEach(add)
      var rest = parcels.dropFirst(atOnce)
      var decisions = [Decision](
        repeating: Decision(result: .refused(.unconfigured)), count: deliveries.count)
      for await (parcel, decided) in group {
        for (index, decision) in zip(parcel, decided) { decisions[index] = decision }
        if let next = rest.popFirst() { add(next) }
      }
      return decisions
    }
  }

  /// The most requests to providers that a caller has under way for one call: others' would wait for a thousand.
  private static let mostAtOnce = 100

  /// The deliveries by their indices, those together that go in one request: what is for another bouncer.
  private func parcels(of deliveries: [RegisteredPush]) -> [[Int]] {
    struct Key: Hashable {
      let owner: Owner
      let call: UpstreamPush.Call
    }
    var parcels: [[Int]] = []
    var open: [Key: Int] = [:]
    for (index, delivery) in deliveries.enumerated() {
      guard case .upstream(let push) = delivery.push, delivery.notBefore ?? .distantPast <= now() else {
        parcels.append([index])
        continue
      }
      let key = Key(owner: delivery.owner, call: push.call)
      if let place = open[key], parcels[place].count < UpstreamPush.mostItems {
        parcels[place].append(index)
      } else {
        open[key] = parcels.count
        parcels.append([index])
      }
    }
    return parcels
  }

  /// Tries a parcel until there is a final outcome, the tries are used up, or the deadline passes.
  private func send(
    _ parcel: [RegisteredPush], since began: Date, by deadline: ContinuousClock.Instant, _ backoff: Backoff?
  ) async -> [Decision] {
    var latest: [Decision]?
    var tries = 0
    let (delivery, push) = (parcel[0], parcel.dropFirst().reduce(parcel[0].push) { $0.merged(with: $1.push) })
    func all(_ decision: Decision) -> [Decision] { parcel.map { _ in decision } }
    let handedOver = now()
    while true {
      // Looked up for each try: the credential may have been replaced meanwhile.
      guard let routeSender = providers.routeSender(for: push) else {
        return latest ?? all(Decision(result: .refused(.unconfigured)))
      }
      if let notBefore = delivery.notBefore, notBefore > now() {
        return all(
          Decision(
            result: .queued, route: routeSender.route,
            leftover: Leftover(notBefore: notBefore, scope: .token, reason: .serverOverPace)))
      }
      let (sent, device) = (now(), delivery.pacedDevice)
      if let device, let time = pace.admit(device, isBackground: delivery.isBackground, now: sent) {
        return all(
          Decision(
            result: .queued, route: routeSender.route,
            leftover: Leftover(notBefore: time, scope: .token, reason: .deviceOverPace, backoff: .pace)))
      }
      tries += 1
      let starts = parcel.map {
        DeliveryStart(
          takenAt: $0.promisedAt ?? began, handedOver: $0.promisedAt == nil ? handedOver : nil, sent: sent)
      }
      let other = providers.otherSender(for: push, than: routeSender)
      var (over, refusal) = (routeSender, nil as Refusal?)
      var answer = await routeSender.attempt(
        push, of: delivery.owner, deadline: deadline, isPatient: backoff == nil, isFirst: other != nil)
      if let other, case .ended(let outcome) = answer, outcome.concernsEnvironment {
        (over, refusal) = (other, Refusal(outcome: outcome, over: routeSender))
        answer = await other.attempt(
          push, of: delivery.owner, deadline: deadline, isPatient: backoff == nil)
      }
      let decisions: [Decision]
      switch answer {
      case .ended(let outcome):
        if let device, outcome.isUncounted { pace.takeBack(device, admitted: sent) }
        let outcomes = push.outcomes(await unlessTooEarly(outcome, for: delivery), of: parcel)
        decisions = parcel.indices.map {
          judge(outcomes[$0], of: parcel[$0], over: over, after: refusal, since: began, starts[$0])
        }
      case .underWay(let answer):
        let outcomes = Task { push.outcomes(await answer(), of: parcel) }
        return parcel.indices.map { [over, refusal] index in
          Decision(
            result: .queued, route: routeSender.route,
            answer: LateAnswer(over: over, refusal: refusal, start: starts[index]) {
              await outcomes.value[index]
            })
        }
      }
      // What is sent in one request is tried again together.
      guard let leftover = decisions[0].leftover, let backoff, tries < leftover.triesInRequest,
        leftover.notBefore == nil
      else { return decisions }
      let pause = Duration.seconds(backoff.pause(after: tries))
      guard ContinuousClock.now + pause < deadline else { return decisions }
      latest = decisions
      // If the task is cancelled, the next try ends at once and reports that.
      try? await Task.sleep(for: pause)
    }
  }

  /// Decides what an outcome means for the notification and its registration.
  ///
  /// - Parameters:
  ///   - refusal: what the environment of APNs said that was asked before.
  ///   - began: when the notification was requested, unless it comes from the outbox.
  func judge(
    _ outcome: Outcome, of delivery: RegisteredPush, over routeSender: RouteSender, after refusal: Refusal?,
    since began: Date, _ start: DeliveryStart
  ) -> Decision {
    guard let refusal else { return judge(outcome, of: delivery, over: routeSender, since: began, start) }
    var decision: Decision
    if outcome.concernsEnvironment {
      if case .misconfigured = refusal.outcome {
        refusal.over.blame(refusal.outcome, for: delivery.push, of: delivery.owner)
      }
      let isUnjudged = if case .suspect = refusal.outcome { outcome != refusal.outcome } else { false }
      // A token that a key could not ask about may be good.
      let (said, over) = isUnjudged ? (outcome, routeSender) : (refusal.outcome, refusal.over)
      decision = judge(said, of: delivery, over: over, since: began, start)
    } else {
      decision = judge(outcome, of: delivery, over: routeSender, since: began, start)
      decision.isFound = decision.result == .delivered
    }
    // It waits where it is asked for first.
    if decision.result == .queued { decision.route = refusal.over.route }
    return decision
  }

  private func judge(
    _ outcome: Outcome, of delivery: RegisteredPush, over routeSender: RouteSender, since began: Date,
    _ start: DeliveryStart
  ) -> Decision {
    let (route, registration) = (routeSender.route, delivery.registration)
    let promisedAt = delivery.promisedAt ?? began
    history?.tried(outcome, of: registration, on: route, since: promisedAt)
    if case .suspect(let reason) = outcome, reason == .fcmSenderIDMismatch, delivery.mayBeUpstreams {
      // Not our token: says nothing about our credential, and ends nothing.
      return Decision(result: .refused(reason), route: route)
    }
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
    var decision = Decision(result: .queued, route: route, environment: routeSender.environment)
    switch outcome {
    case .delivered, .passedOn:
      metrics.accepted(route.provider, after: now().timeIntervalSince(promisedAt))
      recent.note(start.accepted(at: now(), registration, by: route.provider))
      decision.result = outcome == .delivered ? .delivered : .passedOn
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
    case .retry(let reason, let notBefore, let scope):
      let isOutage = route.provider == .apns && scope == .provider
      var leftover = Leftover(
        notBefore: notBefore, scope: scope, reason: reason, backoff: isOutage ? .outage : .outbox,
        triesInRequest: isOutage ? 2 : 3)
      if outcome.isInDoubt, !delivery.push.isRecognizedAgain {
        (leftover.isInDoubt, leftover.triesInRequest) = (true, 1)
      }
      // It passes at once, when the operator or the chat server has acted.
      if reason.concernsUpstreamAccess { leftover.backoff = .unserved }
      decision.leftover = leftover
    case .misconfigured(let reason):
      // The operator has to fix this; an immediate retry would not help.
      decision.leftover = Leftover(notBefore: now() + 1, scope: .route, reason: reason)
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
  /// Pauses before a notification is sent again that the provider may have, and would not know again: each may ring a
  /// phone once more.
  static func inDoubt(_ doubts: Int, random: Double = .random(in: 0...1)) -> TimeInterval {
    let pauses: [TimeInterval] = [60, 300, 900, 3600]
    return pauses[min(max(doubts, 1), pauses.count) - 1] * (1 + random / 10)
  }

  /// No pause beyond the time from which a device's pace allows the next try.
  static let pace = Backoff(first: 0, longest: 0)
  /// Pauses between tries from the outbox while no credential serves the target. A try costs little, and the operator
  /// who adds a key sees soon that it works.
  static let unserved = Backoff(first: 5, longest: 30)

  /// When to try again after this number of tries, and not before the provider allows it.
  ///
  /// - Parameter random: from 0 to 1.
  func next(after tries: Int, now: Date, notBefore: Date?, random: Double) -> Date {
    let pause = pause(after: tries, random: random)
    return max(now + pause, (notBefore ?? now) + min(pause, first))
  }
}

extension Push {
  /// This push and another one that goes in the same request.
  fileprivate func merged(with other: Push) -> Push {
    guard case .upstream(var push) = self, case .upstream(let other) = other else { return self }
    push.merge(other)
    return .upstream(push)
  }

  /// What a request's outcome is for each of its deliveries.
  fileprivate func outcomes(_ outcome: Outcome, of parcel: [RegisteredPush]) -> [Outcome] {
    guard case .upstream(let push) = self, case .passedOn(let receipt) = outcome else {
      return parcel.map { _ in outcome }
    }
    let outcomes = receipt.outcomes(of: push)
    return parcel.map { outcomes[$0.registration.id] ?? outcome }
  }
}
