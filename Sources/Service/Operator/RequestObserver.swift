package import Foundation
package import HTTP
import HTTPTypes
package import Hummingbird
package import Logging
package import Metrics
import Platform
import Synchronization

/// Counts and logs requests by route and caller. It never logs a request's actual path, query, headers or
/// body, only short names of what a newer sender may have added to them.
///
/// Log lines about unauthenticated callers are limited per minute; the number of lines left out is logged.
package final class RequestObserver: Layer {
  private struct Labels: Hashable {
    let method: String
    let path: String
    let status: Int
  }

  /// What additions are counted by.
  private struct AdditionLabels: Hashable {
    let path: String
    let part: Additions.Kind
  }

  private let factory: any MetricsFactory
  /// Looking one up in the registry writes its labels, which would cost each request some 10 µs.
  private let metrics = Mutex<[Labels: (Counter, Timer)]>([:])
  /// What newer senders may have added: its counter, and what was logged.
  private let additions = Mutex<[AdditionLabels: (count: Counter, logged: Set<String>)]>([:])
  /// How many different additions are logged for a route and kind: callers may invent any number.
  private static let mostLogged = 20
  private let level: Logger.Level
  private let now: @Sendable () -> Date
  private let rateLimited = RateLimitedLog()
  /// Lines about unauthenticated callers.
  private static let refused = RateLimitedLog.Limit("refused requests of untrusted callers", perMinute: 300)
  private static let others = RateLimitedLog.Limit("requests of untrusted callers", perMinute: 6000)

  /// - Parameter level: the level of the log line for each request.
  package init(
    level: Logger.Level = .info, factory: any MetricsFactory = MetricsSystem.factory,
    now: @escaping @Sendable () -> Date = { Date() }
  ) {
    self.level = level
    self.now = now
    self.factory = factory
  }

  package func answer(
    _ request: Request, _ context: WireContext, _ next: Routes.Handler
  ) async throws -> Response {
    let response = try await next(request, context)
    let duration = ContinuousClock.now - context.received
    let path = context.coreContext.endpointPath.value
    // For a path without a route, Hummingbird has a name that does not begin with a slash.
    let route = path.flatMap { $0.hasPrefix("/") ? $0 : nil } ?? "unmatched"
    count(request.method, route, response.status, duration)
    countAdditions(context.notes.additions, route, context.logger)
    func metadata() -> Logger.Metadata {
      context.notes.metadata.merging([
        "request_id": "\(response.headers[.xRequestID] ?? "")",
        "method": "\(Self.name(request.method))", "route": "\(route)",
        "status": .stringConvertible(response.status.code),
        "ms": .stringConvertible((duration / .microseconds(1)).rounded() / 1000),
      ]) { $1 }
    }
    if context.notes.isFromServer {
      context.logger.log(level: level, "request", metadata: metadata())
    } else {
      rateLimited.log(
        level, "request", response.status.code >= 400 ? Self.refused : Self.others, to: context.logger,
        now: now(), metadata: metadata())
    }
    return response
  }

  private func count(
    _ method: HTTPRequest.Method, _ route: String, _ status: HTTPResponse.Status, _ duration: Duration
  ) {
    let labels = Labels(method: Self.name(method), path: route, status: status.code)
    let (count, timer) = metrics.withLock { metrics in
      if let known = metrics[labels] { return known }
      let made = (
        Counter(
          label: "push_bouncer_http_requests_total",
          dimensions: [("method", labels.method), ("path", route), ("status", "\(status.code)")],
          factory: factory),
        Timer(
          label: "push_bouncer_http_request_duration_seconds", dimensions: [("path", route)],
          factory: factory)
      )
      metrics[labels] = made
      return made
    }
    count.increment()
    timer.record(duration: duration)
  }

  /// Counts what a newer sender may have added, and logs each once.
  private func countAdditions(_ found: Additions, _ route: String, _ logger: Logger) {
    for (addition, count) in found.counts {
      let isNew = additions.withLock { known in
        let kind = addition.kind
        let labels = AdditionLabels(path: route, part: kind)
        var entry =
          known[labels] ?? (
            Counter(
              label: "push_bouncer_unknown_input_total",
              dimensions: [("path", route), ("part", kind.rawValue)], factory: factory), []
          )
        entry.count.increment(by: count)
        let isNew = entry.logged.count < Self.mostLogged && entry.logged.insert(addition.text).inserted
        known[labels] = entry
        return isNew
      }
      guard isNew else { continue }
      logger.notice(
        "what is not known here was ignored: a newer Zulip or Nextcloud?",
        metadata: ["route": "\(route)", "\(addition.kind)": "\(addition.text)"])
    }
  }

  /// The name of a well-known method. Other methods share one name, because callers could invent any number
  /// of them.
  private static func name(_ method: HTTPRequest.Method) -> String {
    let known: [HTTPRequest.Method] = [.get, .head, .post, .put, .patch, .delete, .options, .trace, .connect]
    return known.contains(method) ? method.rawValue : "other"
  }
}
