package import Basics
package import Foundation
package import Logging
package import Metrics
import Platform
package import Providers
package import Registrations
import Sealing

/// Sends deliveries through their providers and acts on the outcomes: it ends registrations, retries, and hands
/// what remains to the outbox.
package final class Deliverer: Sendable {
  package let providers: PushProviders
  let registrations: RegistrationStore
  let outbox: Outbox
  package let history: History?
  private let deadline: Duration
  let now: @Sendable () -> Date
  let logger: Logger
  let lateAnswers = LateAnswers()
  package let recent = RecentDeliveries()
  let heldDeletions: HeldDeletions
  let rateLimitedLog = RateLimitedLog()
  let unservedTargets = UnservedTargets()
  let metrics: DeliveryMetrics
  let pace: DevicePace
  let relay: (any Relay)?
  /// Bytes of memory for notifications from the time they are read until their request is answered: for what was parsed, and
  /// for what is sent or waits for the end of the request. The bytes of request bodies do not bound it: a notification of 100
  /// bytes takes forty times as much on its way, and one of 3 KB may be for hundreds of devices.
  package let work: FairSemaphore<Owner>

  /// - Parameters:
  ///   - deadline: time limit of a batch whose caller gives none.
  ///   - history: counts the results of notifications, for the operator.
  ///   - pace: limit of pushes to one device.
  ///   - relay: where notifications of registrations that live elsewhere go; nil if there is none.
  ///   - work: limit of the memory for notifications of requests that are not answered yet, in bytes.
  package init(
    providers: PushProviders, registrations: RegistrationStore, outbox: Outbox, deadline: Duration,
    history: History? = nil, pace: DevicePace.Limit = DevicePace.google,
    relay: (any Relay)? = nil, work: Int = 64 << 20,
    now: @escaping @Sendable () -> Date,
    metrics: any MetricsFactory = MetricsSystem.factory, logger: Logger
  ) {
    self.metrics = DeliveryMetrics(metrics)
    self.providers = providers
    self.pace = DevicePace(pace)
    self.work = FairSemaphore(work)
    self.registrations = registrations
    self.relay = relay
    self.outbox = outbox
    self.deadline = deadline
    self.history = history
    self.now = now
    self.logger = logger
    heldDeletions = HeldDeletions(registrations: registrations, outbox: outbox, logger: logger)
  }

  /// Sends a batch and returns each delivery's result, in the same order, within `limit`. Each delivery has
  /// then been accepted, is in the outbox, or has failed in a way that a retry would not change.
  ///
  /// A request still under way at its provider then continues: its entry is under a lease, which the answer
  /// settles.
  ///
  /// - Parameter delay: how long ago the notifications were requested.
  /// - Throws: ``Outbox/Full`` or the database's error if what is left could not be stored: the caller must then
  ///   promise nothing, and the whole batch may be sent again.
  package func deliver(
    _ deliveries: [RegisteredPush], after delay: Duration = .zero, within limit: Duration? = nil
  ) async throws -> [DeliveryResult] {
    let began = now()
    var decisions = await sendInRequests(
      deliveries, since: began - delay / .seconds(1), within: limit ?? deadline, backoff: .inRequest)
    await holdUnserved(&decisions, of: deliveries)
    let queued = deliveries.indices.filter { decisions[$0].result == .queued }
    if !queued.isEmpty {
      let additions = queued.compactMap { index -> Outbox.Addition? in
        let decision = decisions[index]
        var delivery = deliveries[index]
        delivery.wait = decision.retry?.wait ?? .init(reason: .timeout)
        return decision.route.map {
          (delivery, $0, decision.retry.map { dueAt($0, after: 1, doubts: 1) } ?? now() + lease)
        }
      }
      var kept: [Outbox.Kept]?
      defer {
        // A late answer is acted on even if its entry could not be stored.
        for (place, index) in queued.enumerated() {
          guard let (start, answer) = decisions[index].late else { continue }
          handleLateAnswer(answer, to: deliveries[index], start, under: kept?[place].lease)
        }
      }
      var displacing: Set<Int64> = []
      let results = try await outbox.keep(additions) { queue, registration in
        history?.count(.givenUp(queue.route))
        displacing.insert(registration)
      }
      kept = results
      await recordDisplacing(
        additions.filter { displacing.contains($0.delivery.registration.id) }.map(\.delivery))
      for case (.leftOut(let reason), let index) in zip(results, queued) {
        decisions[index].result = .refused(reason)
        if let route = decisions[index].route { history?.count(.refused(route, reason)) }
      }
      // What is under way may still be accepted.
      await logWaiting(
        zip(additions, zip(results, queued)).compactMap { addition, stored in
          stored.0.lease == nil || decisions[stored.1].retry == nil ? nil : addition
        })
    }
    return await record(decisions, on: deliveries)
  }

  /// Removes outdated entries of registrations from the outbox; one that is already at its provider may still
  /// arrive.
  ///
  /// - Parameter collapseIDs: the collapse ids of the entries to remove; nil for all entries.
  package func withdraw(_ collapseIDs: [String]?, from registrations: [RegistrationReference]) async throws {
    try await outbox.withdraw(collapseIDs, from: registrations)
  }

  /// An entry of the outbox that a newer notification is about to make worthless.
  package struct Outdated: Sendable { fileprivate let lease: Outbox.Lease }

  /// The entry that waits under a collapse id; nil if there is none.
  package func waiting(
    _ collapseID: String, of registration: RegistrationReference
  ) async throws -> Outdated? {
    try await outbox.waiting(collapseID, of: registration).map(Outdated.init)
  }

  /// Removes an entry once the newer notification is promised, unless that has taken its place already.
  package func withdraw(_ outdated: Outdated) async throws {
    try await outbox.settle([(outdated.lease, nil)])
  }

  /// The present doubts of the deletion guard, for the credentials in use.
  package func doubts() -> [Doubt] {
    let routeSenders = providers.routeSenders
    var doubts: [Doubt.Subject: Doubt] = [:]
    for sender in routeSenders + providers.webPushSenders {
      for kind in Wire.allCases {
        guard let doubt = sender.doubt(of: kind.tokens) else { continue }
        let subject = Doubt.Subject(route: sender.route, wire: kind)
        doubts[subject] = Doubt(subject: subject, reason: doubt.reason, since: doubt.since)
      }
    }
    let routes = Set(routeSenders.map(\.route))
    for held in held {
      guard held.route.isOfHost ? providers.hasHosts : routes.contains(held.route)
      else {
        continue
      }
      doubts[held.subject, default: held].held = held.held
    }
    return Array(doubts.values)
  }

  /// Deletions held back, by route and kind, including those of credentials that were removed.
  package var held: [Doubt] { heldDeletions.doubts }

  /// Recounts periodically what all nodes hold back, until the task is cancelled.
  package func followHeldDeletions() async { await heldDeletions.run() }

  /// The state of each route, without those to push services: what the provider's side reports, and whether the deletion
  /// guard doubts it. Doubts about a kind whose devices anybody may register do not count against the route;
  /// ``doubts()`` lists those, and those about push services.
  package func routeStates() -> [Route: PushProviders.RouteState] {
    var states = providers.routeStates()
    for doubt in doubts() where !doubt.wire.isOpen && !doubt.route.isOfHost {
      switch states[doubt.route] {
      case .failing, .open: break
      case .unknown, .ok, nil: states[doubt.route] = .failing(doubt.shownReason, since: doubt.since)
      }
    }
    return states
  }
}
