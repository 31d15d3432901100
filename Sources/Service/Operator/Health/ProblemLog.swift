import Basics
import Delivery
import Foundation
package import Logging
import Platform
package import Providers

extension Readiness {
  /// Logs when the clock, the database, a route or Web Push begins to fail and when it works again, until the task
  /// is cancelled.
  package func logProblems(of providers: PushProviders, to logger: Logger) async {
    var log = ProblemLog(logger)
    var round = 0
    await every(.seconds(1)) {
      log.check(clockDoubt(), now: now())
      log.check(providers.routeSenders, outbox, now: now())
      // There may be thousands of push services.
      if round.isMultiple(of: 5), let services = pushServices() { log.check(services, outbox, now: now()) }
      if round.isMultiple(of: 2) {
        // Every test write is a commit, so most checks are reads while the database works.
        let isWriting = log.isDatabaseFailing || database.isSuspect || round.isMultiple(of: 10)
        let failure = await isWriting ? nil : database.readFailure()
        // Also tells since when.
        let finding = await isWriting || failure != nil ? database.finding() : nil
        guard !Task.isCancelled else { return }
        log.check(
          finding?.failure, finding.map { database.explanation(of: $0.failure) }, since: finding?.since,
          now: now())
      }
      if round.isMultiple(of: 10) { log.check(await failoverReport()?.loss) }
      round += 1
    }
  }
}

/// Logs each problem once when it begins and once when it is over. Lines about push services, which untrusted devices
/// choose, are limited per minute; Web Push as a whole is logged as one route.
struct ProblemLog {
  static let pushServiceLimit = RateLimitedLog.Limit(
    "push services that began to fail or work again", perMinute: 10)

  private let logger: Logger
  private let rateLimited = RateLimitedLog()
  private var clock = ProblemReporter()
  /// A moment counts neither as a failure of the database nor as its end.
  private var database = ProblemReporter(onset: 2, steadiness: 1)
  /// The reasons of the database's present problem that have their line, and the last one that was seen.
  private var databaseReasons: (told: Set<String>, last: String) = ([], "")
  private var routes = RouteReporters()
  private var webPush = RouteReporters()
  private var pushServices = RouteReporters()

  private var toldLoss: FailoverReport.Loss?

  init(_ logger: Logger) { self.logger = logger }

  var isDatabaseFailing: Bool { database.isOpen }

  mutating func check(_ doubt: ClockDoubt?, now: Date) {
    switch clock.update(isFailing: doubt != nil, since: doubt?.since, now: now) {
    case .began:
      logger.warning(
        "the clock may be wrong",
        metadata: Self.metadata(
          doubt?.description, Explanation(ClockDoubt.meaning, Advice(ClockDoubt.advice))))
    case .ended(let seconds):
      logger.notice(
        "the clock is trusted again, after \(Phrase.span(seconds))", metadata: Self.metadata(seconds))
    case nil: break
    }
  }

  /// - Parameter since: when the failure began.
  mutating func check(
    _ failure: DatabaseCheck.Failure?, _ explanation: Explanation?, since: Date? = nil, now: Date
  ) {
    let event = database.update(isFailing: failure != nil, since: since, now: now)
    if let failure {
      // What was first met is not always the cause: a server that restarts is lost, and then refuses the login.
      let isAnother = database.isLogged && failure != .timeout && failure.reason == databaseReasons.last
      databaseReasons.last = failure.reason
      if event == .began || isAnother, databaseReasons.told.insert(failure.reason).inserted {
        logger.log(
          level: failure.isOfFiles ? .error : .warning, "\(failure.summary)",
          metadata: Self.metadata(failure.reason, explanation))
      }
    } else if !database.isLogged {
      databaseReasons = ([], "")
    }
    switch event {
    case .began: break
    case .ended(let seconds):
      logger.notice(
        "the database works again, after \(Phrase.span(seconds))", metadata: Self.metadata(seconds))
    case nil: break
    }
  }

  /// - Parameter loss: the last failover that may have lost something; nil if there was none for long.
  mutating func check(_ loss: FailoverReport.Loss?) {
    guard let loss, loss != toldLoss else { return }
    toldLoss = loss
    logger.warning(
      "\(FailoverReport.Loss.summary)",
      metadata: Self.metadata("failover", Explanation(loss.meaning, Advice(FailoverReport.Loss.advice))))
  }

  mutating func check(_ senders: [RouteSender], _ outbox: Outbox, now: Date) {
    let senders = Dictionary(senders.map { ($0.route, $0) }) { $1 }
    for change in routes.update(senders.mapValues(\.state), now: now) {
      let waiting = outbox.count(for: change.route)
      var line = Line(change, "\(change.route)", Self.wait(waiting), waiting)
      if let reason = change.reason {
        line.metadata["host"] = "\(senders[change.route]?.host(for: reason) ?? "")"
      }
      logger.log(level: change.hasBegun ? .warning : .notice, line.message, metadata: line.metadata)
    }
  }

  /// Logs what has changed for Web Push as a whole and for each push service.
  mutating func check(_ services: PushServices, _ outbox: Outbox, now: Date) {
    for change in webPush.update(services.state.map { [.webPush: $0] } ?? [:], now: now) {
      let used = Phrase.count(services.working + services.failing, "push service")
      let failing = "of \(used) used recently \(Phrase.count(services.failing, "fails", "fail"))"
      let line = Line(change, "Web Push", "\(failing), \(Self.wait(services.waiting))", services.waiting)
      logger.log(level: change.hasBegun ? .warning : .notice, line.message, metadata: line.metadata)
    }
    for change in pushServices.update(services.states, now: now) {
      let waiting = outbox.count(for: change.route)
      let line = Line(change, "\(change.route)", "\(Self.wait(waiting)) of those who chose it", waiting)
      rateLimited.log(
        change.hasBegun ? .notice : .info, line.message, Self.pushServiceLimit, to: logger, now: now,
        metadata: line.metadata)
    }
    rateLimited.logLeftOut(to: logger, now: now)
  }

  /// A line about a route.
  private struct Line {
    let message: Logger.Message
    var metadata: Logger.Metadata

    /// - Parameter consequence: what a failure means for notifications.
    init(_ change: RouteReporters.Change, _ name: String, _ consequence: String, _ waiting: Int) {
      switch change.event {
      case .began:
        let reason = change.reason ?? .unknown
        message = "\(name) does not work (\(reason)): \(consequence)"
        metadata = ProblemLog.metadata("\(reason)", reason.explanation(at: change.route.provider))
      case .ended(let seconds):
        message = "\(name) works again, after \(Phrase.span(seconds))"
        metadata = ProblemLog.metadata(seconds)
      }
      metadata["route"] = "\(change.route)"
      metadata["waiting"] = .stringConvertible(waiting)
    }
  }

  private static func wait(_ count: Int) -> String {
    Phrase.count(count, "notification waits", "notifications wait")
  }

  private static func metadata(_ reason: String?, _ explanation: Explanation?) -> Logger.Metadata {
    [
      "reason": "\(reason ?? "")", "meaning": .stringConvertible(explanation?.meaning ?? ""),
      "advice": .stringConvertible(explanation?.advice ?? ""),
    ]
  }

  private static func metadata(_ seconds: TimeInterval) -> Logger.Metadata {
    ["seconds": .stringConvertible(Int(seconds.rounded()))]
  }
}

/// Decides when to log each route.
struct RouteReporters {
  struct Change: Hashable {
    let route: Route
    let event: ProblemReporter.Event
    /// Why the route fails; nil if it works again.
    let reason: Reason?

    var hasBegun: Bool { event == .began }
  }

  private var reporters: [Route: ProblemReporter] = [:]

  /// Compares the states of all routes with those logged so far.
  mutating func update(_ states: [Route: PushProviders.RouteState], now: Date) -> [Change] {
    // The operator has removed the credential of a route that is gone, which is not logged.
    reporters = reporters.filter { states[$0.key] != nil }
    // Drops healthy routes before sorting, because nearly all routes are healthy nearly always.
    return states.filter { $0.value.failure != nil || reporters[$0.key] != nil }
      .sorted { $0.key.description < $1.key.description }
      .compactMap { route, state in
        update(state, of: route, now).map { Change(route: route, event: $0, reason: state.failure?.reason) }
      }
  }

  private mutating func update(_ state: PushProviders.RouteState, of route: Route, _ now: Date)
    -> ProblemReporter.Event?
  {
    var reporter = reporters[route] ?? ProblemReporter(steadiness: 5)
    defer { reporters[route] = reporter.isOpen ? reporter : nil }
    if case .unknown = state {
      // Its credential was replaced and has not been used since.
      reporter.expectNew()
      return nil
    }
    return reporter.update(isFailing: state.failure != nil, since: state.failure?.since, now: now)
  }
}
