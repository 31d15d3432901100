import Basics
package import Delivery
package import Foundation
package import HTTP
import Logging
package import Platform
package import Providers
package import Registrations
package import SQL
import Sealing
import Synchronization

/// Checks whether the service can do its work.
package final class Readiness: Sendable {
  /// In seconds. A notification that waits longer degrades the service, unless it waits because of its
  /// server's rate limit.
  static let longestWait: TimeInterval = 300

  let database: DatabaseCheck
  let keyFolder: KeyFolder
  let outbox: Outbox
  private let failover: Cached<FailoverReport?>
  private let oldest: Probe<(oldest: Date?, late: Date?)?>
  let now: @Sendable () -> Date
  private let routeStates: @Sendable () -> [Route: PushProviders.RouteState]
  let doubts: @Sendable () -> [Doubt]
  private let unserved: @Sendable () -> [UnservedReport]
  let pushServices: @Sendable () -> PushServices?
  let clockDoubt: @Sendable () -> ClockDoubt?
  let certificate: ServerCertificate?
  let earlier: @Sendable () -> StoreRecord.Earlier?
  let unopened: @Sendable () -> [String: Int]
  let unreadableForwarding: @Sendable () -> ForwardingFaults.Unreadable?
  let logBacklog: @Sendable () -> LogWriter.Backlog?
  let isDelivering: Bool
  private let isDraining = Atomic(false)

  /// - Parameters:
  ///   - doubts: kinds of registrations, with their routes, whose deletions are held back.
  ///   - unserved: what came in the last hour or waits, and no credential serves.
  ///   - pushServices: the health of Web Push; nil if it is switched off.
  ///   - clockDoubt: why the clock is doubted; nil if it is trusted.
  ///   - certificate: the public listener's certificate; nil if it does not speak TLS.
  ///   - earlier: the database that was served before, if this is another and the operator has not confirmed it.
  ///   - unopened: the columns with sealed values that `storage.key` did not open.
  ///   - isDelivering: false where another bouncer has all credentials.
  ///   - unreadableForwarding: the last entry of `X-Forwarded-For` within an hour that is no address.
  ///   - logBacklog: the log lines that nothing takes.
  package init(
    database: any Database, keyFolder: KeyFolder, outbox: Outbox, now: @escaping @Sendable () -> Date,
    routeStates: @escaping @Sendable () -> [Route: PushProviders.RouteState],
    doubts: @escaping @Sendable () -> [Doubt] = { [] },
    unserved: @escaping @Sendable () -> [UnservedReport] = { [] },
    pushServices: @escaping @Sendable () -> PushServices? = { nil },
    clockDoubt: @escaping @Sendable () -> ClockDoubt? = { nil },
    certificate: ServerCertificate? = nil, isDelivering: Bool = true,
    earlier: @escaping @Sendable () -> StoreRecord.Earlier? = { nil },
    unopened: @escaping @Sendable () -> [String: Int] = { [:] },
    unreadableForwarding: @escaping @Sendable () -> ForwardingFaults.Unreadable? = { nil },
    logBacklog: @escaping @Sendable () -> LogWriter.Backlog? = { nil }
  ) {
    self.database = DatabaseCheck(database, now: now)
    failover = Cached(for: .seconds(8)) { try await FailoverReport(of: database, now: now()) }
    oldest = Probe { try? await (outbox.oldest(), outbox.oldestLate()) }
    self.keyFolder = keyFolder
    self.outbox = outbox
    self.now = now
    self.routeStates = routeStates
    self.doubts = doubts
    self.pushServices = pushServices
    self.clockDoubt = clockDoubt
    self.certificate = certificate
    self.isDelivering = isDelivering
    self.unserved = unserved
    self.earlier = earlier
    self.unopened = unopened
    self.unreadableForwarding = unreadableForwarding
    self.logBacklog = logBacklog
  }

  /// Called when the shutdown begins; the service is not ready from then on.
  package func drain() { isDraining.store(true, ordering: .relaxed) }

  package func report() async -> Health {
    async let outboxCheck = outboxCheck()
    let now = now()
    let credentials = keyFolder.current.credentials
    let services = pushServices()
    let held = Dictionary(doubts().map { ($0.route, $0.held) }, uniquingKeysWith: +)
    let routes = routeStates().sorted { "\($0.key)" < "\($1.key)" }.map {
      Health.RouteHealth(
        route: $0.key, state: $0.value, waiting: outbox.count(for: $0.key), held: held[$0.key] ?? 0)
    }
    var checks = [await databaseCheck(), keysCheck(), await outboxCheck, clockCheck()]
    if let certificate { checks.append(Self.check(certificate)) }
    checks += storeCheck() + sealedCheck() + forwardingCheck() + logCheck()
    if isDraining.load(ordering: .relaxed) {
      checks.append(
        .init(
          name: "service", status: .unavailable, state: "draining", summary: "it is shutting down"))
    }
    checks += credentials.all.map { check(type(of: $0).provider, $0.name, routes) }
    checks += routes.filter { $0.route.provider == .elsewhere }.map {
      check(.elsewhere, $0.route.credential, routes)
    }
    if let services { checks.append(Self.check(services)) }
    checks += credentialCheck(
      credentials,
      isElsewhere: services != nil || checks.contains { $0.name.hasPrefix("\(Route.Provider.elsewhere):") })
    let unserved = unserved()
    checks += [Health.check(unserved)].compactMap(\.self)
    return Health(
      at: now, checks: checks, routes: routes, pushServices: services,
      waiting: outbox.count, unserved: unserved)
  }

  /// The state of the checks that no other metric shows, as the place of its status in ``Health/Status``.
  package func samples() async -> [PolledGauge.Sample] {
    let checks = [await databaseCheck()] + storeCheck()
    return [Self.databaseName, Self.storeName].map { name in
      let status = checks.first { $0.name == name }?.status ?? .ready
      return .init(Double(Health.Status.allCases.firstIndex(of: status) ?? 0), labels: [("check", name)])
    }
  }

  /// What the database promises for a failover, and what the last one may have cost; nil for SQLite.
  func failoverReport() async -> FailoverReport? {
    await failover.value(within: .milliseconds(500))?.value ?? nil
  }

  private func databaseCheck() async -> Health.Check {
    guard let (failure, since) = await database.finding() else {
      var check = Health.Check(name: Self.databaseName)
      guard let report = await failoverReport() else { return check }
      check.details = [
        "failover": .string(report.promise.name), "failover_meaning": .string(report.promise.sentence),
      ]
      guard let loss = report.loss?.ifRecent(at: now()) else { return check }
      check.status = .degraded
      check.state = "degraded"
      check.reason = "failover"
      check.since = loss.at
      check.summary = FailoverReport.Loss.summary
      check.meaning = loss.meaning
      check.advice = FailoverReport.Loss.advice
      return check
    }
    let explanation = database.explanation(of: failure)
    return .init(
      name: Self.databaseName, status: .unavailable, state: "failing",
      summary: failure.summary, reason: failure.reason, since: since, meaning: explanation.meaning,
      advice: explanation.advice)
  }

  /// The outbox is unhealthy if a notification has waited too long. That a device has as many waiting as it may is its
  /// own matter; where its route is the reason, the route's check says so.
  private func outboxCheck() async -> Health.Check {
    let waiting = outbox.count
    var check = Health.Check(name: "outbox", details: ["waiting": .integer(Int64(waiting))])
    let reasons = outbox.reasons.sorted { ($1.value, $0.key.rawValue) < ($0.value, $1.key.rawValue) }
    if waiting > 0, !reasons.isEmpty {
      check.details["waiting_by_reason"] = .array(
        reasons.map { ["reason": .string($0.key.rawValue), "count": .integer(Int64($0.value))] })
    }
    guard waiting > 0, let answer = await oldest.answer(within: .milliseconds(800)) ?? nil,
      let oldest = answer.oldest
    else { return check }
    func age(_ date: Date) -> TimeInterval { max(0, now().timeIntervalSince(date)).rounded() }
    check.details["oldest_seconds"] = .integer(Int64(age(oldest)))
    if let late = answer.late, age(late) > Self.longestWait {
      check.status = .degraded
      check.state = "degraded"
      check.meaning = "A notification has waited for \(Phrase.duration(age(late)))."
      check.advice = """
        See which route does not work, and for what else it waits: push-bouncer outbox list. What waits is given up \
        after delivery.max_age.
        """
    } else if age(oldest) > Self.longestWait {
      check.meaning =
        reasons.first?.key.explanation.meaning
        ?? "Notifications keep to their chat server's pace (bouncer.notifications_per_server)."
    }
    return check
  }
}
