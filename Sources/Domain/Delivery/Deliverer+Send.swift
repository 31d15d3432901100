import Basics
import Foundation
import HTTPClient
import Logging
import NIOCore
import Providers
import Registrations

extension Deliverer {
  /// The meaning of a provider's answer for a notification and its registration.
  struct Decision: Sendable {
    var result: DeliveryResult
    /// The route that it was sent over or waits for; nil if no credential serves it.
    var route: Route?
    /// The decision about the token.
    var verdict = DeletionPolicy.Verdict.keep
    /// Set if the notification is queued and not under way at its provider.
    var retry: Retry?
    /// Set if the notification is under way and its answer outstanding.
    var late: (start: DeliveryStart, answer: @Sendable () async -> RouteSender.Answer)?
    /// The environment of APNs that was asked last; nil for other providers.
    var environment: APNsCredential.Environment?
    /// Whether that environment is to be asked first from now on.
    var isFound = false
  }

  /// The next try of a notification that no provider has accepted.
  struct Retry: Sendable {
    let notBefore: Date?
    let scope: Outcome.Scope
    /// The reason why it was not accepted.
    let reason: Reason
    /// The reason why it waits: where nothing was sent, that of its route.
    var shownReason: Reason
    /// The pauses between tries from the outbox.
    var backoff: Backoff
    /// Maximum number of tries within a request; more would only delay its caller.
    var triesInRequest = 3
    /// Whether the provider may have the notification, and would not recognize a second one as the same.
    var isInDoubt = false

    init(
      notBefore: Date?, scope: Outcome.Scope, reason: Reason, because shownReason: Reason? = nil,
      backoff: Backoff = .outbox
    ) {
      self.notBefore = notBefore
      self.scope = scope
      self.reason = reason
      self.shownReason = shownReason ?? reason
      self.backoff = backoff
    }

    var wait: RegisteredPush.WaitReason {
      .init(reason: shownReason, isOwn: scope == .token, doubts: isInDoubt ? 1 : 0)
    }
  }

  /// Sends deliveries, several in one request where a provider allows that, and decides what the answers mean.
  ///
  /// - Parameters:
  ///   - began: the time at which the caller began to wait.
  ///   - backoff: the pauses between tries; nil for a single try, if no caller waits.
  func sendInRequests(
    _ deliveries: [RegisteredPush], since began: Date, within timeout: Duration, backoff: Backoff?
  ) async -> [Decision] {
    let deadline = NIODeadline.now() + TimeAmount(timeout)
    // One delivery needs no task of its own; most notifications are for one or two devices.
    if deliveries.count == 1 { return await sendRequest(deliveries, since: began, by: deadline, backoff) }
    let batches = requestBatches(of: deliveries)
    return await withTaskGroup(of: ([Int], [Decision]).self) { group in
      func add(_ batch: [Int]) {
        group.addImmediateTask {
          (batch, await self.sendRequest(batch.map { deliveries[$0] }, since: began, by: deadline, backoff))
        }
      }
      let atOnce = backoff == nil ? batches.count : Self.mostAtOnce
      batches.prefix(atOnce).forEach(add)
      var rest = batches.dropFirst(atOnce)
      var decisions = [Decision](
        repeating: Decision(result: .refused(.unconfigured)), count: deliveries.count)
      for await (batch, decided) in group {
        for (index, decision) in zip(batch, decided) { decisions[index] = decision }
        if let next = rest.popFirst() { add(next) }
      }
      return decisions
    }
  }

  /// Maximum number of requests to providers under way for one call, so that a long call does not make others wait.
  private static let mostAtOnce = 100

  /// The indices of the deliveries, grouped by request.
  private func requestBatches(of deliveries: [RegisteredPush]) -> [[Int]] {
    struct Key: Hashable {
      let owner: Owner
      let request: Push.RequestKey
    }
    var batches: [[Int]] = []
    var open: [Key: Int] = [:]
    for (index, delivery) in deliveries.enumerated() {
      guard let request = delivery.push.requestKey, delivery.notBefore ?? .distantPast <= now() else {
        batches.append([index])
        continue
      }
      let key = Key(owner: delivery.owner, request: request)
      if let place = open[key], batches[place].count < Push.maximumPerRequest {
        batches[place].append(index)
      } else {
        open[key] = batches.count
        batches.append([index])
      }
    }
    return batches
  }

  /// Decides what an answer means for the notification and its registration.
  func decide(
    on answer: RouteSender.Answer, for delivery: RegisteredPush, _ start: DeliveryStart
  ) async -> Decision {
    let isUnknownYet = await isUnknownYet(delivery, answer.outcome)
    return decide(on: answer, for: delivery, start, isUnknownYet: isUnknownYet)
  }

  /// Whether the outcome is that of an installation that the provider may not know yet.
  func isUnknownYet(_ delivery: RegisteredPush, _ outcome: Outcome) async -> Bool {
    delivery.push.isOfUnknownInstallation(outcome) ? await holdsUnknown(delivery) : false
  }

  // Not inlined: it would add to the memory of its caller's task (`Documentation/Decisions` 0023).
  @inline(never) func decide(
    on answer: RouteSender.Answer, for delivery: RegisteredPush, _ start: DeliveryStart, isUnknownYet: Bool
  ) -> Decision {
    let route = answer.sender.route
    let verdict = verdict(on: answer, for: delivery, start, isUnknownYet: isUnknownYet)
    let result: DeliveryResult
    var retry: Retry?
    switch verdict {
    case .end(let reason, _): result = .ended(reason)
    case .hold(let reason, _), .doubtRoute(let reason), .renewed(let reason), .giveUp(let reason):
      result = .refused(reason)
    case .pause(let reason, let time):
      result = .queued
      retry = self.retry(because: reason, notBefore: time, .token, after: answer, delivery)
    case .keep:
      switch answer.outcome {
      case .delivered: result = .delivered
      case .passedOn: result = .passedOn
      case .dead(let reason, _), .suspect(let reason), .rejected(let reason): result = .refused(reason)
      // The provider may have accepted it, and there is no way to find out.
      case .retry(_, _, .process): result = .queued
      case .retry(let reason, let notBefore, let scope):
        result = .queued
        retry = self.retry(because: reason, notBefore: notBefore, scope, after: answer, delivery)
      case .misconfigured(let reason):
        result = .queued
        // The operator has to fix this; an immediate retry would not help.
        retry = Retry(notBefore: now() + 1, scope: .route, reason: reason)
      }
    }
    history?.countAttempt(
      result, waitsFor: retry?.reason, of: delivery.registration, on: route, since: start.takenAt)
    if result == .delivered || result == .passedOn {
      metrics.accepted(route.provider, after: now().timeIntervalSince(start.takenAt))
      recent.add(start.accepted(at: now(), delivery.registration, by: route.provider))
    }
    return Decision(
      result: result,
      // A queued notification waits at the environment that is asked first.
      route: result == .queued ? answer.first?.route ?? route : route,
      verdict: verdict, retry: retry, environment: answer.sender.environment,
      isFound: answer.first != nil && result == .delivered)
  }

  /// Asks the policy what an answer means for the token, counts that, and logs when a doubt begins or ends.
  private func verdict(
    on answer: RouteSender.Answer, for delivery: RegisteredPush, _ start: DeliveryStart, isUnknownYet: Bool
  ) -> DeletionPolicy.Verdict {
    let registration = delivery.registration
    let policy = DeletionPolicy(
      registration: registration, owner: delivery.owner, requestedAt: start.began,
      believedSince: registrations.believedSince,
      movesOnMismatch: delivery.movesOnMismatch,
      isUnknownYet: isUnknownYet)
    let now = now()
    let (verdict, before, after) = answer.sender.weigh(among: registration.wire.tokens) { evidence in
      let before = evidence.doubt
      let verdict = policy.verdict(on: answer.outcome, answer.pause, evidence: &evidence, now: now)
      return (verdict, before, evidence.doubt)
    }
    metrics.count(verdict, answer.sender.route.provider)
    if (before == nil) != (after == nil) { logDoubt(after, of: registration.wire, on: answer.sender.route) }
    return verdict
  }

  private func logDoubt(_ doubt: DeletionGuard.Doubt?, of wire: Wire, on route: Route) {
    let metadata: Logger.Metadata = ["route": "\(route)", "kind": "\(wire)"]
    if let doubt {
      logger.warning(
        "the provider refuses too many tokens: their registrations stay",
        metadata: metadata.merging(["reason": "\(doubt.reason)"]) { $1 })
    } else {
      logger.notice("the provider accepts tokens again", metadata: metadata)
    }
  }

  /// The next try after an answer that allows one.
  private func retry(
    because reason: Reason, notBefore: Date?, _ scope: Outcome.Scope, after answer: RouteSender.Answer,
    _ delivery: RegisteredPush
  ) -> Retry {
    var retry = Retry(
      notBefore: notBefore, scope: scope, reason: reason,
      because: reason == .breakerOpen ? answer.sender.state.failure?.reason : nil)
    if scope == .provider, answer.sender.route.provider.definition.asksForLongPauses {
      retry.backoff = .outage
      retry.triesInRequest = 2
    }
    if answer.outcome.isInDoubt, !delivery.push.isRecognizedAgain {
      retry.isInDoubt = true
      retry.triesInRequest = 1
    }
    // A missing or refused credential works as soon as the operator or the chat server has acted.
    if reason.concernsAccess { retry.backoff = .unserved }
    return retry
  }
}

extension Wire {
  /// The group of tokens that registrations of this kind have.
  var tokens: TokenGroup { TokenGroup(rawValue) }
}

extension Backoff {
  /// Pauses within a request, whose caller waits.
  static let inRequest = Backoff(first: 0.1, longest: 1)
  /// Pauses between tries from the outbox.
  static let outbox = Backoff(first: 2, longest: 300)
  /// Pauses between tries from the outbox while a provider is out of order that asks for 15 minutes at once, by
  /// which time a chat message is of little use; so the pauses grow to 15 minutes.
  static let outage = Backoff(first: 15, longest: 900, shares: 1...1.2)
  /// Pause in seconds before a notification is sent again that the provider may have already: each try may ring the phone
  /// once more.
  static func inDoubt(_ doubts: Int, random: Double = .random(in: 0...1)) -> TimeInterval {
    let pauses: [TimeInterval] = [60, 300, 900, 3600]
    return pauses[min(max(doubts, 1), pauses.count) - 1] * (1 + random / 10)
  }

  /// No pause beyond the time from which a device's pace allows the next try.
  static let pace = Backoff(first: 0, longest: 0)
  /// Pauses between tries from the outbox while no credential serves the target. They are short: a try costs little, and
  /// the operator who adds a key soon sees that it works.
  static let unserved = Backoff(first: 5, longest: 30)

  /// The time of the next try after this number of tries, not before the provider allows it.
  ///
  /// - Parameter random: a number from 0 to 1.
  func next(after tries: Int, now: Date, notBefore: Date?, random: Double) -> Date {
    let pause = pause(after: tries, random: random)
    return max(now + pause, (notBefore ?? now) + min(pause, first))
  }
}
