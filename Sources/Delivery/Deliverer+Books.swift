import Foundation
import Logging
import Providers
import Registrations
import SQL
import Sealing

/// What answers mean for the registrations.
extension Deliverer {
  /// Ends the registrations that have ended, keeps in mind which may have, and writes down what was refused. A
  /// registration that was made again meanwhile stays, and so does every one while the database cannot be written:
  /// the provider will say the same next time.
  func record(
    _ decisions: [Decision], on deliveries: [RegisteredPush], _ results: inout [DeliveryResult]
  ) async {
    var ending: [OutcomeRecorder.Failure] = []
    var refused: [OutcomeRecorder.Failure] = []
    var held: [(index: Int, death: OutcomeRecorder.Failure, reason: Reason, route: Route)] = []
    var living: [(registration: RegistrationReference, route: Route)] = []
    let mayHold = heldDeletions.mayHold
    for (index, delivery) in deliveries.enumerated() {
      let decision = decisions[index]
      if let death = decision.death {
        let failure = delivery.failure(death.reason, holdsBefore: death.by)
        if !death.isHeldBack {
          ending.append(failure)
        } else if let route = decision.route {
          held.append((index, failure, death.reason, route))
        }
      } else if mayHold, decision.result == .delivered, let route = decision.route {
        living.append((delivery.registration, route))
      }
      if case .refused(let reason) = results[index] { refused.append(delivery.failure(reason)) }
    }
    // Of push services, which strangers choose, the counts tell.
    let backlogged = zip(results, deliveries).count {
      $0 == .refused(.backlogged) && $1.push.provider != .webPush
    }
    if backlogged > 0 { lossLog.tellBacklog(backlogged, most: outbox.mostPerDevice, now: now()) }
    let losses = await losses(deliveries, results)
    var ended: Set<RegistrationReference> = []
    do {
      if !living.isEmpty { try await heldDeletions.release(living) }
      if !held.isEmpty {
        ended = try await heldDeletions.hold(held.map { ($0.death, $0.reason, $0.route) }, now: now())
        for (index, death, reason, _) in held where ended.contains(death.registration) {
          results[index] = .ended(reason)
        }
      }
      if !ending.isEmpty { ended.formUnion(try await registrations.end(ending)) }
      if !refused.isEmpty {
        try await registrations.note(refused)
        for failure in refused { history?.failed(failure.registration) }
      }
    } catch {
      logger.error(
        "registrations could not be updated", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
    for (index, delivery) in deliveries.enumerated() {
      switch results[index] {
      case .refused(let reason):
        if let loss = losses[index] { lossLog.tell("notification refused", loss, reason: "\(reason)") }
      case .ended(let reason) where ended.contains(delivery.registration):
        if let loss = losses[index] { lossLog.tell("registration ended", loss, reason: "\(reason)") }
        metrics.ended(delivery.registration.kind, reason)
      case .ended(let reason):
        // It was made again meanwhile, or cannot be ended now: it is this notification that is lost.
        results[index] = .refused(reason)
        if let loss = losses[index] { lossLog.tell("notification refused", loss, reason: "\(reason)") }
      case .delivered, .queued, .unconfigured: break
      }
    }
  }

  /// What of it is lost for good and may be told of, by index. What a backlog refused is told of together.
  private func losses(
    _ deliveries: [RegisteredPush], _ results: [DeliveryResult]
  ) async -> [Int: LossLog.Loss] {
    let lost = results.indices.filter {
      switch results[$0] {
      case .refused(.backlogged): false
      case .ended, .refused: true
      case .delivered, .queued, .unconfigured: false
      }
    }
    guard !lost.isEmpty else { return [:] }
    let losses = await lossLog.losses(
      lost.map { (deliveries[$0], providers.route(of: deliveries[$0].push)) }, now: now())
    return Dictionary(zip(lost, losses)) { $1 }
  }
}

extension RegisteredPush {
  fileprivate func failure(_ reason: Reason, holdsBefore time: Date? = nil) -> OutcomeRecorder.Failure {
    OutcomeRecorder.Failure(registration, reason: reason.description, holdsBefore: time)
  }
}
