internal import Basics
package import Delivery
package import Foundation
package import HTTP
internal import Logging
package import Platform
package import Providers
package import Registrations
package import SQL
internal import Sealing
internal import Synchronization

/// Checks whether the service can do its work.
package final class Readiness: Sendable {
  /// In seconds. A notification that waits longer degrades the service, unless it waits because of its
  /// server's rate limit.
  static let longestWait: TimeInterval = 300

  let database: DatabaseCheck
  private let keyFolder: KeyFolder
  let outbox: Outbox
  private let failover: Cached<FailoverReport?>
  private let oldest: Probe<(oldest: Date?, late: Date?)?>
  let now: @Sendable () -> Date
  private let routeStates: @Sendable () -> [Route: PushProviders.RouteState]
  private let doubts: @Sendable () -> [Doubt]
  private let unserved: @Sendable () -> [UnservedReport]
  let pushServices: @Sendable () -> PushServices?
  let clockDoubt: @Sendable () -> ClockDoubt?
  private let certificate: ServerCertificate?
  private let earlier: @Sendable () -> StoreRecord.Earlier?
  private let unopened: @Sendable () -> [String: Int]
  private let unreadableForwarding: @Sendable () -> ForwardingFaults.Unreadable?
  private let logBacklog: @Sendable () -> LogWriter.Backlog?
  private let isDelivering: Bool
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
    checks += credentials.apns.map { check(.apns, $0.name, routes) }
    checks += credentials.fcm.map { check(.fcm, $0.name, routes) }
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

  /// While the clock is doubted, nothing expires; everything else works.
  private func clockCheck() -> Health.Check {
    guard let doubt = clockDoubt() else { return .init(name: "clock") }
    return .init(
      name: "clock", status: .degraded, state: "failing", summary: "the clock is doubted",
      since: doubt.since, meaning: "The clock is doubted: \(doubt). \(ClockDoubt.meaning)",
      advice: ClockDoubt.advice)
  }

  /// A new certificate that cannot be used leaves the previous one in use, which expires one day.
  private static func check(_ certificate: ServerCertificate) -> Health.Check {
    var check = Health.Check(name: "certificate")
    check.details["expires_at"] = .string(certificate.life.end.formatted(.iso8601))
    let expiry = certificate.expiry
    if let expiry {
      check.status = .degraded
      check.state = expiry.isOver ? "failing" : "degraded"
      check.summary = "the certificate \(expiry.phrase)"
      check.since = expiry.isOver ? expiry.end : nil
      check.meaning = expiry.meaning
      check.advice = CertificateExpiry.advice
    }
    if let problem = certificate.problem {
      check.status = .degraded
      check.state = "failing"
      check.summary =
        "the new certificate cannot be used" + (expiry.map { ", and the old one \($0.phrase)" } ?? "")
      check.meaning = [expiry?.meaning, "The new certificate cannot be used: \(problem)."]
        .compactMap(\.self).joined(separator: " ")
    }
    return check
  }

  /// A database that is not the one before works; but it may have been put there, or made anew, by mistake.
  private func storeCheck() -> [Health.Check] {
    guard let earlier = earlier() else { return [] }
    return [
      .init(
        name: Self.storeName, status: .degraded, state: "failing",
        summary: "the database is not the one before",
        since: earlier.since, meaning: StoreRecord.Earlier.meaning, advice: StoreRecord.Earlier.advice)
    ]
  }

  /// What does not open is kept, and nothing can be sent to it. It counts until the process is restarted.
  private func sealedCheck() -> [Health.Check] {
    let columns = unopened().keys.sorted()
    guard !columns.isEmpty else { return [] }
    return [
      .init(
        name: "storage.key", status: .degraded, state: "failing",
        summary: "values in the database cannot be opened",
        meaning: """
          Values of \(columns.joined(separator: ", ")) do not open: moved from other rows, damaged, or sealed with \
          another storage.key. They are kept and not used.
          """,
        advice: "if the database was restored: put the storage.key of the same backup beside it, and restart")
    ]
  }

  /// Only a trusted proxy's header is read, so this is the operator's own to mend.
  private func forwardingCheck() -> [Health.Check] {
    guard let unreadable = unreadableForwarding() else { return [] }
    return [
      .init(
        name: Self.forwardingName, status: .degraded, state: "failing",
        summary: "a proxy does not say who calls",
        meaning: """
          X-Forwarded-For of \(unreadable.proxy) has an entry that is no address: \(unreadable.entry). All clients \
          behind that proxy count as one and share one limit.
          """,
        advice: ForwardingFaults.Unreadable.advice)
    ]
  }

  /// The log itself cannot tell this one.
  private func logCheck() -> [Health.Check] {
    guard let backlog = logBacklog() else { return [] }
    return [
      .init(
        name: "log", status: .degraded, state: "failing", summary: "the log takes no lines",
        since: backlog.since,
        meaning: """
          Standard error takes no lines: \
          \(backlog.dropped == 0 ? "they wait in memory" : Phrase.count(backlog.dropped, "line was dropped", "lines were dropped")). \
          Everything else works.
          """,
        advice:
          "see to what reads the log: journald, the container's log driver, a stopped terminal, or a full disk"
      )
    ]
  }

  private static let databaseName = "database"
  private static let storeName = "store"
  /// Name of the check of `X-Forwarded-For`, after the setting that it is about.
  static let forwardingName = "http.trusted_proxies"

  private func keysCheck() -> Health.Check {
    let snapshot = keyFolder.current
    let shortage = KeyFolder.Shortage.bouncerKey
    if snapshot.bouncer.isEmpty {
      return .init(
        name: "keys", status: .unavailable, state: "failing", summary: "there is no bouncer key",
        meaning: shortage.meaning, advice: shortage.advice)
    }
    guard !snapshot.problems.isEmpty else { return .init(name: "keys") }
    return .init(
      name: "keys", status: .degraded, state: "failing", summary: "key files cannot be used",
      meaning: "Key files cannot be used; what was loaded before stays in use.", files: snapshot.problems)
  }

  /// Whether there is any way to deliver.
  ///
  /// - Parameter isElsewhere: whether there is one without a credential.
  private func credentialCheck(_ credentials: Credentials, isElsewhere: Bool) -> [Health.Check] {
    guard isDelivering, !isElsewhere, credentials.apns.isEmpty, credentials.fcm.isEmpty else { return [] }
    let shortage = KeyFolder.Shortage.credential
    return [
      .init(
        name: "providers", status: .degraded, state: "failing",
        summary: "no provider credentials: nothing can be delivered", meaning: shortage.meaning,
        advice: shortage.advice)
    ]
  }

  /// A credential fails if any of its routes fails.
  private func check(
    _ provider: Route.Provider, _ credential: String, _ routes: [Health.RouteHealth]
  ) -> Health.Check {
    func isOwn(_ route: Route) -> Bool { route.provider == provider && route.credential == credential }
    let own = routes.filter { isOwn($0.route) }
    var check = Health.Check(name: "\(provider.rawValue):\(credential)")
    check.summary = "\(check.name) does not work"
    if let failing = own.first(where: { $0.state.failure != nil }), let failure = failing.state.failure {
      check.fail(
        failure.reason, failing.state.isOpen ? "open" : "failing", on: failing.route.target,
        since: failure.since, of: check.name)
    } else if !own.contains(where: { $0.state == .ok }) {
      check.state = "unknown"
    }
    let waiting = outbox.count(of: provider, credential: credential)
    if waiting > 0 { check.details["waiting"] = .integer(Int64(waiting)) }
    let doubts = doubts().filter { isOwn($0.route) }
    let held = doubts.map(\.held).reduce(0, +)
    if held > 0 { check.details["held_deletions"] = .integer(Int64(held)) }
    // Deletions of devices that anybody may register are shown, but do not degrade the service.
    if let doubt = doubts.filter({ $0.wire.isOpen }).min(by: { $0.since < $1.since }) {
      var devices = Health.Check(name: "\(doubt.wire)")
      devices.fail(doubt.shownReason, on: doubt.route.target, since: doubt.since, of: check.name)
      check.details[devices.name] = devices.json
    }
    return check
  }

  /// Anybody may choose a push service, so single failures are listed, and only a failure of Web Push as a
  /// whole degrades the service.
  private static func check(_ services: PushServices) -> Health.Check {
    var check = Health.Check(name: "webpush", state: services.working > 0 ? "ok" : "unknown")
    if let outage = services.outage { check.fail(outage.reason, since: outage.since) }
    check.details = [
      "working": .integer(Int64(services.working)), "failing": .integer(Int64(services.failing)),
    ]
    if services.waiting > 0 { check.details["waiting"] = .integer(Int64(services.waiting)) }
    if services.held > 0 { check.details["held_deletions"] = .integer(Int64(services.held)) }
    if !services.listed.isEmpty {
      check.details["failing_services"] = .array(
        services.listed.map { service in
          let reason = service.reason
          let explanation = service.reason.explanation
          var json = StatusReport(
            service.isPaused ? "open" : "failing", since: service.since, reason: reason.rawValue,
            meaning: explanation.meaning, advice: explanation.advice
          ).json.withoutNulls
          json["route"] = .string("\(service.route)")
          json["waiting"] = .integer(Int64(service.waiting))
          return .object(json)
        })
    }
    return check
  }
}
