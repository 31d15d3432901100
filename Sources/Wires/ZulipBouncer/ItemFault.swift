import Foundation
package import HTTP
import Logging
import Metrics

/// The reason why a notification of a request cannot be sent.
package enum ItemFault: Error {
  /// The notification is invalid; the error is the one for the caller.
  case malformed(APIError)
  /// The payload is too large for its provider.
  case tooLarge
  /// The payload is nested too deeply.
  case tooDeep
  /// The token does not open: it is damaged or was sealed with another storage key.
  case unreadable

  fileprivate var reason: String {
    switch self {
    case .malformed: "malformed"
    case .tooLarge: "payload_too_large"
    case .tooDeep: "payload_too_deep"
    case .unreadable: "registration_unreadable"
    }
  }
}

/// The faults of a request.
struct ItemFaults {
  private var counts: [String: Int] = [:]
  /// The first one that the caller should be told.
  private(set) var first: APIError?

  mutating func add(_ fault: ItemFault, count: Int = 1) {
    guard count > 0 else { return }
    counts[fault.reason, default: 0] += count
    if case .malformed(let error) = fault, first == nil { first = error }
  }

  /// Starts each counter at 0: Prometheus sees no increase in a counter that appears with its first value.
  static func prepare() {
    for fault: ItemFault in [.malformed(APIError("")), .tooLarge, .tooDeep, .unreadable] {
      counter(fault.reason).increment(by: 0)
    }
  }

  private static func counter(_ reason: String) -> Counter {
    Counter(label: "push_bouncer_notifications_invalid_total", dimensions: [("reason", reason)])
  }

  /// Counts the dropped notifications and logs them in one line.
  func report(to logger: Logger) {
    guard !counts.isEmpty else { return }
    for (reason, count) in counts { Self.counter(reason).increment(by: count) }
    var metadata = counts.mapValues { Logger.MetadataValue.stringConvertible($0) }
    // The message names the field, never its value.
    if let first { metadata["first"] = .string(first.message) }
    logger.warning("notifications that cannot be sent were dropped", metadata: metadata)
  }
}
