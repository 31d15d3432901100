package import Foundation
package import Logging
import Metrics
import Providers
import Registrations
import SQL
import Synchronization
import Timing

/// Sends what is in the outbox: each route by itself, in the order of due times, at its own pace.
package final class OutboxSender: Sendable {
  /// How often it looks for routes with something due.
  private static let interval = Duration.milliseconds(200)
  /// How often the entries are counted: other nodes add and remove some, too.
  private static let countInterval = Duration.seconds(60)
  /// How long a route's entries wait for those that were taken with them. Answers that take longer settle
  /// their entries when they come.
  private static let timeout = Duration.seconds(3)
  /// Looking for what is due takes at most one part in so many of the time, however many routes there are,
  private static let spacing = 10
  /// and waits no longer than this for that.
  private static let longestRest = Duration.seconds(2)
  /// How long a push service that fails keeps the place of others like it: there may be thousands.
  private static let failurePause = Duration.milliseconds(500)

  private let outbox: Outbox
  private let deliverer: Deliverer
  private let now: @Sendable () -> Date
  private let logger: Logger
  private let schedule = Mutex(OutboxSchedule())
  private let expired = Dictionary(
    uniqueKeysWithValues: Route.Provider.allCases.map {
      ($0, Counter(label: "push_bouncer_outbox_expired_total", dimensions: [("provider", $0.rawValue)]))
    })

  /// Sends through `deliverer`, whose leftovers the outbox holds.
  package init(outbox: Outbox, deliverer: Deliverer, now: @escaping @Sendable () -> Date, logger: Logger) {
    self.outbox = outbox
    self.deliverer = deliverer
    self.now = now
    self.logger = logger
  }

  /// Sends until the task is cancelled; what is under way then ends first.
  package func run() async {
    var nextCount = ContinuousClock.now
    var rest = Duration.zero
    await Lanes(every: Self.interval).run {
      if rest > .zero { try? await Task.sleep(for: rest) }
      if nextCount <= .now {
        deliverer.lossLog.tellLeftOut(now: now())
        deliverer.lossLog.tellBacklog(0, most: outbox.mostPerDevice, now: now())
        do { try await outbox.recount() } catch { report(error) }
        let withEntries = outbox.routesWithEntries()
        schedule.withLock { $0.forget(except: withEntries) }
        nextCount = .now + Self.countInterval
      }
      do {
        let start = ContinuousClock.now
        let due = try await outbox.dueRoutes()
        rest = min((.now - start) * Self.spacing - Self.interval, Self.longestRest)
        return schedule.withLock { $0.admit(due, proven: provenHosts, now: now()) }
      } catch {
        report(error)
        rest = Self.longestRest
        return []
      }
    } round: { [self] route in
      var goesOn = false
      do {
        // Not cancelled with this one: its tries are ended and written down.
        goesOn = try await Task { try await round(on: route) }.value
      } catch {
        report(error)
        _ = schedule.withLock {
          $0.roundEnded(of: route, ended: 1, failures: 1, late: 0, notBefore: nil, now: now())
        }
      }
      if !goesOn, route.provider == .webPush {
        if schedule.withLock({ $0.isFailing(route, now: now()) }) {
          try? await Task.sleep(for: Self.failurePause)
        }
        schedule.withLock { $0.leave(route) }
      }
      return goesOn
    }
  }

  /// The push services that have taken what they were sent last.
  private func provenHosts() -> Set<Route> {
    Set(deliverer.providers.webPushSenders.lazy.filter { $0.state == .ok }.map(\.route))
  }

  /// Sends as many as the pace allows; whether to go on at once.
  private func round(on route: Route) async throws -> Bool {
    let limit = schedule.withLock { $0.limit(of: route) }
    guard limit > 0 else { return false }
    let entries = try await outbox.lease(route, limit: limit, for: deliverer.lease)
    guard !entries.isEmpty else { return false }
    let now = now()
    let current: [Outbox.Entry]
    do {
      let living = try await deliverer.living(entries.map(\.delivery))
      current = entries.filter { !outbox.isOver($0) && living.contains($0.delivery.registration.row) }
    } catch {
      // Nothing has been sent: they need not wait for the end of their lease.
      try? await outbox.settle(entries.map { ($0.lease, .retry(at: now)) }, on: route)
      throw error
    }
    let tries = await deliverer.attempt(current, on: route, within: Self.timeout) { [self] leftover in
      answeredLate(leftover, on: route)
    }
    var fates: [(lease: Outbox.Lease, fate: Outbox.Fate)] = []
    var notBefore: Date?
    var (ended, failures) = (0, 0)
    for (entry, result) in zip(current, tries) {
      switch result {
      case .done:
        ended += 1
        fates.append((entry.lease, .remove))
      case .underWay:
        break
      case .leftover(let leftover):
        ended += 1
        fates.append((entry.lease, .retry(at: deliverer.dueAt(leftover, after: entry.lease.attempts))))
        guard leftover.scope != .token else { continue }
        failures += 1
        // Where it may be the device alone, the next one tells whether it is the route.
        if current.count > 1 || leftover.scope != .tokenOrRoute {
          notBefore = leftover.notBefore ?? notBefore
        }
      }
    }
    let kept = Set(current.map(\.lease.id))
    let dropped = entries.filter { !kept.contains($0.lease.id) }
    for entry in dropped { fates.append((entry.lease, .remove)) }
    await giveUp(dropped.filter(outbox.isOver), on: route)
    let goesOn = schedule.withLock {
      $0.roundEnded(
        of: route, ended: ended, failures: failures, late: current.count - ended, notBefore: notBefore,
        now: self.now())
    }
    try await outbox.settle(fates, on: route)
    return goesOn && entries.count == limit
  }

  /// Tells of entries whose time is over.
  private func giveUp(_ entries: [Outbox.Entry], on route: Route) async {
    guard !entries.isEmpty else { return }
    expired[route.provider]?.increment(by: entries.count)
    for _ in entries { deliverer.history?.count(.givenUp(route)) }
    let now = now()
    let losses = await deliverer.lossLog.losses(entries.map { ($0.delivery, route) }, now: now)
    for (entry, loss) in zip(entries, losses) {
      let waited = now.timeIntervalSince(entry.delivery.promisedAt ?? now)
      deliverer.lossLog.tell(
        "notification given up", loss, reason: "expired",
        more: [
          "tries": .stringConvertible(entry.lease.attempts - 1),
          "seconds": .stringConvertible(Int(max(0, waited).rounded())),
        ])
    }
  }

  /// An entry that was under way for longer than a round is settled.
  private func answeredLate(_ leftover: Deliverer.Leftover?, on route: Route) {
    let failures = leftover.map { $0.scope != .token } == true ? 1 : 0
    schedule.withLock {
      $0.answeredLate(of: route, failures: failures, notBefore: leftover?.notBefore, now: now())
    }
  }

  private func report(_ error: any Error) {
    logger.error("the outbox could not be processed", metadata: ["error": "\(DatabaseError.name(of: error))"])
  }
}
