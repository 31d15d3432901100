package import Foundation
package import HTTP
package import Providers

/// How a route, or another part of the service, fares: what `/readyz`, `routes list` and `push/status` say of it.
package struct StatusReport: Sendable, Hashable {
  /// Of a route: `ok`, `unknown` before its first use, `failing`, `open` if it is paused and only probed with single
  /// notifications, or `unconfigured` without a credential. Other parts may also be `degraded` or `draining`.
  package let status: String
  /// The topic, project or push service of the route.
  package let target: String?
  /// Since when it fails.
  package let since: Date?
  /// The provider's name for the reason, or this program's own.
  package let reason: String?
  package let meaning: String?
  package let advice: String?

  package init(
    _ status: String, target: String? = nil, since: Date? = nil, reason: String? = nil,
    meaning: String? = nil, advice: String? = nil
  ) {
    self.status = status
    self.target = target
    self.since = since
    self.reason = reason
    self.meaning = meaning
    self.advice = advice
  }

  /// A route's; without a state, that of a route without a credential.
  package init(
    _ state: PushProviders.RouteState?, target: String?, for reader: Explanation.Reader = .operator
  ) {
    let status =
      switch state {
      case nil: "unconfigured"
      case .unknown: "unknown"
      case .ok: "ok"
      case .failing: "failing"
      case .open: "open"
      }
    let reason = state == nil ? .unconfigured : state?.failure?.reason
    let explanation = reason?.explanation.told(to: reader)
    self.init(
      status, target: target, since: state?.failure?.since, reason: reason?.rawValue,
      meaning: explanation?.meaning, advice: explanation?.advice)
  }

  /// Reads ``json``; nil without a status.
  package init?(_ json: JSON) {
    guard let status = json["status"]?.string else { return nil }
    self.init(
      status, target: json["target"]?.string,
      since: json["since"]?.string.flatMap { try? Date($0, strategy: .iso8601) },
      reason: json["reason"]?.string, meaning: json["meaning"]?.string, advice: json["advice"]?.string)
  }

  /// - Parameter statuses: what the status may be.
  package static func members(_ statuses: [String]) -> [JSONMember<StatusReport>] {
    [
      .member("status", .oneOf(statuses)) { .string($0.status) },
      .member("target", "bundle id, Firebase project or push service") { $0.target },
      .member("since", "since when it fails") { $0.since },
      .member("reason", "as in [Reasons](Reasons.md)") { $0.reason },
      .member("meaning", "what the reason means, in sentences") { $0.meaning },
      .member("advice", "what to do, in sentences") { $0.advice },
    ]
  }

  /// Those of a route that there is a credential for.
  package static var routeStatuses: [String] { ["ok", "unknown", "failing", "open"] }

  package var json: JSON.Object { Self.members([]).object(self) }
}

extension PushProviders.RouteState {
  /// Why and since when requests fail; nil unless they do.
  package var failure: (reason: Reason, since: Date)? {
    switch self {
    case .unknown, .ok: nil
    case .failing(let reason, let since), .open(let reason, let since): (reason, since)
    }
  }
}
