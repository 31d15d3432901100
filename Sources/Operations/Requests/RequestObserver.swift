internal import Delivery
package import Foundation
package import HTTP
internal import HTTPTypes
package import Hummingbird
package import Logging
package import Metrics
internal import Synchronization

/// Counts and logs requests by the route that served them and by who called: never a path's own words, a query, a
/// header or a body.
///
/// Of requests whose callers have not proved who they are it logs so many a minute, and how many more there were.
package struct RequestObserver: RouterMiddleware {
  package typealias Context = WireContext

  private let metrics: RequestMetrics
  private let level: Logger.Level
  private let now: @Sendable () -> Date
  private let lines = StrangersLines()

  /// Reports to the metrics and to the request's logger, to that with a line of this level.
  package init(
    level: Logger.Level = .info, factory: any MetricsFactory = MetricsSystem.factory,
    now: @escaping @Sendable () -> Date = { Date() }
  ) {
    self.level = level
    self.now = now
    metrics = RequestMetrics(factory: factory)
  }

  /// Answers a request through the rest of the chain, whose errors have become answers.
  package func handle(
    _ request: Request, context: WireContext, next: (Request, WireContext) async throws -> Response
  ) async throws -> Response {
    let response = try await next(request, context)
    let duration = ContinuousClock.now - context.received
    let path = context.coreContext.endpointPath.value
    // A path that nothing serves has Hummingbird's own name, which is no path.
    let route = path.flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "unmatched"
    metrics.record(request.method, route, response.status, duration)
    guard context.notes.isFromServer || mayLog(response.status, to: context.logger) else { return response }
    context.logger.log(
      level: level, "request",
      metadata: context.notes.metadata.merging([
        "request_id": "\(response.headers[.xRequestID] ?? "")",
        "method": "\(RequestMetrics.name(request.method))", "route": "\(route)",
        "status": .stringConvertible(response.status.code),
        "ms": .stringConvertible((duration / .microseconds(1)).rounded() / 1000),
      ]) { $1 })
    return response
  }

  /// Whether a line may tell of this answer to a stranger. Tells first how many were left out before.
  private func mayLog(_ status: HTTPResponse.Status, to logger: Logger) -> Bool {
    let (mayLog, leftOut) = lines.spend(isRefused: status.code >= 400, now: now())
    if leftOut > 0 {
      logger.log(
        level: level, "more lines were left out: requests of strangers",
        metadata: ["left_out": .stringConvertible(leftOut)])
    }
    return mayLog
  }
}

/// How many lines may be written of strangers' requests, so that nobody fills the disk: of those that are refused fewer.
private final class StrangersLines: Sendable {
  private let budgets = Mutex((refused: LineBudget(perMinute: 300), others: LineBudget(perMinute: 6000)))

  func spend(isRefused: Bool, now: Date) -> (mayLog: Bool, leftOut: Int) {
    budgets.withLock { budgets in
      let leftOut = budgets.refused.takeLeftOut(now: now) + budgets.others.takeLeftOut(now: now)
      let count = isRefused ? budgets.refused.spend(1, now: now) : budgets.others.spend(1, now: now)
      return (count > 0, leftOut)
    }
  }
}

/// Handles by labels, each made once.
private final class RequestMetrics: Sendable {
  private struct Labels: Hashable {
    let method: String
    let route: String
    let status: Int
  }

  private struct Handles {
    let count: Counter
    let duration: Timer
  }

  private let factory: any MetricsFactory
  private let handles = Mutex<[Labels: Handles]>([:])

  init(factory: any MetricsFactory) {
    self.factory = factory
  }

  func record(
    _ method: HTTPRequest.Method, _ route: String, _ status: HTTPResponse.Status, _ duration: Duration
  ) {
    let labels = Labels(method: Self.name(method), route: route, status: status.code)
    let handles = handles.withLock { handles in
      if let known = handles[labels] { return known }
      let made = Handles(
        count: Counter(
          label: "push_bouncer_http_requests_total",
          dimensions: [("method", labels.method), ("route", route), ("status", "\(labels.status)")],
          factory: factory),
        duration: Timer(
          label: "push_bouncer_http_request_duration_seconds", dimensions: [("route", route)],
          factory: factory))
      handles[labels] = made
      return made
    }
    handles.count.increment()
    handles.duration.record(duration: duration)
  }

  /// The method, if it is one of the known: others come from outside without bound.
  static func name(_ method: HTTPRequest.Method) -> String {
    let known: [HTTPRequest.Method] = [.get, .head, .post, .put, .patch, .delete, .options, .trace, .connect]
    return known.contains(method) ? method.rawValue : "other"
  }
}
