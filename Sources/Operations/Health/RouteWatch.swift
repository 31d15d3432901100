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
