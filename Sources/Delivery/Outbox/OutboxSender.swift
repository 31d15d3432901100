public import Foundation
public import Logging
import Metrics
import Providers
import Registrations
import Synchronization

/// Sends what is in the outbox: each route by itself, in the order of due times, at its own pace.
public final class OutboxSender: Sendable {
  /// How often it looks for routes with something due.
  private static let interval = Duration.milliseconds(200)
  /// A sender that is silent for so long has died: its entries may be taken over. Longer than a try
  /// may take.
  private static let lease: TimeInterval = 30
  private static let timeout = Duration.seconds(10)

  private struct RouteState {
    var pace = Pace()
    var isBusy = false
  }

  private let outbox: Outbox
  private let deliverer: Deliverer
  private let now: @Sendable () -> Date
  private let logger: Logger
  private let routes = Mutex<[Route: RouteState]>([:])
  private let expired = Counter(label: "push_bouncer_outbox_expired_total")

  /// Sends through `deliverer`, whose leftovers the outbox holds.
  public init(outbox: Outbox, deliverer: Deliverer, now: @escaping @Sendable () -> Date, logger: Logger) {
    self.outbox = outbox
    self.deliverer = deliverer
    self.now = now
    self.logger = logger
  }

  /// Sends until the task is cancelled; what is under way then ends first.
  public func run() async {
    await withDiscardingTaskGroup { group in
      var ticks = 0
      while !Task.isCancelled {
        if ticks.isMultiple(of: 300) {
          do { try await outbox.recount() } catch { report(error) }
        }
        ticks += 1
        for route in outbox.routesWithEntries() where begin(route) {
          group.addTask { await self.work(on: route) }
        }
        try? await Task.sleep(for: Self.interval)
      }
    }
  }

  /// Whether the route is free to be worked on; it is not any more then.
  private func begin(_ route: Route) -> Bool {
    let now = now()
    return routes.withLock { routes in
      var state = routes[route] ?? RouteState()
      guard !state.isBusy, state.pace.pausedUntil <= now else { return false }
      state.isBusy = true
      routes[route] = state
      return true
    }
  }

  /// Rounds until nothing is due, something goes wrong or the task is cancelled. A round that has begun
  /// is not cancelled with it: its tries are ended and written down.
  private func work(on route: Route) async {
    defer { routes.withLock { $0[route]?.isBusy = false } }
    do {
      while !Task.isCancelled, try await Task(operation: { try await round(on: route) }).value {}
    } catch {
      report(error)
      routes.withLock { $0[route]?.pace.ended(tries: 1, failures: 1, notBefore: nil, now: now()) }
    }
  }

  /// Sends as many as the pace allows; whether to go on at once.
  private func round(on route: Route) async throws -> Bool {
    let window = routes.withLock { $0[route]?.pace.window ?? 1 }
    let entries = try await outbox.lease(route, limit: window, for: Self.lease)
    guard !entries.isEmpty else { return false }
    let now = now()
    let living = try await deliverer.living(entries.map(\.delivery))
    let current = entries.filter { $0.expiresAt > now && living.contains($0.delivery.registration.row) }
    let outcomes = await deliverer.attempt(current.map(\.delivery), on: route, within: Self.timeout)
    var fates: [(id: Int64, attempts: Int, fate: Outbox.Fate)] = []
    var notBefore: Date?
    var failures = 0
    for (entry, leftover) in zip(current, outcomes) {
      guard let leftover else {
        fates.append((entry.id, entry.attempts, .remove))
        continue
      }
      let next = RetrySchedule.outbox.next(
        after: entry.attempts, now: self.now(), notBefore: leftover.notBefore, random: .random(in: 0...1))
      fates.append((entry.id, entry.attempts, .retry(at: next)))
      if leftover.concernsRoute {
        failures += 1
        // One that goes too fast may be a device: whether it is the project, the next one tells.
        if current.count > 1 || leftover.reason != .fcmQuotaExceeded {
          notBefore = leftover.notBefore ?? notBefore
        }
      }
    }
    let kept = Set(current.map(\.id))
    for entry in entries where !kept.contains(entry.id) {
      if entry.expiresAt <= now { expired.increment() }
      fates.append((entry.id, entry.attempts, .remove))
    }
    try await outbox.settle(fates, on: route)
    let isPaused = routes.withLock { routes in
      routes[route]?.pace.ended(
        tries: current.count, failures: failures, notBefore: notBefore, now: self.now())
      return routes[route].map { $0.pace.pausedUntil > now } ?? true
    }
    return !isPaused && entries.count == window
  }

  private func report(_ error: any Error) {
    logger.error("outbox cannot be worked on", metadata: ["error": "\(type(of: error))"])
  }
}
