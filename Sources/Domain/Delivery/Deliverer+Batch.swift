import Basics
import Foundation
import HTTPClient
import NIOCore
import Providers
import Registrations

extension Deliverer {
  /// Tries a batch until there is a final answer, the tries are used up, or the deadline passes.
  ///
  /// - Parameter deliveries: what goes in one request: one push to the recipients of all.
  func sendRequest(
    _ deliveries: [RegisteredPush], since began: Date, by deadline: NIODeadline,
    _ backoff: Backoff?
  ) async -> [Decision] {
    let batch = Batch(
      deliveries, began: began, handedOver: now(), deadline: deadline, isPatient: backoff == nil)
    var latest: [Decision]?
    var tries = 0
    // Looked up for each try: the credential may have been replaced meanwhile.
    while let sender = providers.routeSender(for: batch.push) {
      if let waiting = waiting(batch, for: sender) { return waiting }
      let decisions = await attempt(batch, over: sender)
      tries += 1
      guard let pause = backoff.flatMap({ self.pause(after: tries, decisions, deadline, $0) }) else {
        return decisions
      }
      latest = decisions
      // If the task is cancelled, the next try ends at once and reports that.
      try? await Task.sleep(for: pause)
    }
    return latest ?? batch.unserved()
  }

  /// The pause before a batch is tried again within its request; nil if it is not. What is sent in one request is tried again
  /// together.
  // Not inlined, like others here: it would add to the memory of its caller's task (`Documentation/Decisions` 0023).
  @inline(never) private func pause(
    after tries: Int, _ decisions: [Decision], _ deadline: NIODeadline, _ backoff: Backoff
  ) -> Duration? {
    guard let retry = decisions[0].retry, retry.notBefore == nil, tries < retry.triesInRequest else {
      return nil
    }
    let pause = Duration.seconds(backoff.pause(after: tries))
    return .now() + TimeAmount(pause) < deadline ? pause : nil
  }

  /// What goes to a provider in one request. A class, because each step of a task that has it would have a copy otherwise.
  private final class Batch: Sendable {
    let deliveries: [RegisteredPush]
    let push: Push
    let began: Date
    let handedOver: Date
    let waitsSince = NIODeadline.now()
    let deadline: NIODeadline
    let isPatient: Bool

    init(
      _ deliveries: [RegisteredPush], began: Date, handedOver: Date, deadline: NIODeadline,
      isPatient: Bool
    ) {
      self.deliveries = deliveries
      push = deliveries.dropFirst().reduce(deliveries[0].push) { $0.merged(with: $1.push) }
      self.began = began
      self.handedOver = handedOver
      self.deadline = deadline
      self.isPatient = isPatient
    }

    var owner: Owner { deliveries[0].owner }

    func all(_ decision: Decision) -> [Decision] { deliveries.map { _ in decision } }

    /// The decisions where no credential serves it.
    @inline(never) func unserved() -> [Decision] { all(Decision(result: .refused(.unconfigured))) }

    func start(of delivery: RegisteredPush, at sent: Date) -> DeliveryStart {
      DeliveryStart(
        began: began, takenAt: delivery.promisedAt ?? began,
        handedOver: delivery.promisedAt == nil ? handedOver : nil, sent: sent)
    }

    /// An answer for each delivery; nil if this one is for all.
    func answers(_ answer: RouteSender.Answer) -> [RouteSender.Answer]? {
      push.outcomes(answer.outcome, of: deliveries.map(\.registration.id))?.map(answer.with)
    }
  }

  /// The decisions to wait, if a batch's chat server or its device is over its pace; else it is counted as sent to the device.
  @inline(never) private func waiting(_ batch: Batch, for sender: RouteSender) -> [Decision]? {
    func decisions(until time: Date, _ reason: Reason, _ backoff: Backoff) -> [Decision] {
      batch.all(
        Decision(
          result: .queued, route: sender.route,
          retry: Retry(notBefore: time, scope: .token, reason: reason, backoff: backoff)))
    }
    let delivery = batch.deliveries[0]
    if let notBefore = delivery.notBefore, notBefore > now() {
      return decisions(until: notBefore, .serverOverPace, .outbox)
    }
    return delivery.paceClaim.flatMap { pace.admit($0, now: now()) }
      .map { decisions(until: $0, .deviceOverPace, .pace) }
  }

  /// Sends a batch once: if APNs' one environment does not know the token, to the other one, too.
  private func attempt(_ batch: Batch, over sender: RouteSender) async -> [Decision] {
    let sent = now()
    let other = providers.otherSender(for: batch.push, than: sender)
    var answer = await sender.attempt(
      batch.push, of: batch.owner, since: batch.waitsSince, deadline: batch.deadline,
      isPatient: batch.isPatient, isFirst: other != nil)
    if let other, case .ended(let first) = answer, first.outcome.concernsEnvironment {
      answer = await other.attempt(
        batch.push, of: batch.owner, since: batch.waitsSince, deadline: batch.deadline,
        isPatient: batch.isPatient, after: first)
    }
    switch answer {
    case .ended(let answer):
      if answer.outcome.isUncounted { giveBackPace(of: batch) }
      // Only a push that is alone in its request is to an installation.
      let isUnknownYet = await isUnknownYet(batch.deliveries[0], answer.outcome)
      return decide(on: answer, for: batch, sent, isUnknownYet: isUnknownYet)
    case .underWay(let answer): return late(answer, of: batch, over: sender.route, sent)
    }
  }

  @inline(never) private func decide(
    on answer: RouteSender.Answer, for batch: Batch, _ sent: Date, isUnknownYet: Bool
  ) -> [Decision] {
    let answers = batch.answers(answer)
    return batch.deliveries.enumerated().map { index, delivery in
      decide(
        on: answers?[index] ?? answer, for: delivery, batch.start(of: delivery, at: sent),
        isUnknownYet: isUnknownYet)
    }
  }

  private func giveBackPace(of batch: Batch) {
    if let claim = batch.deliveries[0].paceClaim { pace.giveBack(claim, now: now()) }
  }

  /// The decisions about what is under way.
  @inline(never) private func late(
    _ answer: @escaping @Sendable () async -> RouteSender.Answer, of batch: Batch, over route: Route,
    _ sent: Date
  ) -> [Decision] {
    let answers = Task {
      let answer = await answer()
      return batch.answers(answer) ?? batch.deliveries.map { _ in answer }
    }
    return batch.deliveries.enumerated().map { index, delivery in
      Decision(
        result: .queued, route: route,
        late: (start: batch.start(of: delivery, at: sent), answer: { await answers.value[index] }))
    }
  }
}
