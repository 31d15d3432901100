package import Delivery
package import Foundation
package import HTTP
package import Logging
package import Providers
internal import Registrations
package import SQL
internal import Sealing
internal import Synchronization

/// Whether the service can do its work.
package final class Readiness: Sendable {
  private let database: DatabaseCheck
  private let keyFolder: KeyFolder
  private let outbox: Outbox
  private let oldest: Probe<(oldest: Date?, late: Date?)?>
  private let now: @Sendable () -> Date
  private let routeStates: @Sendable () -> [Route: PushProviders.RouteState]
  private let doubts: @Sendable () -> [Doubt]
  private let pushServices: @Sendable () -> PushServices?
  private let clockDoubt: @Sendable () -> ClockDoubt?
  private let certificate: ServerCertificate?
  private let isDraining = Mutex(false)

  /// - Parameters:
  ///   - outbox: where notifications wait for a provider.
  ///   - routeStates: how each route to the providers fares.
  ///   - doubts: which kinds of registrations are not believed to be dead, on which routes.
  ///   - pushServices: how Web Push fares; nil: it is switched off.
  ///   - clockDoubt: why the clock is doubted; nil if it is not.
  ///   - certificate: the public listener's, if it speaks TLS.
  package init(
    database: any Database, keyFolder: KeyFolder, outbox: Outbox, now: @escaping @Sendable () -> Date,
    routeStates: @escaping @Sendable () -> [Route: PushProviders.RouteState],
    doubts: @escaping @Sendable () -> [Doubt] = { [] },
    pushServices: @escaping @Sendable () -> PushServices? = { nil },
    clockDoubt: @escaping @Sendable () -> ClockDoubt? = { nil }, certificate: ServerCertificate? = nil
  ) {
    self.database = DatabaseCheck(database, now: now)
    self.keyFolder = keyFolder
    self.outbox = outbox
    self.now = now
    oldest = Probe {
      do { return (try await outbox.oldest(), try await outbox.oldestLate()) } catch { return nil }
    }
    self.routeStates = routeStates
    self.doubts = doubts
    self.pushServices = pushServices
    self.clockDoubt = clockDoubt
    self.certificate = certificate
  }

  /// The shutdown has begun: not ready any more.
  package func drain() {
    isDraining.withLock { $0 = true }
  }

  /// Tells the log when the database goes away and when it is back, until the task is cancelled.
  package func watchDatabase(logger: Logger) async {
    await database.watch(logger: logger)
  }

  /// How the whole fares.
  package enum Status: String, Sendable, Comparable {
    /// Everything works.
    case ready
    /// Something does not, but requests can be taken.
    case degraded
    /// Requests cannot be taken: no database, no bouncer key, or shutting down.
    case unavailable

    /// By how bad it is.
    package static func < (left: Status, right: Status) -> Bool { left.rank < right.rank }

    private var rank: Int {
      switch self {
      case .ready: 0
      case .degraded: 1
      case .unavailable: 2
      }
    }
  }

  /// The whole and its parts: `{"status", "checks": {...}}`.
  package func report() async -> (status: Status, document: JSON) {
    let draining: (Status, JSON) =
      isDraining.withLock { $0 } ? (.unavailable, ["status": "draining"]) : (.ready, ["status": "ok"])
    async let outbox = outboxCheck()
    var checks: [(name: String, check: (Status, JSON))] = [
      ("database", await databaseCheck()), ("keys", keysCheck()), ("outbox", await outbox),
      ("clock", clockCheck()),
    ]
    if let certificate { checks.append(("certificate", Self.check(certificate))) }
    if draining.0 != .ready { checks.append(("service", draining)) }
    checks += credentialChecks()
    if let services = pushServices() { checks.append(("webpush", Self.check(services))) }
    let status = checks.map(\.check.0).max() ?? .ready
    let members = checks.map { JSON.Object.Member($0.name, $0.check.1) }
    return (status, ["status": .string(status.rawValue), "checks": .object(JSON.Object(members))])
  }

  private func databaseCheck() async -> (Status, JSON) {
    guard let (failure, since) = await database.finding() else { return (.ready, ["status": "ok"]) }
    let explanation = database.explanation(of: failure)
    return (
      .unavailable,
      [
        "status": "failing", "reason": .string(failure.reason),
        "since": .string(since.formatted(.iso8601)), "meaning": .string(explanation.meaning),
        "advice": .string(explanation.advice),
      ]
    )
  }

  /// A notification that has waited for so many seconds, other than by its server's pace, is worth a look.
  static let longestWait: TimeInterval = 300

  /// What waits may wait for good reason, but not for long.
  private func outboxCheck() async -> (Status, JSON) {
    let depth = outbox.count
    var check: JSON.Object = ["status": "ok", "depth": .integer(Int64(depth))]
    if let last = outbox.backloggedAt, (0..<60).contains(now().timeIntervalSince(last)) {
      check["status"] = "degraded"
      check["reason"] = .string(
        "notifications are refused: as many as may (\(outbox.mostPerDevice)) wait for their device already, or for its push service"
      )
      check["advice"] = .string(Reason.backlogged.explanation.advice)
      return (.degraded, .object(check))
    }
    guard depth > 0, let answer = await oldest.answer(within: .milliseconds(800)) ?? nil,
      let oldest = answer.oldest
    else { return (.ready, .object(check)) }
    func age(_ date: Date) -> Int64 { Int64(max(0, now().timeIntervalSince(date)).rounded()) }
    check["oldest_seconds"] = .integer(age(oldest))
    guard let late = answer.late, age(late) > Int64(Self.longestWait) else {
      if age(oldest) > Int64(Self.longestWait) {
        check["meaning"] =
          "Notifications keep to their chat server's pace (bouncer.notifications_per_server)."
      }
      return (.ready, .object(check))
    }
    check["status"] = "degraded"
    check["reason"] = .string("a notification has waited for \(Phrase.duration(TimeInterval(age(late))))")
    check["advice"] = """
      See which route does not work: what waits for it is sent as soon as it does, and given up after \
      delivery.max_age.
      """
    return (.degraded, .object(check))
  }

  /// Nothing expires while the clock is doubted; all else goes on.
  private func clockCheck() -> (Status, JSON) {
    guard let doubt = clockDoubt() else { return (.ready, ["status": "ok"]) }
    return (
      .degraded,
      [
        "status": "failing", "reason": .string("\(doubt)"), "since": .string(doubt.since.formatted(.iso8601)),
      ]
    )
  }

  /// One that cannot be taken up leaves the one before in use.
  private static func check(_ certificate: ServerCertificate) -> (Status, JSON) {
    guard let problem = certificate.problem else { return (.ready, ["status": "ok"]) }
    return (.degraded, ["status": "failing", "reason": .string(problem)])
  }

  private func keysCheck() -> (Status, JSON) {
    let snapshot = keyFolder.current
    if snapshot.bouncer.isEmpty {
      return (
        .unavailable,
        [
          "status": "failing", "reason": .string(KeyFolder.Shortage.bouncerKey.problem),
          "advice": .string(KeyFolder.Shortage.bouncerKey.advice),
        ]
      )
    }
    guard !snapshot.problems.isEmpty else { return (.ready, ["status": "ok"]) }
    let problems = snapshot.problems.map { problem -> JSON in
      ["file": .string(problem.file), "problem": .string(problem.message)]
    }
    return (
      .degraded, ["status": "failing", "reason": "key files cannot be used", "problems": .array(problems)]
    )
  }

  /// A check per credential, which fails if one of its routes does.
  private func credentialChecks() -> [(name: String, check: (Status, JSON))] {
    let credentials = keyFolder.current.credentials
    let names =
      credentials.apns.map { (Route.Provider.apns, $0.name) } + credentials.fcm.map { (.fcm, $0.name) }
    let states = Dictionary(grouping: routeStates()) { "\($0.key.provider):\($0.key.credential)" }
    // Anybody may register a device with Nextcloud's proxy: what is wrong with those is shown, and is no fault of the
    // service.
    let doubts = Dictionary(grouping: doubts()) { "\($0.route.provider):\($0.route.credential)" }
    return names.map { provider, name in
      let states = (states["\(provider):\(name)"] ?? []).map { (target: $0.key.target, state: $0.value) }
      var (status, check) = Self.check(states.sorted { $0.target < $1.target })
      let waiting = outbox.count(of: provider, credential: name)
      if waiting > 0 { check["waiting"] = .integer(Int64(waiting)) }
      let doubted = doubts["\(provider):\(name)"] ?? []
      let held = doubted.map(\.held).reduce(0, +)
      if held > 0 {
        check["held_deaths"] = .integer(Int64(held))
        check["advice"] = .string("push-bouncer routes trust \(provider):\(name)")
      }
      if let doubt = doubted.filter({ $0.kind == .nextcloud }).min(by: { $0.since < $1.since }) {
        check["nextcloud"] = .object(
          Self.failing("failing", doubt.reason, on: doubt.route.target, since: doubt.since))
      }
      return ("\(provider):\(name)", (status, .object(check)))
    }
  }

  private static func check(_ routes: [(target: String, state: PushProviders.RouteState)]) -> (
    Status, JSON.Object
  ) {
    for (target, state) in routes {
      let status: JSON
      let (reason, since): (Reason, Date)
      switch state {
      case .unknown, .ok: continue
      case .failing(let failure, let time): (status, reason, since) = ("failing", failure, time)
      case .open(let failure, let time): (status, reason, since) = ("open", failure, time)
      }
      return (.degraded, failing(status, reason, on: target, since: since))
    }
    let isUsed = routes.contains { $0.state == .ok }
    return (.ready, ["status": isUsed ? "ok" : "unknown"])
  }

  /// Strangers choose their push services: they are listed, and only what concerns everybody degrades.
  private static func check(_ services: PushServices) -> (Status, JSON) {
    var check: JSON.Object = ["status": services.working > 0 ? "ok" : "unknown"]
    if let outage = services.outage {
      let explanation = outage.reason.explanation
      check = [
        "status": "failing", "reason": .string("\(outage.reason)"),
        "since": .string(outage.since.formatted(.iso8601)), "meaning": .string(explanation.meaning),
        "advice": .string(explanation.advice),
      ]
    }
    check["working"] = .integer(Int64(services.working))
    check["failing"] = .integer(Int64(services.failing))
    if services.waiting > 0 { check["waiting"] = .integer(Int64(services.waiting)) }
    if services.held > 0 { check["held_deaths"] = .integer(Int64(services.held)) }
    if !services.listed.isEmpty {
      check["failing_services"] = .array(
        services.listed.map {
          [
            "host": .string($0.route.credential), "status": $0.isPaused ? "open" : "failing",
            "reason": .string("\($0.reason)"), "since": .string($0.since.formatted(.iso8601)),
            "waiting": .integer(Int64($0.waiting)),
          ]
        })
    }
    return (services.outage == nil ? .ready : .degraded, .object(check))
  }

  private static func failing(_ status: JSON, _ reason: Reason, on target: String, since: Date) -> JSON.Object
  {
    let explanation = reason.explanation
    return [
      "status": status, "reason": .string("\(reason)"), "route": .string(target),
      "since": .string(since.formatted(.iso8601)), "meaning": .string(explanation.meaning),
      "advice": .string(explanation.advice),
    ]
  }
}
