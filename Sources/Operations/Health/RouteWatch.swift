package import Delivery
package import Foundation
package import Logging
package import Providers
internal import Timing

/// Tells the operator in the log of routes that begin to fail and of those that have recovered, in a line each.
package struct RouteWatch: Sendable {
  private static let interval = Duration.seconds(1)

  private let providers: PushProviders
  private let outbox: Outbox
  private let now: @Sendable () -> Date
  private let logger: Logger

  /// Watches the routes of `providers`, for which `outbox` keeps what waits.
  package init(
    providers: PushProviders, outbox: Outbox, now: @escaping @Sendable () -> Date, logger: Logger
  ) {
    (self.providers, self.outbox, self.now, self.logger) = (providers, outbox, now, logger)
  }

  /// Watches until its task is cancelled.
  package func run() async {
    var reporter = RouteReporter()
    await every(Self.interval) { look(&reporter) }
  }

  func look(_ reporter: inout RouteReporter) {
    let senders = Dictionary(providers.routeSenders.map { ($0.route, $0) }) { $1 }
    for event in reporter.look(at: senders.mapValues(\.state), now: now()) {
      switch event {
      case .began(let route, let reason):
        let explanation = reason.explanation
        let waiting = outbox.count(for: route)
        logger.warning(
          """
          \(route) does not work (\(reason)): \
          \(Phrase.count(waiting, "notification waits", "notifications wait"))
          """,
          metadata: [
            "route": "\(route)", "reason": "\(reason)", "host": "\(senders[route]?.host(for: reason) ?? "")",
            "waiting": .stringConvertible(waiting), "meaning": "\(explanation.meaning)",
            "advice": "\(explanation.advice)",
          ])
      case .recovered(let route, let seconds):
        logger.notice(
          "\(route) works again, after \(Phrase.span(seconds))",
          metadata: [
            "route": "\(route)", "seconds": .stringConvertible(Int(seconds.rounded())),
            "waiting": .stringConvertible(outbox.count(for: route)),
          ])
      }
    }
  }
}
