import Foundation
import Logging
import Metrics
import Providers
import Registrations
import SQL

extension Deliverer {
  /// Ends registrations whose tokens are dead, holds back deletions that are not believed yet, and records
  /// refusals. A registration that was renewed meanwhile stays. If the database cannot be written, all
  /// registrations stay: the provider will give the same answer next time.
  func record(_ decisions: [Decision], on deliveries: [RegisteredPush]) async -> [DeliveryResult] {
    var results = decisions.map(\.result)
    var ending: [RegistrationStore.Failure] = []
    var refused: [RegistrationStore.Failure] = []
    var held: [(index: Int, deletion: HeldDeletions.Deletion)] = []
    var living: [RegistrationReference] = []
    var found: [RegistrationReference: APNsCredential.Environment] = [:]
    let mayHold = heldDeletions.mayHold
    let moved = await moved(decisions, deliveries)
    for (decision, (index, delivery)) in zip(decisions, deliveries.enumerated()) {
      if moved.contains(delivery.registration) {
        results[index] = .refused(.fcmSenderIDMismatch)
        continue
      }
      if decision.isFound { found[delivery.registration] = decision.environment }
      switch decision.verdict {
      case .end(let reason, let time):
        ending.append(
          RegistrationStore.Failure(delivery.registration, reason: reason.description, holdsBefore: time))
      case .hold(let reason, let time):
        guard let route = decision.route else { break }
        let failure = RegistrationStore.Failure(
          delivery.registration, reason: reason.description, holdsBefore: time)
        held.append((index, (failure, reason, route)))
      case .keep where mayHold && (decision.result == .delivered || decision.result == .passedOn):
        living.append(delivery.registration)
      case .keep, .doubtRoute, .renewed, .pause, .giveUp: break
      }
      if case .refused(let reason) = decision.result {
        refused.append(RegistrationStore.Failure(delivery.registration, reason: reason.description))
      }
    }
    await relay?.record(decisions.map(\.result), of: deliveries)
    logBacklog(decisions, results, deliveries)
    let lost = results.indices.filter { results[$0].isLoss }
    let servers = await hostnames(of: lost.map { deliveries[$0] }, within: .losses)
    var ended: Set<RegistrationReference> = []
    do {
      if !found.isEmpty { try await registrations.recordEnvironments(found) }
      if !living.isEmpty { _ = try await registrations.release(living) }
      if !held.isEmpty {
        ended = try await heldDeletions.hold(held.map(\.deletion), now: now())
        for (index, deletion) in held where ended.contains(deletion.failure.registration) {
          results[index] = .ended(deletion.reason)
        }
      }
      if !ending.isEmpty { ended.formUnion(try await registrations.end(ending)) }
      if !refused.isEmpty {
        try await registrations.recordFailures(refused)
        for failure in refused { history?.recordFailure(failure.registration) }
      }
    } catch {
      logger.error(
        "registrations could not be updated", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
    for (index, delivery) in deliveries.enumerated() {
      if case .ended(let reason) = results[index] {
        if ended.contains(delivery.registration) {
          metrics.ended(delivery.registration.wire, reason)
        } else {
          // The registration was renewed meanwhile, or cannot be ended now: only this notification is lost.
          results[index] = .refused(reason)
        }
      }
      // The notification is passed on now, so nothing is lost.
      let isPassedOn = delivery.movesOnMismatch && moved.contains(delivery.registration)
      guard results[index].isLoss, !isPassedOn else { continue }
      switch results[index] {
      case .refused(let reason): logLoss("notification refused", delivery, reason, servers)
      case .ended(let reason): logLoss("registration ended", delivery, reason, servers)
      case .delivered, .passedOn, .queued: break
      }
    }
    return results
  }

  /// Logs refusals because of a backlog, except for push services: those are only counted, since anybody can name a push
  /// service.
  private func logBacklog(
    _ decisions: [Decision], _ results: [DeliveryResult], _ deliveries: [RegisteredPush]
  ) {
    for index in results.indices where !deliveries[index].push.provider.definition.hasHosts {
      guard case .refused(let reason) = results[index], reason.isBacklog else { continue }
      logBacklog(deliveries[index].registration, reason, decisions[index].retry?.wait)
    }
  }

  /// Records and logs that background notifications were dropped from the outbox to make room for these.
  func recordDisplacing(_ deliveries: [RegisteredPush]) async {
    guard !deliveries.isEmpty else { return }
    for delivery in deliveries { logBacklog(delivery.registration, .backlogged, delivery.wait) }
    await recordGivenUp(deliveries, because: .backlogged)
  }

  /// Records on their registrations why notifications were given up, for the operator.
  ///
  /// - Parameter reason: the reason for all of them; nil for the reason why each waited.
  func recordGivenUp(_ deliveries: [RegisteredPush], because reason: Reason? = nil) async {
    do {
      try await registrations.recordFailures(
        deliveries.map {
          .init($0.registration, reason: (reason ?? $0.wait?.reason ?? .timeout).description)
        })
      for delivery in deliveries { history?.recordFailure(delivery.registration) }
    } catch {
      logger.error(
        "registrations could not be updated", metadata: ["error": "\(DatabaseError.name(of: error))"])
    }
  }

  /// The registrations that move to the ``Relay`` because their tokens are of another Firebase project. They neither end
  /// nor count as failing.
  private func moved(
    _ decisions: [Decision], _ deliveries: [RegisteredPush]
  ) async -> Set<RegistrationReference> {
    guard let relay else { return [] }
    let foreign = zip(decisions, deliveries).filter { decision, _ in
      [.refused(.fcmSenderIDMismatch), .ended(.fcmSenderIDMismatch)].contains(decision.result)
    }.map(\.1.registration)
    guard !foreign.isEmpty else { return [] }
    // If the database cannot be written, nothing ends.
    return (try? await relay.move(foreign)) ?? Set(foreign)
  }

  private func logLoss(
    _ message: Logger.Message, _ delivery: RegisteredPush, _ reason: Reason, _ servers: [Int64: String]
  ) {
    log(
      message, .losses, delivery, on: providers.route(of: delivery.push),
      server: servers[delivery.registration.id], reason: reason)
  }
}

extension DeliveryResult {
  /// Whether a notification was lost or a registration has ended, which has a line in the log. Refusals because of a
  /// backlog have lines of their own.
  fileprivate var isLoss: Bool {
    switch self {
    case .refused(let reason): !reason.isBacklog
    case .ended: true
    case .delivered, .passedOn, .queued: false
    }
  }
}

extension Reason {
  /// Whether too many notifications waited already.
  fileprivate var isBacklog: Bool { self == .backlogged || self == .noRoom }
}

/// Metrics of notifications and registrations. Frequently used handles are kept.
struct DeliveryMetrics: Sendable {
  private let factory: any MetricsFactory
  private let waits: [Route.Provider: Timer]

  init(_ factory: any MetricsFactory) {
    self.factory = factory
    waits = Dictionary(
      uniqueKeysWithValues: Route.Provider.allCases.map {
        (
          $0,
          Timer(
            label: "push_bouncer_notify_to_accepted_seconds", dimensions: [("provider", $0.rawValue)],
            factory: factory)
        )
      })
    // Starts each series at 0: Prometheus sees no increase in a series that appears with its first value.
    for kind in Wire.allCases {
      for reason in Outcome.usuallyEnding { ended(kind, reason, by: 0) }
    }
  }

  /// Records an accepted notification and the seconds since it was requested.
  func accepted(_ provider: Route.Provider, after seconds: TimeInterval) {
    // Capped at a year, since the clock may have been set meanwhile.
    waits[provider]?.recordNanoseconds(Int64(max(0, min(seconds, 365 * 86_400)) * 1e9))
  }

  /// Counts what was decided about a dead or refused token.
  func count(_ verdict: DeletionPolicy.Verdict, _ provider: Route.Provider) {
    guard let labels = verdict.labels else { return }
    Counter(
      label: "push_bouncer_deletion_verdicts_total",
      dimensions: [
        ("provider", provider.rawValue), ("verdict", labels.verdict), ("reason", labels.reason.rawValue),
      ], factory: factory
    ).increment()
  }

  /// Counts ended registrations.
  func ended(_ kind: Wire, _ reason: Reason, by count: Int = 1) {
    Counter(
      label: "push_bouncer_registrations_ended_total",
      dimensions: [("kind", "\(kind)"), ("reason", "\(reason)")], factory: factory
    ).increment(by: count)
  }
}
