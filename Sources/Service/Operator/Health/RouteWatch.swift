package import Delivery
package import Foundation
package import Logging
package import Providers
package import Settings
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
    (self.providers, self.outbox, self.now, self.logger) = (providers, outbox, now, logger)
    self.pushServices = pushServices
  }

  /// What has been logged so far.
  struct Told {
    var routes = RouteReporter()
    var webPush = RouteReporter()
    var services = RouteReporter()
    var budget = LineBudget(perMinute: mostLines)
  }

  /// Runs until its task is cancelled.
  package func run() async {
    var told = Told()
    var turn = 0
    await every(Self.interval) {
      look(&told.routes)
      if turn.isMultiple(of: Self.pushServiceTurn), let services = pushServices() {
        look(at: services, &told)
      }
      turn += 1
    }
  }

  func look(_ reporter: inout RouteReporter) {
    let senders = Dictionary(providers.routeSenders.map { ($0.route, $0) }) { $1 }
    for event in reporter.look(at: senders.mapValues(\.state), now: now()) {
      let waiting = outbox.count(for: event.route)
      log(event, "\(event.route)", waiting, Self.wait(waiting), began: .warning, recovered: .notice) {
        ["host": "\(senders[event.route]?.host(for: $0) ?? "")"]
      }
    }
  }

  /// Logs what has changed for Web Push as a whole and for each push service.
  func look(at services: PushServices, _ told: inout Told) {
    let now = now()
    let used = Phrase.count(services.working + services.failing, "push service")
    let failing = "of \(used) used recently \(Phrase.count(services.failing, "fails", "fail"))"
    for event in told.webPush.look(at: services.state.map { [.webPush: $0] } ?? [:], now: now) {
      let sentence = "\(failing), \(Self.wait(services.waiting))"
      log(event, "Web Push", services.waiting, sentence, began: .warning, recovered: .notice)
    }
    for event in told.services.look(at: services.states, now: now)
    where told.budget.spend(1, now: now) > 0 {
      let waiting = outbox.count(for: event.route)
      let sentence = "\(Self.wait(waiting)) of those who chose it"
      log(event, "\(event.route)", waiting, sentence, began: .notice, recovered: .info)
    }
    let leftOut = told.budget.takeLeftOut(now: now)
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
    switch event {
    case .began(_, let reason):
      metadata["reason"] = "\(reason)"
      let explanation = reason.explanation(at: event.route.provider)
      metadata["meaning"] = "\(explanation.meaning)"
      metadata["advice"] = "\(explanation.advice)"
      metadata.merge(more(reason)) { $1 }
      logger.log(level: began, "\(name) does not work (\(reason)): \(consequence)", metadata: metadata)
    case .recovered(_, let seconds):
      metadata["seconds"] = .stringConvertible(Int(seconds.rounded()))
      logger.log(level: recovered, "\(name) works again, after \(Phrase.span(seconds))", metadata: metadata)
    }
  }
}

/// Decides when to log a route: once when it begins to fail, and once when it has recovered. Changes between
/// the two are not logged.
struct RouteReporter {
  enum Event: Hashable {
    case began(Route, Reason)
    /// The route had failed for this many seconds.
    case recovered(Route, after: TimeInterval)

    var route: Route {
      switch self {
      case .began(let route, _), .recovered(let route, _): route
      }
    }
  }

  /// In seconds. A route has recovered only after it has worked for this long; otherwise one that works now
  /// and then would be logged all the time.
  static let steadiness: TimeInterval = 5

  private struct Trouble {
    let since: Date
    /// When the route began to work again.
    var wellSince: Date?
    /// Whether its credential has been replaced and not been used since.
    var isRenewed = false
  }

  private var troubles: [Route: Trouble] = [:]

  /// Compares the states of all routes with those logged so far.
  mutating func look(at states: [Route: PushProviders.RouteState], now: Date) -> [Event] {
    // The operator has removed the credential of a route that is gone, which is not logged.
    troubles = troubles.filter { states[$0.key] != nil }
    // Drops healthy routes before sorting, because nearly all routes are healthy nearly always.
    return states.filter { $0.value.failure != nil || troubles[$0.key] != nil }
      .sorted { $0.key.description < $1.key.description }.compactMap { look(at: $0, $1, now) }
  }

  private mutating func look(at route: Route, _ state: PushProviders.RouteState, _ now: Date) -> Event? {
    switch state {
    case .failing(let reason, let since), .open(let reason, let since):
      guard let trouble = troubles[route], !trouble.isRenewed else {
        troubles[route] = Trouble(since: since)
        return .began(route, reason)
      }
      troubles[route]?.wellSince = nil
    case .unknown:
      troubles[route]?.isRenewed = true
    case .ok:
      guard let trouble = troubles[route] else { return nil }
      // A time after `now` means that the clock was put back.
      guard let wellSince = trouble.wellSince, wellSince <= now else {
        troubles[route]?.wellSince = now
        return nil
      }
      guard now.timeIntervalSince(wellSince) >= Self.steadiness else { return nil }
      troubles[route] = nil
      return .recovered(route, after: max(0, wellSince.timeIntervalSince(trouble.since)))
    }
    return nil
  }
}
