import Basics
package import Foundation
package import Logging
import Metrics
import Platform
import Providers
import Registrations
import SQL
import Synchronization

/// Sends the outbox's entries: each route independently and at its own pace, its owners in turn, for each
/// owner one registration after the other, and for each registration the entry due longest.
package final class OutboxSender: Sendable {
  /// The pause between queries for routes with due entries.
  private static let interval = Duration.milliseconds(200)
  /// The pause between counts of the entries, since other nodes add and remove some too.
  private static let countInterval = Duration.seconds(60)
  /// The time for which a round waits for its answers. Later answers settle their entries when they arrive.
  private static let timeout = Duration.seconds(3)
  /// Factor by which the pause after a query for due entries is longer than the query took, so that these queries take at
  /// most a tenth of the time however many routes there are.
  private static let pauseFactor = 10
  /// The longest such pause.
  private static let longestPause = Duration.seconds(2)
  /// The time for which a failing push service stays active; there may be thousands of them.
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

  package init(outbox: Outbox, deliverer: Deliverer, now: @escaping @Sendable () -> Date, logger: Logger) {
    self.outbox = outbox
    self.deliverer = deliverer
    self.now = now
    self.logger = logger
  }

  /// Sends until the task is cancelled; rounds under way are then completed.
  package func run() async {
    var nextCount = ContinuousClock.now
    var pause = Duration.zero
    await Lanes(every: Self.interval).run {
      if pause > .zero { try? await Task.sleep(for: pause) }
      if nextCount <= .now {
        deliverer.rateLimitedLog.logLeftOut(to: logger, now: now())
        do { try await outbox.recount() } catch { report(error) }
        let withEntries = Set(outbox.depth.routes.keys)
        schedule.withLock { $0.forget(except: withEntries) }
        nextCount = .now + Self.countInterval
      }
      do {
        let start = ContinuousClock.now
        let due = try await outbox.dueQueues()
        pause = min((.now - start) * Self.pauseFactor - Self.interval, Self.longestPause)
        return schedule.withLock { $0.admit(due, proven: provenHosts, now: now()) }
      } catch {
        pause = Self.longestPause
        throw error
      }
    } round: { [self] route in
      var goesOn = false
      do {
        // In an unstructured task, so that cancellation does not interrupt it: its tries are completed and
        // recorded.
        goesOn = try await Task { try await round(on: route) }.value
      } catch {
        report(error)
        _ = schedule.withLock { $0.ended(.init(ended: 1, failures: 1), of: route, now: now()) }
      }
      if !goesOn, route.isOfHost {
        if schedule.withLock({ $0.isFailing(route, now: now()) }) {
          try? await Task.sleep(for: Self.failurePause)
        }
        schedule.withLock { $0.deactivate(route) }
      }
      return goesOn
    } onError: { error in
      report(error)
    }
  }

  /// The push services that accepted the last message they were sent.
  private func provenHosts() -> Set<Route> {
    Set(deliverer.providers.webPushSenders.lazy.filter { $0.state == .ok }.map(\.route))
  }

  /// Sends as many entries as the pace allows; returns whether to go on at once.
  private func round(on route: Route) async throws -> Bool {
    let turns = schedule.withLock { $0.turns(of: route) }
    var round = OutboxSchedule.Round()
    let entries: [Outbox.Entry]
    (entries, round.more) = try await outbox.lease(turns, of: route, for: deliverer.lease)
    let now = now()
    var current: [Outbox.Entry]
    do {
      current = try await deliverer.living(entries).filter { !outbox.isOver($0) }
    } catch {
      // Nothing has been sent: they need not wait for the end of their lease.
      try? await outbox.settle(entries.map { ($0.lease, .init(until: now)) })
      throw error
    }
    // The database took so long that the lease would end before the answer, and another node would send as well.
    let sendable = (self.now() + Self.timeout / .seconds(1) + deliverer.answerTimeout).milliseconds
    let stale = current.filter { $0.lease.row.end < sendable }
    current.removeAll { $0.lease.row.end < sendable }
    let decisions = await deliverer.sendAgain(current, on: route, within: Self.timeout) {
      [self] entry, decision in answeredLate(entry, decision, on: route)
    }
    var settled: [(lease: Outbox.Lease, postponement: Outbox.Postponement?)] = stale.map {
      ($0.lease, .init(until: now))
    }
    for (entry, decision) in zip(current, decisions) {
      guard decision.result != .queued || decision.retry != nil else {
        round.late[entry.delivery.owner, default: 0] += 1
        continue
      }
      round.ended += 1
      settled.append(
        (
          entry.lease,
          decision.retry.map { deliverer.postponement(by: $0, entry.delivery, after: entry.lease.attempts) }
        ))
      guard deliverer.isFailure(decision, of: route) else { continue }
      round.failures += 1
      round.notBefore = decision.retry?.notBefore ?? round.notBefore
    }
    let kept = Set((current + stale).map(\.lease.id))
    let dropped = entries.filter { !kept.contains($0.lease.id) }
    for entry in dropped { settled.append((entry.lease, nil)) }
    await recordExpired(dropped.filter(outbox.isOver), on: route)
    // A round that sent nothing says nothing about the route.
    let goesOn =
      current.isEmpty && entries.isEmpty && round.more.isEmpty
      ? false : schedule.withLock { [round] in $0.ended(round, of: route, now: self.now()) }
    try await outbox.settle(settled)
    return goesOn
  }

  /// Counts, records and logs expired entries.
  private func recordExpired(_ entries: [Outbox.Entry], on route: Route) async {
    guard !entries.isEmpty else { return }
    expired[route.provider]?.increment(by: entries.count)
    for _ in entries { deliverer.history?.count(.givenUp(route)) }
    await deliverer.recordGivenUp(entries.map(\.delivery))
    let now = now()
    let servers = await deliverer.hostnames(of: entries.map(\.delivery), within: .losses)
    for entry in entries {
      let waited = now.timeIntervalSince(entry.delivery.promisedAt ?? now)
      deliverer.log(
        "notification given up", .losses, entry.delivery, on: route,
        server: servers[entry.delivery.registration.id], reason: entry.delivery.wait?.reason ?? .timeout,
        more: [
          "tries": .stringConvertible(entry.lease.attempts - 1),
          "seconds": .stringConvertible(Int(max(0, waited).rounded())),
        ])
    }
  }

  /// Handles an entry that was settled after its round.
  private func answeredLate(_ entry: Outbox.Entry, _ decision: Deliverer.Decision, on route: Route) {
    let hasFailed: Bool? =
      decision.retry == nil ? false : deliverer.isFailure(decision, of: route) ? true : nil
    schedule.withLock {
      $0.answeredLate(
        of: OutboxQueue(route: route, owner: entry.delivery.owner), hasFailed: hasFailed,
        notBefore: decision.retry?.notBefore, now: now())
    }
  }

  private func report(_ error: any Error) {
    logger.error("the outbox could not be processed", metadata: ["error": "\(DatabaseError.name(of: error))"])
  }
}
