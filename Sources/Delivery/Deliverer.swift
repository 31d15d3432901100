public import Foundation
public import Logging
public import Providers
public import Registrations
import Sealing
import Synchronization

/// Sends deliveries through their providers and does what the outcomes ask for.
public final class Deliverer: Sendable {
  private struct RouteRecord {
    var deletionGuard = DeletionGuard()
    /// Set while the guard holds suspect answers back.
    var doubt: (reason: Reason, since: Date)?
  }

  private let providers: PushProviders
  private let registrations: E2EERegistrations
  private let deadline: Duration
  private let now: @Sendable () -> Date
  private let logger: Logger
  private let metrics = DeliveryMetrics()
  private let records = Mutex<[Route: RouteRecord]>([:])

  /// - Parameter deadline: how long a batch may take.
  public init(
    providers: PushProviders, registrations: E2EERegistrations, deadline: Duration,
    now: @escaping @Sendable () -> Date, logger: Logger
  ) {
    self.providers = providers
    self.registrations = registrations
    self.deadline = deadline
    self.now = now
    self.logger = logger
  }

  /// Sends a batch and returns what became of each, in the same order, within the deadline.
  public func deliver(_ deliveries: [Delivery]) async -> [DeliveryResult] {
    let outcomes = await send(deliveries)
    var results: [DeliveryResult] = []
    results.reserveCapacity(deliveries.count)
    for (delivery, sent) in zip(deliveries, outcomes) {
      metrics.count(delivery.push, sent?.outcome)
      results.append(sent.map { judge($0.outcome, of: delivery, on: $0.route) } ?? .unconfigured)
    }
    await keepBooks(of: deliveries, &results)
    return results
  }

  /// The state of each route: what the provider's side reports, and whether the deletion guard
  /// doubts the route.
  public func routeStates() -> [Route: PushProviders.RouteState] {
    let doubts = records.withLock { $0.compactMapValues(\.doubt) }
    return providers.routeStates().merging(doubts.mapValues { .failing($0.reason, since: $0.since) }) {
      state, doubt in
      if case .failing = state { state } else { doubt }
    }
  }

  /// Forgets what routes of these credentials have proven: their keys have changed.
  public func credentialsChanged(_ names: Set<String>) {
    records.withLock { records in
      records = records.filter { !names.contains($0.key.credential) }
    }
  }

  private typealias Sent = (route: Route, outcome: Outcome)

  private func send(_ deliveries: [Delivery]) async -> [Sent?] {
    let deadline = ContinuousClock.now + deadline
    // One delivery needs no task of its own; most notifications are for one or two devices.
    if deliveries.count == 1 { return [await send(deliveries[0].push, by: deadline)] }
    return await withTaskGroup(of: (Int, Sent?).self) { group in
      for (index, delivery) in deliveries.enumerated() {
        group.addTask { (index, await self.send(delivery.push, by: deadline)) }
      }
      var outcomes = [Sent?](repeating: nil, count: deliveries.count)
      for await (index, outcome) in group { outcomes[index] = outcome }
      return outcomes
    }
  }

  private func send(_ push: Push, by deadline: ContinuousClock.Instant) async -> Sent? {
    guard let route = providers.route(for: push) else { return nil }
    return (route, await providers.send(push, deadline: deadline))
  }

  /// Ends the registrations that have ended and writes down what was refused. A registration that
  /// was made again meanwhile stays, and so does every one while the database cannot be written:
  /// the provider will say the same next time.
  private func keepBooks(of deliveries: [Delivery], _ results: inout [DeliveryResult]) async {
    var ending: [E2EERegistrations.Failure] = []
    var refused: [E2EERegistrations.Failure] = []
    for (delivery, result) in zip(deliveries, results) {
      switch result {
      case .ended(let reason): ending.append(delivery.failure(reason))
      case .refused(let reason): refused.append(delivery.failure(reason))
      case .delivered, .failed, .unconfigured: break
      }
    }
    var ended: Set<Int64> = []
    do {
      ended = try await registrations.expire(ending)
      try await registrations.note(refused)
    } catch {
      logger.error("registrations could not be updated", metadata: ["error": "\(type(of: error))"])
    }
    for (index, delivery) in deliveries.enumerated() {
      guard case .ended(let reason) = results[index] else { continue }
      if ended.contains(delivery.registration) {
        logger.info(
          "registration ended",
          metadata: ["reason": "\(reason)", "token": "\(PushToken.fingerprint(of: delivery.push.token))"])
      } else {
        results[index] = .failed(reason)
      }
    }
  }

  private func judge(_ outcome: Outcome, of delivery: Delivery, on route: Route) -> DeliveryResult {
    let verdict = records.withLock { records in
      let verdict = records[route, default: RouteRecord()].deletionGuard.judge(
        outcome, registeredAt: delivery.registeredAt)
      switch (verdict, outcome) {
      case (.doubtRoute, .suspect(let reason)):
        if records[route]?.doubt == nil { records[route]?.doubt = (reason, now()) }
      case (_, .delivered):
        records[route]?.doubt = nil
      default: break
      }
      return verdict
    }
    switch outcome {
    case .delivered: return .delivered
    case .dead(let reason, _), .suspect(let reason):
      return verdict == .end ? .ended(reason) : .refused(reason)
    case .rejected(let reason): return .refused(reason)
    case .retry(let reason, _), .misconfigured(let reason): return .failed(reason)
    }
  }
}

extension Delivery {
  fileprivate func failure(_ reason: Reason) -> E2EERegistrations.Failure {
    .init(id: registration, registeredAt: registeredAt, reason: reason.description)
  }
}

extension Push {
  var token: String {
    switch self {
    case .apns(let notification): notification.token
    case .fcm(let message): message.token
    }
  }
}
