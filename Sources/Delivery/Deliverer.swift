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
  ///
  /// - Throws: the database's error, if registrations that have ended could not be marked so.
  public func deliver(_ deliveries: [Delivery]) async throws -> [DeliveryResult] {
    let outcomes = await send(deliveries)
    var ending: [E2EERegistrations.Ending] = []
    var results: [DeliveryResult] = []
    results.reserveCapacity(deliveries.count)
    for (delivery, sent) in zip(deliveries, outcomes) {
      guard let (route, outcome) = sent else {
        metrics.count(delivery.push, nil)
        results.append(.unconfigured)
        continue
      }
      metrics.count(delivery.push, outcome)
      let result = judge(outcome, of: delivery, on: route)
      if case .ended = result {
        ending.append(.init(registration: delivery.registration, registeredAt: delivery.registeredAt))
      }
      results.append(result)
    }
    guard !ending.isEmpty else { return results }
    let ended = try await registrations.expire(ending)
    for (index, delivery) in deliveries.enumerated() {
      guard case .ended(let reason) = results[index] else { continue }
      guard ended.contains(delivery.registration) else {
        results[index] = .failed(reason)
        continue
      }
      logger.info(
        "registration ended",
        metadata: ["reason": "\(reason)", "token": "\(PushToken.fingerprint(of: delivery.push.token))"])
    }
    return results
  }

  /// The state of each route: what the provider's side reports, and whether the deletion guard
  /// doubts the route.
  public func routeStates() -> [Route: PushProviders.RouteState] {
    let doubts = records.withLock { $0.compactMapValues(\.doubt) }
    return providers.routeStates().merging(doubts.mapValues { .failing($0.reason, since: $0.since) }) { state, doubt in
      if case .failing = state { state } else { doubt }
    }
  }

  /// Forgets what routes of these credentials have proven: their keys have changed.
  public func credentialsChanged(_ names: Set<String>) {
    records.withLock { records in
      records = records.filter { !names.contains($0.key.credential) }
    }
  }

  private func send(_ deliveries: [Delivery]) async -> [(Route, Outcome)?] {
    let deadline = ContinuousClock.now + deadline
    // One delivery needs no task of its own; most notifications are for one or two devices.
    if deliveries.count == 1 { return [await send(deliveries[0].push, by: deadline)] }
    return await withTaskGroup(of: (Int, (Route, Outcome)?).self) { group in
      for (index, delivery) in deliveries.enumerated() {
        group.addTask { (index, await self.send(delivery.push, by: deadline)) }
      }
      var outcomes = [(Route, Outcome)?](repeating: nil, count: deliveries.count)
      for await (index, outcome) in group { outcomes[index] = outcome }
      return outcomes
    }
  }

  private func send(_ push: Push, by deadline: ContinuousClock.Instant) async -> (Route, Outcome)? {
    guard let route = providers.route(for: push) else { return nil }
    return (route, await providers.send(push, deadline: deadline))
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
    case .dead(let reason, _), .suspect(let reason): return verdict == .end ? .ended(reason) : .failed(reason)
    case .retry(let reason, _), .rejected(let reason), .misconfigured(let reason): return .failed(reason)
    }
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
