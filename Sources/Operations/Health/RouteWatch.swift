package import Delivery
package import Foundation
package import Logging
package import Providers
internal import Timing

/// Tells the operator in the log of routes that begin to fail and of those that have recovered, in a line each. Of push
/// services, which strangers choose, it tells so many a minute and no more, and of all of Web Push as of one route.
package struct RouteWatch: Sendable {
  private static let interval = Duration.seconds(1)
  /// There may be thousands of push services: they are looked at every so many times.
  private static let pushServiceTurn = 5
  static let mostLines = 10

  private let providers: PushProviders
  private let outbox: Outbox
  private let pushServices: @Sendable () -> PushServices?
  private let now: @Sendable () -> Date
  private let logger: Logger

  /// Watches the routes of `providers`, for which `outbox` keeps what waits.
  ///
  /// - Parameter pushServices: how Web Push fares; nil: it is switched off.
  package init(
    providers: PushProviders, outbox: Outbox, pushServices: @escaping @Sendable () -> PushServices?,
    now: @escaping @Sendable () -> Date, logger: Logger
  ) {
    (self.providers, self.outbox, self.now, self.logger) = (providers, outbox, now, logger)
    self.pushServices = pushServices
  }

  /// What has been told.
  struct Told {
    var routes = RouteReporter()
    var webPush = RouteReporter()
    var services = RouteReporter()
    var budget = LineBudget(perMinute: mostLines)
  }

  /// Watches until its task is cancelled.
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
      switch event {
      case .began(let route, let reason):
        let waiting = outbox.count(for: route)
        logger.warning(
          """
          \(route) does not work (\(reason)): \
          \(Phrase.count(waiting, "notification waits", "notifications wait"))
          """,
          metadata: metadata(reason, waiting).merging([
            "route": "\(route)", "host": "\(senders[route]?.host(for: reason) ?? "")",
          ]) { $1 })
      case .recovered(let route, let seconds):
        recovered(route, after: seconds, waiting: outbox.count(for: route), level: .notice)
      }
    }
  }

  /// Takes a look at Web Push.
  func look(at services: PushServices, _ told: inout Told) {
    let now = now()
    for event in told.webPush.look(at: services.state.map { [.webPush: $0] } ?? [:], now: now) {
      switch event {
      case .began(let route, let reason):
        logger.warning(
          """
          Web Push does not work (\(reason)): of \(Phrase.count(services.working + services.failing, "push service")) \
          used of late \(Phrase.number(services.failing)) \(services.failing == 1 ? "fails" : "fail"), \
          \(Phrase.count(services.waiting, "notification waits", "notifications wait"))
          """,
          metadata: metadata(reason, services.waiting).merging(["route": "\(route)"]) { $1 })
      case .recovered(let route, let seconds):
        recovered(route, called: "Web Push", after: seconds, waiting: services.waiting, level: .notice)
      }
    }
    for event in told.services.look(at: services.states, now: now)
    where told.budget.spend(1, now: now) > 0 {
      switch event {
      case .began(let route, let reason):
        let waiting = outbox.count(for: route)
        logger.notice(
          """
          \(route) does not work (\(reason)): \
          \(Phrase.count(waiting, "notification waits", "notifications wait")) of those who chose it
          """, metadata: metadata(reason, waiting).merging(["route": "\(route)"]) { $1 })
      case .recovered(let route, let seconds):
        recovered(route, after: seconds, waiting: outbox.count(for: route), level: .info)
      }
    }
    let leftOut = told.budget.takeLeftOut(now: now)
    guard leftOut > 0 else { return }
    logger.notice(
      "more push services began to fail or work again", metadata: ["left_out": .stringConvertible(leftOut)])
  }

  private func metadata(_ reason: Reason, _ waiting: Int) -> Logger.Metadata {
    let explanation = reason.explanation
    return [
      "reason": "\(reason)", "waiting": .stringConvertible(waiting), "meaning": "\(explanation.meaning)",
      "advice": "\(explanation.advice)",
    ]
  }

  private func recovered(
    _ route: Route, called name: String? = nil, after seconds: TimeInterval, waiting: Int, level: Logger.Level
  ) {
    logger.log(
      level: level, "\(name ?? route.description) works again, after \(Phrase.span(seconds))",
      metadata: [
        "route": "\(route)", "seconds": .stringConvertible(Int(seconds.rounded())),
        "waiting": .stringConvertible(waiting),
      ])
  }
}

/// Decides when a person is told of a route: once when it begins to fail, once when it has recovered. Nothing is said
/// of what happens between.
struct RouteReporter {
  /// Something to tell.
  enum Event: Hashable {
    case began(Route, Reason)
    /// It had failed for so many seconds.
    case recovered(Route, after: TimeInterval)
  }

  /// A route that works now and then while it fails would be told of all the time: it has to work for so many seconds.
  static let steadiness: TimeInterval = 5

  private struct Trouble {
    let since: Date
    /// Since when it works again.
    var wellSince: Date?
    /// Its credential has been replaced, and has not been used yet.
    var isRenewed = false
  }

  private var troubles: [Route: Trouble] = [:]

  /// Takes a look at all routes.
  mutating func look(at states: [Route: PushProviders.RouteState], now: Date) -> [Event] {
    // A route that is gone is no news: the operator has removed it.
    troubles = troubles.filter { states[$0.key] != nil }
    // Nearly always all is well: what need not be told of need not be sorted.
    return states.filter { $0.value.isFailing || troubles[$0.key] != nil }
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
      // After now: the clock was put back.
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

extension PushProviders.RouteState {
  fileprivate var isFailing: Bool {
    switch self {
    case .unknown, .ok: false
    case .failing, .open: true
    }
  }
}
