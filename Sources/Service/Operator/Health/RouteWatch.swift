package import Delivery
package import Foundation
package import Logging
internal import Platform
package import Providers
internal import Settings
internal import Timing

/// Logs a line when a route begins to fail and when it has recovered. Lines about push services, which
/// strangers choose, are limited per minute; Web Push as a whole is logged as one route.
package struct RouteWatch: Sendable {
  private static let interval = Duration.seconds(1)
  /// There may be thousands of push services, so they are checked only in every fifth round.
  private static let pushServiceTurn = 5
  static let mostLines = 10

  private let providers: PushProviders
  private let outbox: Outbox
  private let pushServices: @Sendable () -> PushServices?
  private let now: @Sendable () -> Date
  private let logger: Logger

  package init(
    providers: PushProviders, outbox: Outbox, pushServices: @escaping @Sendable () -> PushServices?,
    now: @escaping @Sendable () -> Date, logger: Logger
  ) {
    self.providers = providers
    self.outbox = outbox
    self.now = now
    self.logger = logger
    self.pushServices = pushServices
  }

  /// What has been logged so far.
  struct LastLogged {
    var routes = RouteReporter()
    var webPush = RouteReporter()
    var services = RouteReporter()
    var budget = LineBudget(perMinute: mostLines)
  }

  /// Runs until its task is cancelled.
  package func run() async {
    var logged = LastLogged()
    var turn = 0
    await every(Self.interval) {
      logChanges(since: &logged.routes)
      if turn.isMultiple(of: Self.pushServiceTurn), let services = pushServices() {
        logChanges(of: services, since: &logged)
      }
      turn += 1
    }
  }

  func logChanges(since reporter: inout RouteReporter) {
    let senders = Dictionary(providers.routeSenders.map { ($0.route, $0) }) { $1 }
    for event in reporter.changes(to: senders.mapValues(\.state), now: now()) {
      let waiting = outbox.count(for: event.route)
      log(event, "\(event.route)", waiting, Self.wait(waiting), began: .warning, recovered: .notice) {
        ["host": "\(senders[event.route]?.host(for: $0) ?? "")"]
      }
    }
  }

  /// Logs what has changed for Web Push as a whole and for each push service.
  func logChanges(of services: PushServices, since logged: inout LastLogged) {
    let now = now()
    let used = Phrase.count(services.working + services.failing, "push service")
    let failing = "of \(used) used recently \(Phrase.count(services.failing, "fails", "fail"))"
    for event in logged.webPush.changes(to: services.state.map { [.webPush: $0] } ?? [:], now: now) {
      let sentence = "\(failing), \(Self.wait(services.waiting))"
      log(event, "Web Push", services.waiting, sentence, began: .warning, recovered: .notice)
    }
    for event in logged.services.changes(to: services.states, now: now)
    where logged.budget.spend(1, now: now) > 0 {
      let waiting = outbox.count(for: event.route)
      let sentence = "\(Self.wait(waiting)) of those who chose it"
      log(event, "\(event.route)", waiting, sentence, began: .notice, recovered: .info)
    }
    let leftOut = logged.budget.takeLeftOut(now: now)
    guard leftOut > 0 else { return }
    logger.notice(
      "more push services began to fail or work again", metadata: ["left_out": .stringConvertible(leftOut)])
  }

  private static func wait(_ count: Int) -> String {
    Phrase.count(count, "notification waits", "notifications wait")
  }

  /// - Parameters:
  ///   - consequence: what the failure means for notifications.
  ///   - more: further metadata of a failure for this reason.
  private func log(
    _ event: RouteReporter.Event, _ name: String, _ waiting: Int, _ consequence: String, began: Logger.Level,
    recovered: Logger.Level, more: (Reason) -> Logger.Metadata = { _ in [:] }
  ) {
    var metadata: Logger.Metadata = ["route": "\(event.route)", "waiting": .stringConvertible(waiting)]
    switch event.change {
    case .began(let reason):
      metadata["reason"] = "\(reason)"
      let explanation = reason.explanation(at: event.route.provider)
      metadata["meaning"] = "\(explanation.meaning)"
      metadata["advice"] = "\(explanation.advice)"
      metadata.merge(more(reason)) { $1 }
      logger.log(level: began, "\(name) does not work (\(reason)): \(consequence)", metadata: metadata)
    case .ended(let seconds):
      metadata["seconds"] = .stringConvertible(Int(seconds.rounded()))
      logger.log(level: recovered, "\(name) works again, after \(Phrase.span(seconds))", metadata: metadata)
    }
  }
}

/// Decides when to log each route.
struct RouteReporter {
  struct Event: Hashable {
    let route: Route
    let change: ProblemReporter<Reason>.Event
  }

  private var reporters: [Route: ProblemReporter<Reason>] = [:]

  /// Compares the states of all routes with those logged so far.
  mutating func changes(to states: [Route: PushProviders.RouteState], now: Date) -> [Event] {
    // The operator has removed the credential of a route that is gone, which is not logged.
    reporters = reporters.filter { states[$0.key] != nil }
    // Drops healthy routes before sorting, because nearly all routes are healthy nearly always.
    return states.filter { $0.value.failure != nil || reporters[$0.key] != nil }
      .sorted { $0.key.description < $1.key.description }
      .compactMap { route, state in change(to: state, of: route, now).map { Event(route: route, change: $0) }
      }
  }

  private mutating func change(to state: PushProviders.RouteState, of route: Route, _ now: Date)
    -> ProblemReporter<Reason>.Event?
  {
    var reporter = reporters[route] ?? ProblemReporter(steadiness: 5)
    defer { reporters[route] = reporter.isOpen ? reporter : nil }
    switch state {
    case .failing(let reason, let since), .open(let reason, let since):
      return reporter.update(reason, since: since, now: now)
    case .unknown:
      // Its credential was replaced and has not been used since.
      reporter.expectNew()
      return nil
    case .ok:
      return reporter.update(nil, now: now)
    }
  }
}
